package main

import (
	"encoding/json"
	"slices"
	"strings"
)

// excused are the free fields that cannot have a canary, and why.
var excused = map[string]string{
	"PATCH /org body.country_code":                      "two letters",
	"PUT /agents/{id}/card body.svc.languages[]":        "letters in parts of eight",
	"PUT /agents/{id}/key-binding body.signed_at":       "an instant",
	"POST /org/credentials body.expires_at":             "an instant",
	"POST /agents/{id}/keys body.key_binding.signed_at": "an instant",
	"POST /a2a/{handle} query.A2A-Version":              "another place of the header, which has one",
}

// requireAllFilled checks that every field of every request that stores something had a
// canary, unless it has a fixed set of values or is excused.
func (x *story) requireAllFilled() {
	x.t.Helper()
	_, document, raw := x.call("", "GET", "/openapi.json", nil)
	if document == nil {
		x.t.Fatalf("no description of the interface: %.200s", raw)
	}
	free := freeFields(document)
	for _, field := range free {
		if _, ok := excused[field]; !x.filled[field] && !ok {
			x.t.Errorf("no canary was put into %s", field)
		}
	}
	for field := range excused {
		if !slices.Contains(free, field) || x.filled[field] {
			x.t.Errorf("%s needs no excuse", field)
		}
	}
	if len(free) < 60 {
		x.t.Errorf("the interface has %d fields", len(free))
	}
	with := withField(document)
	if got := freeFields(with); !slices.Contains(got, "POST /groups body.new[].field") || len(got) != len(free)+1 {
		x.t.Errorf("a new field is not noticed: %q", got)
	}
}

// withField adds a field to a copy of the description.
func withField(document object) object {
	raw, _ := json.Marshal(document)
	var with object
	_ = json.Unmarshal(raw, &with)
	group := with["components"].(object)["schemas"].(object)["CreateGroup"].(object)["properties"].(object)
	group["new"] = object{"type": "array", "items": object{"type": "object", "properties": object{"field": object{"type": []any{"string", "null"}}}}}
	return with
}

// freeFields returns the fields of all requests but GET that may have any text.
func freeFields(document object) (fields []string) {
	resolve := func(v any) object {
		schema, _ := v.(object)
		for schema["$ref"] != nil {
			var at any = document
			for name := range strings.SplitSeq(strings.TrimPrefix(schema["$ref"].(string), "#/"), "/") {
				at = at.(object)[name]
			}
			schema = at.(object)
		}
		return schema
	}
	var walk func(field string, v any)
	walk = func(field string, v any) {
		schema := resolve(v)
		for _, several := range []string{"allOf", "anyOf", "oneOf"} {
			for _, one := range list(schema[several]) {
				walk(field, one)
			}
		}
		members, _ := schema["properties"].(object)
		for name, member := range members {
			walk(field+"."+name, member)
		}
		items := resolve(schema["items"])
		if len(items) > 0 {
			walk(field+"[]", items)
		}
		composed := schema["allOf"] != nil || schema["anyOf"] != nil || schema["oneOf"] != nil
		if !composed && len(members) == 0 && len(items) == 0 && isFree(schema) {
			fields = append(fields, field)
		}
	}
	for path, methods := range document["paths"].(object) {
		for method, v := range methods.(object) {
			operation, ok := v.(object)
			if !ok || method == "get" {
				continue
			}
			route := strings.ToUpper(method) + " " + path + " "
			for _, v := range list(operation["parameters"]) {
				parameter := resolve(v)
				if parameter["in"] == "path" { // it names what exists, and its name is a field of another request
					continue
				}
				walk(route+parameter["in"].(string)+"."+parameter["name"].(string), parameter["schema"])
			}
			content, _ := resolve(operation["requestBody"])["content"].(object)
			for _, body := range content {
				walk(route+"body", body.(object)["schema"])
			}
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// isFree reports whether a schema allows texts that are not fixed and not ids.
func isFree(schema object) bool {
	kinds := list(schema["type"])
	if kind, ok := schema["type"].(string); ok {
		kinds = []any{kind}
	}
	fixed := func(kind any) bool {
		return slices.Contains([]any{"integer", "number", "boolean", "null"}, kind)
	}
	return schema["enum"] == nil && schema["const"] == nil && schema["format"] != "uuid" && (len(kinds) == 0 || !slices.ContainsFunc(kinds, fixed) || slices.ContainsFunc(kinds, func(kind any) bool { return !fixed(kind) }))
}

func list(v any) []any {
	all, _ := v.([]any)
	return all
}
