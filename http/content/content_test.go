package content

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
)

// bodyWith returns the stored form of a content with some metadata.
func bodyWith(metadata []byte) []byte { return Encode(nil, &Envelope{Metadata: metadata}) }

func drawOptional(t *rapid.T, label string) *string {
	return rapid.Ptr(rapid.String(), true).Draw(t, label)
}

// drawn is an envelope, and what of its message is no content.
type drawn struct {
	Envelope
	sender, recipient parley.AgentID
	org               parley.OrgID
	group             parley.GroupID
	conversation      parley.ConversationID
	turn              int
}

func drawEnvelope(t *rapid.T) *drawn {
	payload := rapid.OneOf(
		rapid.StringMatching(`[A-Za-z0-9_-]{0,40}={0,3}`), rapid.StringMatching(`([A-Za-z0-9_-]{4}){0,9}[A-Za-z0-9_-][AQgw](==)?`),
	)
	metadata, _ := json.Marshal(rapid.MapOfN(rapid.StringMatching(`[a-z"\\ü]{0,5}`), rapid.String(), 0, 4).Draw(t, "metadata"))
	e := &drawn{Envelope: Envelope{
		Type: "svc.v1.dm", Payload: payload.Draw(t, "payload"), Version: rapid.String().Draw(t, "version"), SigningKid: drawOptional(t, "kid"),
		Metadata: metadata, ContentType: rapid.String().Draw(t, "content type"), Schema: drawOptional(t, "schema"),
		SenderHandle: rapid.String().Draw(t, "sender"), RecipientHandle: rapid.String().Draw(t, "recipient"),
		Origin: Origin{
			Server: rapid.String().Draw(t, "server"), Slug: rapid.String().Draw(t, "slug"), Via: rapid.String().Draw(t, "via"),
			At:   time.UnixMicro(rapid.Int64Range(0, 4e15).Draw(t, "at")),
			Tier: rapid.IntRange(0, 3).Draw(t, "tier"), Oversight: rapid.Bool().Draw(t, "oversight"),
		},
	}}
	e.sender, e.recipient, e.org = parley.AgentID{6: 0x70, 15: 1}, parley.AgentID{6: 0x70, 15: 2}, parley.OrgID{6: 0x70, 15: 3}
	e.conversation = parley.ConversationID{6: 0x70, 15: 5}
	if rapid.Bool().Draw(t, "attested") {
		e.Attestations = api.Array(`[{"a":1}]`)
	}
	if rapid.Bool().Draw(t, "broadcast") {
		e.group = parley.GroupID{6: 0x70, 15: 4}
	} else {
		e.turn = rapid.SampledFrom([]int{0, 1, 12, math.MaxUint32}).Draw(t, "turn")
	}
	e.Task = []byte(rapid.SampledFrom([]string{"", `"message_id":"m","cleartext":true`, `"context_id":"c","message_id":"m"`}).Draw(t, "task"))
	return e
}

// plainContent renders the content from the envelope, as the specification lists the
// members, with encoding/json.
func plainContent(e *drawn) map[string]any {
	optional := func(s *string) any {
		if s == nil {
			return nil
		}
		return *s
	}
	metadata := map[string]any{}
	_ = json.Unmarshal(e.Metadata, &metadata)
	if len(e.Task) > 0 {
		of := map[string]any{"task_id": e.conversation.String(), "context_id": e.conversation.String()}
		_ = json.Unmarshal([]byte("{"+string(e.Task)+"}"), &of)
		metadata["a2a"] = of
	}
	provenance := map[string]any{
		"server": e.Server, "received_at": e.At.UTC().Format("2006-01-02T15:04:05.000000Z"), "org_id": e.org.String(), "org_slug": e.Slug,
		"trust_tier": float64(e.Tier), "human_oversight": e.Oversight, "via": e.Via,
	}
	if e.turn > 0 {
		provenance["turn"] = float64(e.turn)
	}
	metadata["provenance"] = provenance
	m := map[string]any{
		"from_agent_id": e.sender.String(), "type": e.Type, "encrypted_payload": e.Payload, "encryption_version": e.Version,
		"sender_signing_kid": optional(e.SigningKid), "metadata": metadata, "content_type": e.ContentType, "payload_schema": optional(e.Schema),
		"sender_attestations": nil, "sender_handle": e.SenderHandle, "group_id": nil, "group_handle": nil,
	}
	if len(e.Attestations) > 0 {
		m["sender_attestations"] = []any{map[string]any{"a": 1.0}}
	}
	if e.group.Zero() {
		m["to_agent_id"], m["recipient_handle"] = e.recipient.String(), e.RecipientHandle
	} else {
		m["group_id"], m["group_handle"] = e.group.String(), e.RecipientHandle
	}
	return m
}

// TestContentReadsAsItWasSent: what is stored of any envelope renders as the members
// that it had, its payload byte for byte, and takes no more than the size that is
// reserved for it.
func TestContentReadsAsItWasSent(t *testing.T) {
	forms := map[payloadForm]int{}
	rapid.Check(t, func(t *rapid.T) {
		e := drawEnvelope(t)
		stored := Encode(nil, &e.Envelope)
		c, ok := Decode(stored)
		if !ok {
			t.Fatalf("%x cannot be decoded", stored)
		}
		forms[c.payload]++
		r := &record.Message{Type: e.Type, From: e.sender.Bytes(), To: e.recipient.Bytes(), FromOrg: e.org.Bytes(), ConversationId: e.conversation.Bytes(), Content: stored}
		r.Turn = uint32(e.turn)
		if !e.group.Zero() {
			r.Group = e.group.Bytes()
		}
		rendered := Render(r)
		again := &record.Message{Content: rendered}
		if !bytes.Equal(Render(again), rendered) || Size(again) != len(rendered) {
			t.Fatalf("what is rendered is rendered as %s", Render(again))
		}
		var got map[string]any
		if err := json.Unmarshal(append(append([]byte{'{'}, rendered...), '}'), &got); err != nil {
			t.Fatalf("%v: %s", err, rendered)
		}
		have, _ := json.Marshal(got)
		want, _ := json.Marshal(plainContent(e))
		if !bytes.Equal(have, want) {
			t.Fatalf("got  %s\nwant %s", have, want)
		}
		if n := c.size(e.Type); len(rendered) > n || len(rendered) < n-contentSlack {
			t.Fatalf("it takes %d bytes, %d are reserved", len(rendered), n)
		}
	})
	for _, form := range []payloadForm{payloadAsText, payloadDecoded, payloadUnpadded} {
		if forms[form] == 0 {
			t.Errorf("no payload was stored in form %d", form)
		}
	}
}

// contentSlack is by how much the size that is reserved for a content may exceed what it
// takes: a broadcast has one id less and no turn, and so has a message of a task that names its
// context.
const contentSlack = 128

// FuzzDecodeContent: whatever is stored, decoding does not fail, and what it accepts has
// fields that lie within it.
func FuzzDecodeContent(f *testing.F) {
	f.Add(bodyWith([]byte(`{"a":1}`)))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Add([]byte("\x10\x00\x00\x00\x00\x00\x00\x00\x00\x01\""))
	f.Fuzz(func(t *testing.T, stored []byte) {
		c, ok := Decode(stored)
		if !ok {
			rendered := Render(&record.Message{Content: stored})
			if !isRendered(stored) && !json.Valid(append(append([]byte{'{'}, rendered...), '}')) {
				t.Errorf("what cannot be decoded is rendered as %s", rendered)
			}
			return
		}
		total := 0
		for _, value := range c.fields {
			total += len(value)
		}
		if total > len(stored) {
			t.Errorf("fields of %d bytes in %d", total, len(stored))
		}
		_ = Render(&record.Message{Content: stored})
	})
}

// TestContentIsSmall: a payload of 1,366 letters of base64url takes 1,024 bytes and less
// than 300 with all that goes with it.
func TestContentIsSmall(t *testing.T) {
	kid := "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
	e := &Envelope{
		Type: "svc.v1.dm", Payload: string(bytes.Repeat([]byte("QUJD"), 341)) + "QQ", Version: "hpke-v1", SigningKid: &kid, ContentType: "application/json",
		SenderHandle: "alice@acme.home.example", RecipientHandle: "bob@globex.home.example", Origin: Origin{Server: "home.example", Slug: "acme", Via: "api", At: time.Now()},
	}
	if n := len(Encode(nil, e)); n > 1024+300 {
		t.Errorf("it takes %d bytes", n)
	}
}

// TestContentGolden: the bytes of a content that is on users' disks, and what they say.
func TestContentGolden(t *testing.T) {
	const golden = "12000640b5eecfe2400548656c6c6f092268706b652d76312204226b3122062261223a312c0c22746578742f706c61696e22046e756c6c046e756c6c07226140782e682207226240792e6822032268220322782201320566616c7365052261706922"
	const rendered = `"from_agent_id":"00000000-0000-0000-0000-000000000000","to_agent_id":"00000000-0000-0000-0000-000000000000","type":"svc.v1.dm",` +
		`"encrypted_payload":"SGVsbG8","encryption_version":"hpke-v1","sender_signing_kid":"k1",` +
		`"metadata":{"a":1,"provenance":{"server":"h","received_at":"2025-10-09T08:53:20.123456Z","org_id":"00000000-0000-0000-0000-000000000000","org_slug":"x","trust_tier":2,"human_oversight":false,"via":"api"}},` +
		`"content_type":"text/plain","payload_schema":null,"sender_attestations":null,"sender_handle":"a@x.h","recipient_handle":"b@y.h","group_id":null,"group_handle":null`
	kid := "k1"
	e := &Envelope{
		Payload: "SGVsbG8", Version: "hpke-v1", SigningKid: &kid, Metadata: api.Object(`{"a":1}`), ContentType: "text/plain",
		SenderHandle: "a@x.h", RecipientHandle: "b@y.h", Origin: Origin{Server: "h", Slug: "x", Tier: 2, Via: "api", At: time.UnixMicro(1_760_000_000_123_456)},
	}
	if got := hex.EncodeToString(Encode(nil, e)); got != golden {
		t.Errorf("it is stored as\n%s, not\n%s", got, golden)
	}
	stored, err := hex.DecodeString(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(Render(&record.Message{Type: "svc.v1.dm", Content: stored})); got != rendered {
		t.Errorf("it reads\n%s, not\n%s", got, rendered)
	}
}
