package a2a

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/client/api"
	"parley/client/parley"
	"parley/http/content"
)

const (
	// partsBytesMax bounds the JSON of a message's parts: in base64url they are a payload.
	partsBytesMax = 98304
	// inlineBytesMax is how long parts may be to stand in the metadata of the message too.
	inlineBytesMax = 2 << 10
	// partsMax bounds the number of parts.
	partsMax = 1000
)

// sealedPart is the data of a part that only the recipient can read.
type sealedPart struct {
	Payload    string  `json:"encrypted_payload"`
	Version    string  `json:"encryption_version,omitzero"`
	SigningKid *string `json:"sender_signing_kid,omitzero"`
}

// contents are the members of a part of which it has exactly one.
var contents = []string{"text", "raw", "url", "data"}

// part is one part of a message.
type part map[string]jsontext.Value

// check returns why a part is not one of A2A 1.0, nil if it is.
func (p part) check() error {
	if _, old := p["kind"]; old {
		return errors.New(`the member "kind" is of A2A 0.3; send the shapes of 1.0`)
	}
	found := ""
	for _, name := range contents {
		value, given := p[name]
		if !given || value.Kind() == 'n' && name != "data" {
			continue
		}
		if found != "" {
			return fmt.Errorf("has both %s and %s", found, name)
		}
		if found = name; name != "data" && value.Kind() != '"' {
			return fmt.Errorf("%s must be a string", name)
		}
		if name == "raw" && !isBase64(value) {
			return errors.New("raw must be base64")
		}
	}
	if found == "" {
		return errors.New("has none of text, raw, url and data")
	}
	for _, name := range []string{"filename", "mediaType"} {
		if value, given := p[name]; given && value.Kind() != '"' && value.Kind() != 'n' {
			return fmt.Errorf("%s must be a string", name)
		}
	}
	if value, given := p["metadata"]; given && value.Kind() != '{' && value.Kind() != 'n' {
		return errors.New("metadata must be an object")
	}
	return nil
}

func isBase64(quoted jsontext.Value) bool {
	text := ""
	if json.Unmarshal(quoted, &text) != nil {
		return false
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if _, err := encoding.DecodeString(text); err == nil {
			return true
		}
	}
	return false
}

// limits of the members of a sealed part, as in POST /messages.
var (
	sealedPayload  = regexp.MustCompile(`^[A-Za-z0-9_-]+={0,2}$`)
	sealedVersions = []string{api.HPKEv1, api.SenderKeyV1}
)

func (s *sealedPart) check() error {
	switch {
	case !sealedPayload.MatchString(s.Payload):
		return errors.New("encrypted_payload must be base64url")
	case len(s.Payload) > parley.PayloadCharsMax:
		return fmt.Errorf("encrypted_payload must have at most %d characters", parley.PayloadCharsMax)
	case !slices.Contains(sealedVersions, s.Version):
		return fmt.Errorf("encryption_version must be one of %s", strings.Join(sealedVersions, ", "))
	case s.SigningKid != nil && utf8.RuneCountInString(*s.SigningKid) > parley.SigningKidMax:
		return fmt.Errorf("sender_signing_kid must have at most %d characters", parley.SigningKidMax)
	}
	return nil
}

// content returns which content the part has, "" if it has none.
func (p part) content() string {
	for _, name := range contents {
		if value, given := p[name]; given && (value.Kind() != 'n' || name == "data") {
			return name
		}
	}
	return ""
}

// text returns a member that is a string, "" if it is absent.
func (p part) text(name string) (text string) {
	if value := p[name]; value.Kind() == '"' {
		_ = json.Unmarshal(value, &text) // it is a string
	}
	return text
}

// readParts reads the parts of a message, compact. The error is for the field
// message.parts.
func readParts(raw jsontext.Value) (parts []part, compact jsontext.Value, err error) {
	if len(raw) > parley.BodyBytesMax || len(raw) > 0 && checkShape(raw) != nil {
		return nil, nil, invalid("message.parts", "has too many values, or nests too deep")
	}
	compact = raw.Clone()
	if compact.Kind() != '[' || compact.Compact() != nil || json.Unmarshal(compact, &parts) != nil {
		return nil, nil, invalid("message.parts", "must be an array of objects")
	}
	switch {
	case len(parts) == 0:
		return nil, nil, invalid("message.parts", "must have at least one part")
	case len(parts) > partsMax:
		return nil, nil, invalid("message.parts", fmt.Sprintf("has more than %d parts", partsMax))
	}
	for i, p := range parts {
		if err := p.check(); err != nil {
			return nil, nil, invalid(fmt.Sprintf("message.parts[%d]", i), err.Error())
		}
	}
	return parts, compact, nil
}

// checkClear refuses cleartext parts that are too long for a payload.
func checkClear(compact jsontext.Value) error {
	if len(compact) > partsBytesMax {
		return invalid("message.parts", fmt.Sprintf("takes more than %d bytes of JSON", partsBytesMax))
	}
	return nil
}

// sealedIn returns the sealed content of parts, nil if they are cleartext.
func (b *Bridge) sealedIn(parts []part) (*sealedPart, error) {
	for i, p := range parts {
		if p.text("mediaType") != SealedMedia(b.Brand) || p["data"] == nil {
			continue
		}
		field := fmt.Sprintf("message.parts[%d].data", i)
		if len(parts) > 1 {
			return nil, invalid(field, "a sealed part must be the only one")
		}
		sealed := &sealedPart{Version: api.HPKEv1}
		if err := json.Unmarshal(p["data"], sealed); err != nil {
			return nil, invalid(field, "must be an object with encrypted_payload, and optionally encryption_version and sender_signing_kid")
		}
		if err := sealed.check(); err != nil {
			return nil, invalid(field, err.Error())
		}
		return sealed, nil
	}
	return nil, nil
}

// decoded is what the stored content of a message says over A2A.
type decoded struct {
	messageID string // of the client that sent it over A2A, "" otherwise
	parts     jsontext.Value
	metadata  jsontext.Value
}

// a2aMember is metadata.a2a of a message.
type a2aMember struct {
	MessageID string         `json:"message_id"`
	Parts     jsontext.Value `json:"parts"`
	Cleartext bool           `json:"cleartext"`
}

// decode returns what a stored content says: the parts in its metadata, those in its
// payload, or a part that holds the sealed payload.
func (b *Bridge) decode(stored []byte) decoded {
	c, ok := content.Decode(stored)
	if !ok {
		return decoded{parts: jsontext.Value("[]")}
	}
	var out decoded
	of := a2aMember{}
	members := map[string]jsontext.Value{}
	_ = json.Unmarshal(c.Metadata(), &members) // the content was checked when it was sent
	if raw := members["a2a"]; raw.Kind() == '{' && json.Unmarshal(raw, &of) == nil {
		if c.Task() {
			out.messageID = of.MessageID
		}
		if _, parts, err := readParts(of.Parts); err == nil {
			out.parts = parts
		} else if payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(c.Payload(), "=")); of.Cleartext && err == nil {
			if _, parts, err := readParts(payload); err == nil {
				out.parts = parts
			}
		}
	}
	delete(members, "a2a")
	if len(members) > 0 {
		out.metadata, _ = json.Marshal(members, json.Deterministic(true))
	}
	if out.parts == nil {
		out.parts = b.sealedParts(&c)
	}
	return out
}

// sealedParts returns the part by which a sealed payload is shown.
func (b *Bridge) sealedParts(c *content.Stored) jsontext.Value {
	data := sealedPart{Payload: c.Payload(), Version: c.Version(), SigningKid: c.SigningKid()}
	parts, _ := json.Marshal([]any{map[string]any{"data": data, "mediaType": SealedMedia(b.Brand)}}, json.Deterministic(true))
	return parts
}
