// Package api holds the shapes that travel between Parley and its clients: one
// struct for every request and every answer, named after the specification.
//
// The structs carry the rules that a schema can state as field tags, so that
// the server's binder, the OpenAPI document and the Go client read one source:
//
//   - json, path, query, header: where a field travels. Fields that do not
//     travel in the body have json:"-". An embedded struct contributes its
//     fields as if they stood in the embedding one. A header tag that begins
//     with X-Svc- names a header whose middle word is the server's brand.
//   - brand:"true" on a member of a request's or an answer's root: its name there
//     is the server's brand, see Rebrand.
//   - required, minLength, maxLength, pattern, enum, minimum, maximum, maxItems,
//     default, format: as in JSON Schema; lengths count characters. Of a map
//     maxItems bounds the members, maxLength each value.
//   - aliases: other names under which the field is accepted.
//   - maxBytes: the size of a raw JSON value when written compactly.
//   - additionalProperties:"false" on a blank field: other members are refused.
//
// In requests a pointer, slice or raw value that is nil is absent, and null
// means absent, but for Clearable fields. In answers every field is present and
// null when empty, but for the few documented as appearing only at times.
//
// All shapes read and write alike with encoding/json and with
// github.com/go-json-experiment/json.
package api
