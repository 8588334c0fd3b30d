package kit

import (
	"math"
	"regexp"
	"strings"
	"testing"
)

// Shapes of what the API returns are field:kind lists; a question mark allows null, never absence.
const (
	OrgShape          = "id:uuid name:str contact_email:str? country_code:str? slug:str? trust_tier:int agent_count:int created_at:time"
	AgentShape        = "id:uuid agent_id:uuid org_id:uuid name:str human_oversight:bool incoming_policy:str outgoing_policy:str unlisted:bool created_at:time revoked_at:time? handle:str verification_words:str signing_public_key:jwk encryption_public_key:jwk pq_public_key:pq? warnings:arr"
	KeysShape         = "agent_id:uuid handle:str signing_public_key:jwk encryption_public_key:jwk pq_public_key:pq? key_binding:obj? unbound_since:time?"
	MessageShape      = "id:uuid conversation_id:uuid from_agent_id:uuid to_agent_id:uuid type:str encrypted_payload:str encryption_version:str sender_signing_kid:str? metadata:obj created_at:time delivered_at:time? read_at:time? content_type:str payload_schema:str? sender_attestations:arr? sender_handle:str recipient_handle:str group_id:uuid? group_handle:str? direction:str status:str"
	ConversationShape = "id:uuid status:str created_at:time parent_conversation_id:uuid? metadata:obj"
	PartyShape        = "agent_id:uuid role:str joined_at:time"
	OriginShape       = "server:any received_at:time org_id:uuid org_slug:str trust_tier:int human_oversight:bool via:str"
)

var (
	// UUIDForm is the form of the ids that the service makes.
	UUIDForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	timeForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)
)

// OfKind reports whether a value is of a kind that shapes name.
func OfKind(v any, kind string) bool {
	switch kind {
	case "any":
		return v != nil
	case "uuid":
		s, ok := v.(string)
		return ok && UUIDForm.MatchString(s)
	case "time":
		s, ok := v.(string)
		return ok && timeForm.MatchString(s)
	case "str":
		s, ok := v.(string)
		return ok && s != ""
	case "bool":
		_, ok := v.(bool)
		return ok
	case "int":
		n, ok := v.(float64)
		return ok && n == math.Trunc(n)
	case "arr":
		_, ok := v.([]any)
		return ok
	case "obj":
		_, ok := v.(Obj)
		return ok
	case "jwk":
		k, ok := v.(Obj)
		return ok && len(k) == 4 && k["kty"] == "OKP" && Text(k, "crv") != "" && Text(k, "x") != "" && Text(k, "kid") != ""
	case "pq":
		k, ok := v.(Obj)
		return ok && len(k) == 4 && k["kty"] == "AKP" && Text(k, "alg") != "" && Text(k, "pub") != "" && Text(k, "kid") != ""
	}
	panic("no such kind: " + kind)
}

// Shaped checks that the object has every field of the shape with a value of its kind.
func Shaped(t testing.TB, what string, o Obj, shape string) {
	t.Helper()
	for field := range strings.FieldsSeq(shape) {
		name, kind, _ := strings.Cut(field, ":")
		kind, nullable := strings.CutSuffix(kind, "?")
		v, present := o[name]
		switch {
		case !present:
			t.Errorf("%s has no field %s: %v", what, name, o)
		case v == nil && nullable:
		case !OfKind(v, kind):
			t.Errorf("%s.%s is not of kind %s: %v", what, name, kind, v)
		}
	}
}

// Shaped checks the shape of an answer's object.
func (a *Answer) Shaped(shape string) *Answer {
	a.T.Helper()
	Shaped(a.T, a.Asked, a.Body, shape)
	return a
}

// Exactly checks that an object has these members and no others.
func Exactly(t testing.TB, what string, o Obj, names string) {
	t.Helper()
	fields := strings.Fields(names)
	if len(o) != len(fields) {
		t.Errorf("%s should have exactly %v: %v", what, fields, o)
	}
	for _, n := range fields {
		if _, ok := o[n]; !ok {
			t.Errorf("%s has no field %s: %v", what, n, o)
		}
	}
}

// AnyUUID is the form of ids that need not contain a time.
var AnyUUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
