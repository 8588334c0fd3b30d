package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

func TestSendDefaults(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.TrySend(b, nil).Want(201).Shaped(kit.MessageShape)
		m.Is("from_agent_id", a.ID, "to_agent_id", b.ID, "type", "svc.v1.dm", "encrypted_payload", "aGVsbG8", "encryption_version", "hpke-v1",
			"sender_signing_kid", nil, "content_type", "application/json", "payload_schema", nil, "sender_attestations", nil,
			"sender_handle", a.Handle, "recipient_handle", b.Handle, "group_id", nil, "group_handle", nil,
			"delivered_at", nil, "read_at", nil, "status", "new", "direction", "sent", "self_encrypted_payload", nil)
		kit.Exactly(t, "metadata", m.At("metadata").(obj), "provenance")
		a.Conversation(m.Body).Shaped(kit.ConversationShape).Is("id", m.At("conversation_id"), "status", "submitted", "parent_conversation_id", nil, "metadata", obj{})
	})
}

func TestSendKeepsEveryField(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		fields := obj{
			"type": "acme-corp.v1.order_placed", "encrypted_payload": "_-9A==", "encryption_version": "sender-key-v1", "sender_signing_kid": "any kid",
			"content_type": "text/plain; charset=utf-8", "payload_schema": "https://example.org/s.json",
			"self_encrypted_payload": "c2VsZg", "conversation_metadata": obj{"topic": "Ünïcode", "n": 1.5, "deep": obj{"a": []any{1, nil, true}}},
		}
		m := a.TrySend(b, kit.Merged(fields, obj{"metadata": obj{"k": []any{"v", 1}, "nothing": nil}, "unheard_of": 1})).Want(201).Shaped(kit.MessageShape)
		for name, v := range kit.Without(fields, "conversation_metadata") {
			m.Is(name, v)
		}
		m.Is("metadata.k", []any{"v", 1})
		if _, kept := m.At("metadata").(obj)["nothing"]; !kept {
			m.Errorf("a null inside metadata is lost")
		}
		a.Conversation(m.Body).Is("metadata", fields["conversation_metadata"])
		got := b.Get("/messages/" + m.Str("id")).Want(200).Shaped(kit.MessageShape)
		got.Is("metadata", m.At("metadata"), "type", fields["type"], "encrypted_payload", "_-9A==", "created_at", m.At("created_at"), "direction", "received")
	})
}

func TestSendNullsAreAbsent(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		nulls := obj{}
		for _, name := range []string{
			"to_handle", "from_handle", "encryption_version", "sender_signing_kid", "metadata", "content_type", "payload_schema",
			"sender_attestations", "parent_conversation_id", "conversation_metadata", "self_encrypted_payload",
		} {
			nulls[name] = nil
		}
		a.TrySend(b, nulls).Want(201).Is("encryption_version", "hpke-v1", "content_type", "application/json")
	})
}

func TestProvenance(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		a.Patch(a.Path(""), obj{"human_oversight": false}).Want(200)
		judge := func(m *kit.Answer, g *kit.Agent, oversight bool, via string) {
			t.Helper()
			p, _ := m.At("metadata.provenance").(obj)
			kit.Exactly(t, "provenance", p, "server received_at org_id org_slug trust_tier human_oversight via turn")
			kit.Shaped(t, "provenance", p, kit.OriginShape)
			m.Is("metadata.provenance.org_id", g.Org.ID, "metadata.provenance.org_slug", g.Slug,
				"metadata.provenance.trust_tier", 1, "metadata.provenance.human_oversight", oversight, "metadata.provenance.via", via)
		}
		forged := obj{"metadata": obj{"provenance": obj{"org_id": b.Org.ID, "trust_tier": 3, "note": "forged"}, "kept": true}}
		m := a.TrySend(b, forged).Want(201).Is("metadata.kept", true)
		judge(m, a, false, "api")
		judge(a.TrySend(b, obj{"metadata": obj{"provenance": "forged"}}).Want(201), a, false, "api")
		judge(b.Get("/messages/"+m.Str("id")).Want(200), a, false, "api")
		judge(b.TryReply(m.Body, forged).Want(201).Is("metadata.kept", true), b, true, "api")
		judge(b.TryReply(m.Body, nil).Want(201), b, true, "api")
	})
}

// TestServersMetadata: what the server writes into metadata is dropped from what a client sends,
// before its bytes are counted, and invitations are the server's.
func TestServersMetadata(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		long := strings.Repeat("x", 4000)
		forged := obj{
			"provenance": obj{"note": long}, "group_invite": obj{"group_id": kit.Nobody, "note": long},
			"a2a": obj{"task_id": kit.Nobody, "message_id": long, "parts": []any{obj{"text": "x"}}, "cleartext": true},
		}
		m := a.TrySend(b, obj{"metadata": kit.Merged(kit.Object(4096), forged)}).Want(201)
		kit.Exactly(t, "metadata of a send", m.At("metadata").(obj), "k provenance")
		kit.Exactly(t, "metadata of what arrived", b.Get("/messages/"+m.Str("id")).Want(200).At("metadata").(obj), "k provenance")
		r := b.TryReply(m.Body, obj{"metadata": forged}).Want(201)
		kit.Exactly(t, "metadata of a reply", r.At("metadata").(obj), "a2a provenance")
		r.Is("metadata.a2a", obj{"parts": []any{obj{"text": "x"}}, "cleartext": true})
		escaped := kit.Verbatim(`{"to_agent_id":"` + b.ID + `","type":"svc.v1.dm","encrypted_payload":"QQ","metadata":{"pro\u0076enance":1,"\u00612a":{},"k":"x"}}`)
		kit.Exactly(t, "metadata with escapes", a.Post("/messages", escaped).Want(201).At("metadata").(obj), "k provenance")
		r = b.TryReply(m.Body, obj{"metadata": obj{"a2a": "text"}}).Want(201)
		kit.Exactly(t, "metadata of a reply without an object", r.At("metadata").(obj), "provenance")
		a.TrySend(b, obj{"type": "svc.v1.group_invite"}).Invalid("body.type", "")
		b.TryReply(m.Body, obj{"type": "svc.v1.group_invite"}).Invalid("body.type", "")
	})
}

// attestation returns a JWS by an unknown key, n bytes as a compact array.
func attestation(n int) []any {
	for kid := "nobody-knows"; ; kid = kid[1:] {
		frame := obj{"protected": kit.B64([]byte(`{"alg":"EdDSA","kid":"` + kid + `"}`)), "payload": "", "signature": kit.B64(make([]byte, 64))}
		plain, _ := json.Marshal([]any{frame})
		if left := n - len(plain); left%4 != 1 { // no base64url text has such a length
			frame["payload"] = strings.Repeat("A", left)
			return []any{frame}
		}
	}
}

func TestSendLimits(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		long := func(n int) string { return strings.Repeat("x", n) }
		for _, c := range []struct {
			field      string
			fits, over any
			kind       string
		}{
			{"encrypted_payload", long(131072), long(131073), "string_too_long"},
			{"self_encrypted_payload", long(131072), long(131073), "string_too_long"},
			{"type", "a.b." + long(196), "a.b." + long(197), "string_too_long"},
			{"content_type", long(255), long(256), "string_too_long"},
			{"payload_schema", "https://e.x/" + long(2036), "https://e.x/" + long(2037), "string_too_long"},
			{"sender_signing_kid", long(255), long(256), "string_too_long"},
			{"metadata", kit.Object(4096), kit.Object(4097), ""},
			{"conversation_metadata", kit.Object(4096), kit.Object(4097), ""},
			{"sender_attestations", attestation(8192), attestation(8193), ""},
		} {
			a.TrySend(b, obj{c.field: c.fits}).As("%s fits", c.field).Want(201)
			a.TrySend(b, obj{c.field: c.over}).As("%s over", c.field).Invalid("body."+c.field, c.kind)
		}
		if n := len(b.Everything()); n != 9 {
			t.Errorf("%d messages arrived, want 9", n)
		}
	})
}

// TestMetadataIsMeasuredUnescaped: escapes that JSON does not require, which many clients
// use beyond ASCII, do not count towards the limit.
func TestMetadataIsMeasuredUnescaped(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		body := func(field, value string) kit.Verbatim {
			return kit.Verbatim(`{"to_agent_id":"` + b.ID + `","type":"svc.v1.dm","encrypted_payload":"QQ","` + field + `":` + value + `}`)
		}
		escaped := func(n int) string { return `{"\u006b":"` + strings.Repeat(`\u0078`, n-len(`{"k":""}`)) + `"}` }
		for _, field := range []string{"metadata", "conversation_metadata"} {
			a.Post("/messages", body(field, escaped(4096))).As("%s fits", field).Want(201)
			a.Post("/messages", body(field, escaped(4097))).As("%s over", field).Invalid("body."+field, "")
			// Control characters are always escaped: "\u0001" is six bytes, "
			// " two.
			a.Post("/messages", body(field, `{"k":"`+strings.Repeat(`\u0001`, 681)+`\n"}`)).As("%s escaped", field).Want(201)
			a.Post("/messages", body(field, `{"k":"`+strings.Repeat(`\u0001`, 681)+`\nx"}`)).As("%s escaped", field).Invalid("body."+field, "")
		}
		m := a.Post("/messages", body("metadata", escaped(4096))).Want(201).Is("metadata.k", strings.Repeat("x", 4088))
		b.TryReply(m.Body, obj{"metadata": json.RawMessage(escaped(4096))}).Want(201)
		b.TryReply(m.Body, obj{"metadata": json.RawMessage(escaped(4097))}).Invalid("body.metadata", "")
		jws := func(n int) string {
			plain, _ := json.Marshal(attestation(n))
			return strings.ReplaceAll(string(plain), "A", `\u0041`)
		}
		a.Post("/messages", body("sender_attestations", jws(8192))).Want(201).Is("sender_attestations", attestation(8192))
		a.Post("/messages", body("sender_attestations", jws(8193))).Invalid("body.sender_attestations", "")
	})
}

func TestMetadataIsMeasuredCompact(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		spaced := `{"to_agent_id":"` + b.ID + `","type":"svc.v1.dm","encrypted_payload":"QQ","metadata":{` + strings.Repeat(" ", 9000) + `"a":1}}`
		a.Post("/messages", kit.Verbatim(spaced)).Want(201).Is("metadata.a", 1)
		m := a.Send(b)
		b.TryReply(m, obj{"metadata": kit.Object(4096)}).Want(201)
		b.TryReply(m, obj{"metadata": kit.Object(4097)}).Invalid("body.metadata", "")
		got := b.TryReply(m, obj{"metadata": kit.Merged(kit.Object(4000), obj{"provenance": nil})}).Want(201)
		got.Is("metadata.k", kit.Object(4000)["k"], "metadata.provenance.via", "api")
	})
}

func TestSendFields(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		for _, c := range []struct {
			field string
			value any
			kind  string
		}{
			{"encrypted_payload", "", ""},
			{"encrypted_payload", "a+b/", "string_pattern_mismatch"},
			{"encrypted_payload", "a b", "string_pattern_mismatch"},
			{"encrypted_payload", "QQ===", "string_pattern_mismatch"},
			{"encrypted_payload", "=", "string_pattern_mismatch"},
			{"encrypted_payload", "Q=Q", "string_pattern_mismatch"},
			{"encrypted_payload", "QQ\n", "string_pattern_mismatch"},
			{"encrypted_payload", "Qä", "string_pattern_mismatch"},
			{"encrypted_payload", 5, ""},
			{"encrypted_payload", nil, ""},
			{"encrypted_payload", obj{}, ""},
			{"self_encrypted_payload", "a+b", "string_pattern_mismatch"},
			{"self_encrypted_payload", 5, ""},
			{"type", "", ""},
			{"type", nil, ""},
			{"type", 5, ""},
			{"type", "one", "string_pattern_mismatch"},
			{"type", "one.two", "string_pattern_mismatch"},
			{"type", "one..three", "string_pattern_mismatch"},
			{"type", ".a.b.c", "string_pattern_mismatch"},
			{"type", "a.b.c.", "string_pattern_mismatch"},
			{"type", "a.b.c d", "string_pattern_mismatch"},
			{"type", "a.b.c\n", "string_pattern_mismatch"},
			{"type", "svc.v1.unheard_of", ""},
			{"encryption_version", "hpke-v2", "enum"},
			{"encryption_version", "", "enum"},
			{"metadata", []any{}, ""},
			{"metadata", "text", ""},
			{"metadata", 5, ""},
			{"conversation_metadata", []any{}, ""},
			{"conversation_metadata", true, ""},
			{"sender_attestations", obj{}, ""},
			{"sender_attestations", "text", ""},
			{"content_type", 5, ""},
			{"payload_schema", 5, ""},
			{"sender_signing_kid", 5, ""},
			{"to_agent_id", "x", "uuid_parsing"},
			{"to_agent_id", 5, ""},
			{"parent_conversation_id", "x", "uuid_parsing"},
			{"from_handle", "no-at-sign", ""},
			{"from_handle", 5, ""},
		} {
			a.TrySend(b, obj{c.field: c.value}).As("%s %v", c.field, c.value).Invalid("body."+c.field, c.kind)
		}
		for _, field := range []string{"type", "encrypted_payload"} {
			a.Post("/messages", kit.Without(kit.Message(b), field)).Invalid("body."+field, "missing")
		}
		two := a.Post("/messages", obj{"to_agent_id": b.ID})
		two.Invalid("body.type", "missing").Invalid("body.encrypted_payload", "missing")
		if n := len(b.Everything()); n != 0 {
			t.Errorf("%d messages arrived", n)
		}
	})
}

func TestSendTypes(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		for name := range strings.FieldsSeq(`dm task_request task_response status_update negotiation receipt error capability_query
			capability_response payment_request payment_confirmation consent_request consent_grant consent_revoke identity_verification
			sender_key_distribution sender_key_request`) {
			a.TrySend(b, obj{"type": "svc.v1." + name}).As("%s", name).Want(201).Is("type", "svc.v1."+name)
		}
		for _, custom := range []string{"a.b.c", "acme.v1.x", "A-1._.z.9", "svcx.v1.other"} {
			a.TrySend(b, obj{"type": custom}).As("%s", custom).Want(201).Is("type", custom)
		}
		for _, payload := range []string{"Q", "QQ=", "QQ==", "_-", strings.Repeat("-", 7)} {
			a.TrySend(b, obj{"encrypted_payload": payload}).As("%s", payload).Want(201).Is("encrypted_payload", payload)
		}
	})
}

func TestSendBodySize(t *testing.T) {
	const most = 1 << 20
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		body := `{"to_agent_id":"` + b.ID + `","type":"svc.v1.dm","encrypted_payload":"QQ"}`
		a.Post("/messages", kit.Verbatim(body+strings.Repeat(" ", most-len(body)))).As("1 MiB").Want(201)
		got := playRaw(s.Addr, []string{"POST /messages HTTP/1.1\r\nHost: " + s.Addr + "\r\nAuthorization: Bearer " + a.Token +
			"\r\nContent-Type: application/json\r\nContent-Length: 1048577\r\n\r\n" + body + strings.Repeat(" ", most+1-len(body))}, 5*time.Second)
		if got != "413 payload_too_large, closed" {
			t.Errorf("1 MiB plus one byte: %s", got)
		}
		if n := len(b.Everything()); n != 1 {
			t.Errorf("%d messages arrived, want 1", n)
		}
	})
}
