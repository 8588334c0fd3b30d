package blackbox

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestSendDefaults(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.trySend(b, nil).want(201).shaped(messageShape)
		m.is("from_agent_id", a.id, "to_agent_id", b.id, "type", "svc.v1.dm", "encrypted_payload", "aGVsbG8", "encryption_version", "hpke-v1",
			"sender_signing_kid", nil, "content_type", "application/json", "payload_schema", nil, "sender_attestations", nil,
			"sender_handle", a.handle, "recipient_handle", b.handle, "group_id", nil, "group_handle", nil,
			"delivered_at", nil, "read_at", nil, "status", "new", "direction", "sent", "self_encrypted_payload", nil)
		exactly(t, "metadata", m.at("metadata").(obj), "provenance")
		a.talk(m.body).shaped(talkShape).is("id", m.at("conversation_id"), "status", "submitted", "parent_conversation_id", nil, "metadata", obj{})
	})
}

func TestSendKeepsEveryField(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		fields := obj{
			"type": "acme-corp.v1.order_placed", "encrypted_payload": "_-9A==", "encryption_version": "sender-key-v1", "sender_signing_kid": "any kid",
			"content_type": "text/plain; charset=utf-8", "payload_schema": "https://example.org/s.json",
			"self_encrypted_payload": "c2VsZg", "conversation_metadata": obj{"topic": "Ünïcode", "n": 1.5, "deep": obj{"a": []any{1, nil, true}}},
		}
		m := a.trySend(b, merged(fields, obj{"metadata": obj{"k": []any{"v", 1}, "nothing": nil}, "unheard_of": 1})).want(201).shaped(messageShape)
		for name, v := range without(fields, "conversation_metadata") {
			m.is(name, v)
		}
		m.is("metadata.k", []any{"v", 1})
		if _, kept := m.at("metadata").(obj)["nothing"]; !kept {
			m.errorf("a null inside metadata is lost")
		}
		a.talk(m.body).is("metadata", fields["conversation_metadata"])
		got := b.get("/messages/" + m.str("id")).want(200).shaped(messageShape)
		got.is("metadata", m.at("metadata"), "type", fields["type"], "encrypted_payload", "_-9A==", "created_at", m.at("created_at"), "direction", "received")
	})
}

func TestSendNullsAreAbsent(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		nulls := obj{}
		for _, name := range []string{
			"to_handle", "from_handle", "encryption_version", "sender_signing_kid", "metadata", "content_type", "payload_schema",
			"sender_attestations", "parent_conversation_id", "conversation_metadata", "self_encrypted_payload",
		} {
			nulls[name] = nil
		}
		a.trySend(b, nulls).want(201).is("encryption_version", "hpke-v1", "content_type", "application/json")
	})
}

func TestProvenance(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		a.patch(a.path(""), obj{"human_oversight": false}).want(200)
		judge := func(m *answer, g *agent, oversight bool, via string) {
			t.Helper()
			p, _ := m.at("metadata.provenance").(obj)
			exactly(t, "provenance", p, "server received_at org_id org_slug trust_tier human_oversight via")
			shaped(t, "provenance", p, originShape)
			m.is("metadata.provenance.org_id", g.org.id, "metadata.provenance.org_slug", g.slug,
				"metadata.provenance.trust_tier", 1, "metadata.provenance.human_oversight", oversight, "metadata.provenance.via", via)
		}
		forged := obj{"metadata": obj{"provenance": obj{"org_id": b.org.id, "trust_tier": 3, "note": "forged"}, "kept": true}}
		m := a.trySend(b, forged).want(201).is("metadata.kept", true)
		judge(m, a, false, "api")
		judge(a.trySend(b, obj{"metadata": obj{"provenance": "forged"}}).want(201), a, false, "api")
		judge(b.get("/messages/"+m.str("id")).want(200), a, false, "api")
		judge(b.tryReply(m.body, forged).want(201).is("metadata.kept", true), b, true, "api")
		judge(b.tryReply(m.body, nil).want(201), b, true, "api")
	})
}

// object returns a JSON object of exactly n bytes in compact form.
func object(n int) obj { return obj{"k": strings.Repeat("x", n-len(`{"k":""}`))} }

// attestation returns a JWS by an unknown key, n bytes as a compact array.
func attestation(n int) []any {
	for kid := "nobody-knows"; ; kid = kid[1:] {
		frame := obj{"protected": b64([]byte(`{"alg":"EdDSA","kid":"` + kid + `"}`)), "payload": "", "signature": b64(make([]byte, 64))}
		plain, _ := json.Marshal([]any{frame})
		if left := n - len(plain); left%4 != 1 { // no base64url text has such a length
			frame["payload"] = strings.Repeat("A", left)
			return []any{frame}
		}
	}
}

func TestSendLimits(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
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
			{"metadata", object(4096), object(4097), ""},
			{"conversation_metadata", object(4096), object(4097), ""},
			{"sender_attestations", attestation(8192), attestation(8193), ""},
		} {
			a.trySend(b, obj{c.field: c.fits}).as("%s fits", c.field).want(201)
			a.trySend(b, obj{c.field: c.over}).as("%s over", c.field).invalid("body."+c.field, c.kind)
		}
		if n := len(b.everything()); n != 9 {
			t.Errorf("%d messages arrived, want 9", n)
		}
	})
}

// TestMetadataIsMeasuredUnescaped: escapes that JSON does not require, which many clients
// use beyond ASCII, do not count towards the limit.
func TestMetadataIsMeasuredUnescaped(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		body := func(field, value string) verbatim {
			return verbatim(`{"to_agent_id":"` + b.id + `","type":"svc.v1.dm","encrypted_payload":"QQ","` + field + `":` + value + `}`)
		}
		escaped := func(n int) string { return `{"\u006b":"` + strings.Repeat(`\u0078`, n-len(`{"k":""}`)) + `"}` }
		for _, field := range []string{"metadata", "conversation_metadata"} {
			a.post("/messages", body(field, escaped(4096))).as("%s fits", field).want(201)
			a.post("/messages", body(field, escaped(4097))).as("%s over", field).invalid("body."+field, "")
			// Control characters are always escaped: "\u0001" is six bytes, "
			// " two.
			a.post("/messages", body(field, `{"k":"`+strings.Repeat(`\u0001`, 681)+`\n"}`)).as("%s escaped", field).want(201)
			a.post("/messages", body(field, `{"k":"`+strings.Repeat(`\u0001`, 681)+`\nx"}`)).as("%s escaped", field).invalid("body."+field, "")
		}
		m := a.post("/messages", body("metadata", escaped(4096))).want(201).is("metadata.k", strings.Repeat("x", 4088))
		b.tryReply(m.body, obj{"metadata": json.RawMessage(escaped(4096))}).want(201)
		b.tryReply(m.body, obj{"metadata": json.RawMessage(escaped(4097))}).invalid("body.metadata", "")
		jws := func(n int) string {
			plain, _ := json.Marshal(attestation(n))
			return strings.ReplaceAll(string(plain), "A", `\u0041`)
		}
		a.post("/messages", body("sender_attestations", jws(8192))).want(201).is("sender_attestations", attestation(8192))
		a.post("/messages", body("sender_attestations", jws(8193))).invalid("body.sender_attestations", "")
	})
}

func TestMetadataIsMeasuredCompact(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		spaced := `{"to_agent_id":"` + b.id + `","type":"svc.v1.dm","encrypted_payload":"QQ","metadata":{` + strings.Repeat(" ", 9000) + `"a":1}}`
		a.post("/messages", verbatim(spaced)).want(201).is("metadata.a", 1)
		m := a.send(b)
		b.tryReply(m, obj{"metadata": object(4096)}).want(201)
		b.tryReply(m, obj{"metadata": object(4097)}).invalid("body.metadata", "")
		got := b.tryReply(m, obj{"metadata": merged(object(4000), obj{"provenance": nil})}).want(201)
		got.is("metadata.k", object(4000)["k"], "metadata.provenance.via", "api")
	})
}

func TestSendFields(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
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
			a.trySend(b, obj{c.field: c.value}).as("%s %v", c.field, c.value).invalid("body."+c.field, c.kind)
		}
		for _, field := range []string{"type", "encrypted_payload"} {
			a.post("/messages", without(message(b), field)).invalid("body."+field, "missing")
		}
		two := a.post("/messages", obj{"to_agent_id": b.id})
		two.invalid("body.type", "missing").invalid("body.encrypted_payload", "missing")
		if n := len(b.everything()); n != 0 {
			t.Errorf("%d messages arrived", n)
		}
	})
}

func TestSendTypes(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		for name := range strings.FieldsSeq(`dm task_request task_response status_update negotiation receipt error capability_query
			capability_response payment_request payment_confirmation consent_request consent_grant consent_revoke identity_verification
			sender_key_distribution sender_key_request`) {
			a.trySend(b, obj{"type": "svc.v1." + name}).as("%s", name).want(201).is("type", "svc.v1."+name)
		}
		for _, custom := range []string{"a.b.c", "acme.v1.x", "A-1._.z.9", "svcx.v1.other"} {
			a.trySend(b, obj{"type": custom}).as("%s", custom).want(201).is("type", custom)
		}
		for _, payload := range []string{"Q", "QQ=", "QQ==", "_-", strings.Repeat("-", 7)} {
			a.trySend(b, obj{"encrypted_payload": payload}).as("%s", payload).want(201).is("encrypted_payload", payload)
		}
	})
}

func TestSendBodySize(t *testing.T) {
	const most = 1 << 20
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		body := `{"to_agent_id":"` + b.id + `","type":"svc.v1.dm","encrypted_payload":"QQ"}`
		a.post("/messages", verbatim(body+strings.Repeat(" ", most-len(body)))).as("1 MiB").want(201)
		got := playRaw(s.addr, []string{"POST /messages HTTP/1.1\r\nHost: " + s.addr + "\r\nAuthorization: Bearer " + a.token +
			"\r\nContent-Type: application/json\r\nContent-Length: 1048577\r\n\r\n" + body + strings.Repeat(" ", most+1-len(body))}, 5*time.Second)
		if got != "413 payload_too_large, closed" {
			t.Errorf("1 MiB plus one byte: %s", got)
		}
		if n := len(b.everything()); n != 1 {
			t.Errorf("%d messages arrived, want 1", n)
		}
	})
}
