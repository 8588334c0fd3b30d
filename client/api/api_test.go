package api_test

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	jsonx "github.com/go-json-experiment/json"

	"parley/client/api"
	"parley/client/parley"
)

type codec struct {
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
}

// codecs are the two JSON libraries that must agree on every shape.
var codecs = map[string]codec{
	"encoding/json": {json.Marshal, json.Unmarshal},
	"go-json-experiment": {
		func(v any) ([]byte, error) { return jsonx.Marshal(v) },
		func(b []byte, v any) error { return jsonx.Unmarshal(b, v) },
	},
}

// instant has nanoseconds, which the wire form drops, and a zone, which it converts.
var instant = time.Date(2026, 11, 20, 11, 30, 0, 123456789, time.FixedZone("", 3600))

const (
	uuidA = "01932f00-0000-7001-8000-00000000000a"
	uuidB = "01932f00-0000-7002-8000-00000000000b"
)

func parse[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := P(&v).UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return v
}

// each runs a test with both libraries.
func each(t *testing.T, run func(t *testing.T, c codec)) {
	for name, c := range codecs {
		t.Run(name, func(t *testing.T) { run(t, c) })
	}
}

// sample is a value of each answer with its exact wire form.
func samples(t *testing.T) map[string]any {
	agent := parse[parley.AgentID](t, uuidA)
	key := api.NewJWK(parley.Ed25519, make([]byte, 32))
	return map[string]any{
		`{"id":"` + uuidA + `","conversation_id":"` + uuidB + `","from_agent_id":"` + uuidA + `","to_agent_id":"` + uuidA + `","type":"svc.v1.dm",` +
			`"encrypted_payload":"AA","encryption_version":"hpke-v1","sender_signing_kid":null,"metadata":{"a":1},"created_at":"2026-11-20T10:30:00.123456Z",` +
			`"delivered_at":null,"read_at":null,"content_type":"application/json","payload_schema":null,"sender_attestations":null,"sender_handle":null,` +
			`"recipient_handle":null,"group_id":null,"group_handle":null,"direction":"sent","self_encrypted_payload":null,"status":"new"}`: api.Message{
			ID: parse[parley.MessageID](t, uuidA), ConversationID: parse[parley.ConversationID](t, uuidB), FromAgentID: agent, ToAgentID: agent,
			Type: "svc.v1.dm", EncryptedPayload: "AA", EncryptionVersion: api.HPKEv1, Metadata: api.Object(`{"a":1}`), CreatedAt: api.At(instant),
			ContentType: "application/json", Direction: api.Sent, Status: api.MessageNew,
		},
		`{"id":"` + uuidA + `","agent_id":"` + uuidA + `","org_id":"` + uuidB + `","name":"ann","human_oversight":true,"incoming_policy":"accept_all",` +
			`"outgoing_policy":"send_all","unlisted":false,"created_at":"2026-11-20T10:30:00.123456Z","revoked_at":null,"handle":"ann@acme.localhost",` +
			`"verification_words":null,"signing_public_key":{"kty":"OKP","crv":"Ed25519","x":"` + key.X + `","kid":"` + key.Kid + `"},` +
			`"encryption_public_key":null,"pq_public_key":null,"warnings":[]}`: api.Agent{
			ID: agent, AgentID: agent, OrgID: parse[parley.OrgID](t, uuidB), Name: "ann", HumanOversight: true, IncomingPolicy: api.AcceptAll,
			OutgoingPolicy: api.SendAll, CreatedAt: api.At(instant), Handle: new("ann@acme.localhost"), SigningPublicKey: &key, Warnings: []string{},
		},
		`{"items":[1,2],"next_cursor":null,"has_more":false}`:                                                   api.Page[int]{Items: []int{1, 2}},
		`{"tier":1,"quotas":{"agents":{"limit":null,"used":3}}}`:                                                api.Quotas{Tier: 1, Quotas: map[string]api.Quota{"agents": {Used: new(3)}}},
		`{"detail":"No.","error":"ConflictError","code":"invalid_transition","request_id":"r","allowed":["a"]}`: api.Error{Detail: "No.", Error: "ConflictError", Code: "invalid_transition", RequestID: "r", Extra: map[string]any{"allowed": []any{"a"}}},
		`{"detail":[{"loc":["body","type"],"msg":"Field required","type":"missing"}],"error":"validation_error","code":"validation_error","request_id":"r"}`: api.Invalid{
			Detail: []api.FieldError{{Loc: []any{"body", "type"}, Msg: "Field required", Type: "missing"}}, Error: "validation_error", Code: "validation_error", RequestID: "r",
		},
		`{"keys":{"` + uuidA + `":{"agent_id":"` + uuidA + `","handle":null,"signing_public_key":null,"encryption_public_key":null,"pq_public_key":null,"key_binding":null,"unbound_since":null}}}`: api.BatchKeys{
			Keys: map[parley.AgentID]api.AgentKeys{agent: {AgentID: agent}},
		},
		`{"name":"n","contact_email":null}`: api.OrgPatch{Name: new("n"), ContactEmail: api.Cleared[string]()},
		`{"contact_email":"a@b"}`:           api.OrgPatch{ContactEmail: api.SetTo("a@b")},
		`{"name":"ann","signing_public_key":null,"encryption_public_key":null,"human_oversight":false}`: api.CreateAgent{Name: "ann", HumanOversight: new(false)},
		`{"type":"a.b.c","encrypted_payload":"AA"}`: api.Sync{
			Send: api.Send{Type: "a.b.c", EncryptedPayload: "AA"},
		},
	}
}

func TestShapes(t *testing.T) {
	each(t, func(t *testing.T, c codec) {
		for want, value := range samples(t) {
			got, err := c.marshal(value)
			if err != nil || string(got) != want {
				t.Errorf("%T: %v\n got %s\nwant %s", value, err, got, want)
			}
			back := reflect.New(reflect.TypeOf(value))
			if err := c.unmarshal([]byte(want), back.Interface()); err != nil {
				t.Errorf("%T: decoding: %v", value, err)
			}
			again, err := c.marshal(back.Interface())
			if err != nil || string(again) != want {
				t.Errorf("%T: round trip: %v\n got %s\nwant %s", value, err, again, want)
			}
		}
	})
}

// TestBodyCannotSetOtherParameters: a member of the path, query or headers is not read
// from the body.
func TestBodyCannotSetOtherParameters(t *testing.T) {
	each(t, func(t *testing.T, c codec) {
		var in api.Reply
		body := `{"id":"` + uuidA + `","ID":"` + uuidA + `","IdempotencyKey":"k","Idempotency-Key":"k","type":"a.b.c"}`
		if err := c.unmarshal([]byte(body), &in); err != nil {
			t.Fatal(err)
		}
		if !in.ID.Zero() || in.IdempotencyKey != "" || in.Type != "a.b.c" {
			t.Fatalf("read %+v", in)
		}
	})
}

func TestRawValues(t *testing.T) {
	each(t, func(t *testing.T, c codec) {
		var in struct {
			O api.Object `json:"o"`
			A api.Array  `json:"a"`
		}
		for body, ok := range map[string]bool{
			`{"o":{"x":[1]},"a":[{}]}`: true, `{"o":null,"a":null}`: true, `{}`: true,
			`{"o":[]}`: false, `{"o":"{}"}`: false, `{"a":{}}`: false, `{"a":1}`: false,
		} {
			in.O, in.A = nil, nil
			if err := c.unmarshal([]byte(body), &in); (err == nil) != ok {
				t.Errorf("%s: %v", body, err)
			}
		}
		if err := c.unmarshal([]byte(`{"o":{},"a":[]}`), &in); err != nil || string(in.O) != "{}" || string(in.A) != "[]" {
			t.Errorf("%v %s %s", err, in.O, in.A)
		}
	})
}

func TestClearable(t *testing.T) {
	each(t, func(t *testing.T, c codec) {
		for body, want := range map[string]api.Clearable[string]{
			`{}`: {}, `{"contact_email":null}`: {Set: true, Null: true}, `{"contact_email":"a@b"}`: {Set: true, Value: "a@b"},
		} {
			var in api.OrgPatch
			if err := c.unmarshal([]byte(body), &in); err != nil || in.ContactEmail != want {
				t.Errorf("%s: %+v %v", body, in.ContactEmail, err)
			}
		}
		var in api.OrgPatch
		if err := c.unmarshal([]byte(`{"contact_email":5}`), &in); err == nil {
			t.Error("a number was accepted as a string")
		}
	})
}

func TestJWK(t *testing.T) {
	x := api.NewJWK(parley.X25519, append(make([]byte, 31), 9)).X
	each(t, func(t *testing.T, c codec) {
		for body, want := range map[string]error{
			`{"kty":"OKP","crv":"X25519","x":"` + x + `","use":"enc","ext":true}`: nil,
			`{"kty":"OKP","crv":"X25519","x":"` + x + `","d":"AA"}`:               api.ErrPrivateKey,
			`{"kty":"OKP","crv":"X25519","x":"` + x + `","d":null}`:               api.ErrPrivateKey,
			`{"kty":"EC","crv":"X25519","x":"` + x + `"}`:                         api.ErrKeyKind,
			`{"kty":"OKP","crv":"Ed25519","x":"` + x + `"}`:                       api.ErrKeyKind,
			`{"kty":"OKP","crv":"X25519","x":"` + x + `="}`:                       api.ErrKeyBytes,
			`{"kty":"OKP","crv":"X25519","x":"` + x[:42] + `l"}`:                  api.ErrKeyBytes, // trailing bits
			`{"kty":"OKP","crv":"X25519","x":"` + x[:42] + `\n"}`:                 api.ErrKeyBytes,
			`{"kty":"OKP","crv":"X25519","x":""}`:                                 api.ErrKeyBytes,
		} {
			var key api.JWK
			if err := c.unmarshal([]byte(body), &key); err != nil {
				t.Fatalf("%s: %v", body, err)
			}
			if _, err := key.Raw(parley.X25519); err != want {
				t.Errorf("%s: %v, want %v", body, err, want)
			}
		}
	})
}

func TestPQKey(t *testing.T) {
	good := api.NewPQKey(parley.XWing, make([]byte, parley.XWingSize))
	wrap := func(pub, more string) string { return `{"kty":"AKP","alg":"X-Wing","pub":"` + pub + `"` + more + `}` }
	each(t, func(t *testing.T, c codec) {
		for body, want := range map[string]error{
			wrap(good.Pub, `,"use":"enc","kid":5`):  nil,
			wrap(good.Pub, `,"priv":"AA"`):          api.ErrPrivateKey,
			wrap(good.Pub, `,"priv":null`):          api.ErrPrivateKey,
			wrap(good.Pub, `,"d":"AA"`):             api.ErrPrivateKey,
			wrap(good.Pub+"==", ""):                 api.ErrPQKeyBytes,
			wrap(good.Pub[:1621]+"B", ""):           api.ErrPQKeyBytes, // trailing bits
			wrap(good.Pub[:1621]+`\n`, ""):          api.ErrPQKeyBytes,
			wrap(good.Pub[:1579], ""):               api.ErrPQKeyBytes,
			`{"kty":"OKP","alg":"X-Wing"}`:          api.ErrPQKeyKind,
			`{"kty":"AKP","alg":"ML-KEM-768"}`:      api.ErrPQKeyKind,
			`{"kty":"AKP","alg":"X-Wing","pub":""}`: api.ErrPQKeyBytes,
		} {
			var key api.PQKey
			if err := c.unmarshal([]byte(body), &key); err != nil {
				t.Fatalf("%.60s: %v", body, err)
			}
			if _, err := key.Raw(parley.XWing); err != want {
				t.Errorf("%.60s: %v, want %v", body, err, want)
			}
		}
	})
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-20T10:30:00Z":             "2026-11-20T10:30:00.000000Z",
		"2026-11-20t10:30:00.123456789z":   "2026-11-20T10:30:00.123456Z",
		"2026-11-20T10:30:00,5+02:00":      "2026-11-20T08:30:00.500000Z",
		"2026-11-20T10:30:00-0330":         "2026-11-20T14:00:00.000000Z",
		"2026-11-20T10:30:00+02":           "2026-11-20T08:30:00.000000Z",
		"2026-11-20T10:30:00 02:00":        "2026-11-20T08:30:00.000000Z",
		"2026-11-20 10:30:00":              "2026-11-20T10:30:00.000000Z",
		"2026-11-20T10:30":                 "2026-11-20T10:30:00.000000Z",
		"2026-11-20T10.5":                  "2026-11-20T10:30:00.000000Z",
		"2026-11-20T24:00":                 "2026-11-21T00:00:00.000000Z",
		"2026-12-31T23:59:60Z":             "2027-01-01T00:00:00.000000Z",
		"2026-11-20":                       "2026-11-20T00:00:00.000000Z",
		"20261120":                         "2026-11-20T00:00:00.000000Z",
		"20261120T103000Z":                 "2026-11-20T10:30:00.000000Z",
		"2026-W47-5":                       "2026-11-20T00:00:00.000000Z",
		"2026W475T1030":                    "2026-11-20T10:30:00.000000Z",
		"2026-W47":                         "2026-11-16T00:00:00.000000Z",
		"2026-324":                         "2026-11-20T00:00:00.000000Z",
		"2024-366":                         "2024-12-31T00:00:00.000000Z",
		"2024-02-29T00:00:00.000000+00:00": "2024-02-29T00:00:00.000000Z",
	} {
		got, err := api.ParseTime(text)
		if err != nil || got.String() != want {
			t.Errorf("%q: %v %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "now", "2026", "2026-13-01", "2026-02-30", "2026-11-20T", "2026-11-20T25:00", "2026-11-20T24:01", "2026-11-20T10:60", "2026-11-2", "2026-1120",
		"2026-11-20T10:30:00+", "2026-11-20T10:30:00+25:00", "2026-11-20T10:3000", "2026-11-20T10:30:00.Z", "2026-11-20T10:30:00ZZ", "2026-W54-1", "2026-W53-8",
		"2026-366", "-2026-11-20", "2026-11-20T10:30:00+2:00", "2026-11-20T10:30:00+02:0", "1700000000", "2026-11-20T10:30:00.0.0", "２026-11-20", strings.Repeat("2", 99),
	} {
		if got, err := api.ParseTime(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

// TestTagsStateTheLimits: the numbers in the tags equal the constants of package
// parley.
func TestTagsStateTheLimits(t *testing.T) {
	field := func(shape any, name, tag string) string {
		f, ok := reflect.TypeOf(shape).FieldByName(name)
		if !ok {
			t.Fatalf("%T has no %s", shape, name)
		}
		return f.Tag.Get(tag)
	}
	for _, c := range []struct {
		shape     any
		name, tag string
		want      int
	}{
		{api.Register{}, "Email", "maxLength", parley.EmailMax},
		{api.Register{}, "OrgName", "maxLength", parley.OrgNameMax},
		{api.OrgPatch{}, "Name", "maxLength", parley.OrgNameMax},
		{api.OrgPatch{}, "ContactEmail", "maxLength", parley.EmailMax},
		{api.Solve{}, "Nonce", "maxLength", parley.NonceMax},
		{api.CreateAgent{}, "Name", "maxLength", parley.AgentNameMax},
		{api.AgentPatch{}, "Name", "maxLength", parley.AgentNameMax},
		{api.PutCard{}, "Name", "maxLength", parley.CardNameMax},
		{api.PutCard{}, "Description", "maxLength", parley.CardDescriptionMax},
		{api.PutCardExtension{}, "MessageTypesAccepted", "maxLength", parley.MessageTypeMax},
		{api.PublishKeyPackages{}, "KeyPackages", "maxItems", parley.KeyPackagesPerUpload},
		{api.PublishKeyPackages{}, "KeyPackages", "maxLength", (parley.KeyPackageBytesMax + 2) / 3 * 4},
		{api.PublishKeyPackages{}, "LastResort", "maxLength", (parley.KeyPackageBytesMax + 2) / 3 * 4},
		{api.GetBatchKeys{}, "IDs", "maxItems", parley.BatchKeysMax},
		{api.Inbox{}, "Limit", "maximum", parley.InboxLimitMax},
		{api.Inbox{}, "Limit", "default", parley.InboxLimitDefault},
		{api.Transcript{}, "Limit", "maximum", parley.TranscriptLimitMax},
		{api.Transcript{}, "Limit", "default", parley.TranscriptLimitDefault},
		{api.Sync{}, "TimeoutMS", "minimum", int(parley.SyncTimeoutMin.Milliseconds())},
		{api.Sync{}, "TimeoutMS", "maximum", int(parley.SyncTimeoutMax.Milliseconds())},
		{api.Sync{}, "TimeoutMS", "default", int(parley.SyncTimeoutDefault.Milliseconds())},
		{api.StatusPatch{}, "Reason", "maxLength", parley.StatusReasonMax},
		{api.Send{}, "ConversationMetadata", "maxBytes", parley.MetadataBytesMax},
	} {
		if got := field(c.shape, c.name, c.tag); got != strconv.Itoa(c.want) {
			t.Errorf("%T.%s: %s is %q, want %d", c.shape, c.name, c.tag, got, c.want)
		}
	}
	for name, tag := range map[string]string{"Name": parley.AgentNamePattern} {
		if got := field(api.CreateAgent{}, name, "pattern"); got != tag {
			t.Errorf("pattern of %s is %q", name, got)
		}
	}
	for _, shape := range []any{api.Register{}, api.OrgPatch{}} {
		name := map[bool]string{true: "OrgSlug", false: "Slug"}[reflect.TypeOf(shape).Name() == "Register"]
		if got := field(shape, name, "pattern"); got != parley.SlugPattern {
			t.Errorf("%T.%s: pattern is %q", shape, name, got)
		}
	}
	sameAsSend(t, field)
}

// sameAsSend checks that send, sync and reply bind the same fields by the same rules.
func sameAsSend(t *testing.T, field func(any, string, string) string) {
	limits := map[string]int{
		"IdempotencyKey": parley.IdempotencyKeyMax, "Type": parley.MessageTypeMax, "EncryptedPayload": parley.PayloadCharsMax,
		"SelfEncryptedPayload": parley.PayloadCharsMax, "ContentType": parley.ContentTypeMax, "PayloadSchema": parley.PayloadSchemaMax,
		"SenderSigningKid": parley.SigningKidMax, "Metadata": parley.MetadataBytesMax, "SenderAttestations": parley.AttestationBytesMax,
	}
	for name, limit := range limits {
		tag := "maxLength"
		if name == "Metadata" || name == "SenderAttestations" {
			tag = "maxBytes"
		}
		for _, shape := range []any{api.Send{}, api.Sync{}, api.Reply{}} {
			if got := field(shape, name, tag); got != strconv.Itoa(limit) {
				t.Errorf("%T.%s: %s is %q, want %d", shape, name, tag, got, limit)
			}
		}
	}
	reply := reflect.TypeOf(api.Reply{})
	for i := range reply.NumField() {
		f := reply.Field(i)
		if f.Tag.Get("path") != "" {
			continue
		}
		same, ok := reflect.TypeOf(api.Send{}).FieldByName(f.Name)
		// What the server writes into the metadata of a reply is less.
		of := func(f reflect.StructField) string {
			return strings.ReplaceAll(string(f.Tag), "reserved:"+strconv.Quote(f.Tag.Get("reserved")), "")
		}
		if !ok || of(same) != of(f) || same.Type != f.Type {
			t.Errorf("Reply.%s differs from Send's", f.Name)
		}
	}
}
