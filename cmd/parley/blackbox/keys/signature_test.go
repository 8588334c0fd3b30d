package keys

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// messageSignature signs a raw body for the X-Svc-Message-Signature header.
func messageSignature(key ed25519.PrivateKey, body string) string {
	sum := sha256.Sum256([]byte(body))
	return kit.B64(ed25519.Sign(key, []byte("svc-msg-v1\n"+hex.EncodeToString(sum[:]))))
}

func TestMessageSignature(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o, b := s.Org(t), s.Org(t).Agent("bob")
		o.Agent("first")
		a := o.Agent("signer")
		plain, _ := json.Marshal(kit.Message(b))
		body := string(plain)
		post := func(path, body, signature string) *kit.Answer {
			return a.Post(path, kit.Verbatim(body), "X-Svc-Agent", a.ID, "X-Svc-Message-Signature", signature)
		}
		good := messageSignature(a.Sign, body)
		m := post("/messages", body, good).As("good").Want(201)
		sum := sha256.Sum256(plain)
		for name, signature := range map[string]string{
			"of another body":  messageSignature(a.Sign, body+" "),
			"of another key":   messageSignature(b.Sign, body),
			"without a prefix": kit.B64(ed25519.Sign(a.Sign, []byte(hex.EncodeToString(sum[:])))),
			"cut short":        good[:40],
			"not base64url":    "!!!",
		} {
			post("/messages", body, signature).As("%s", name).Refused(403, "signature_invalid")
		}
		o.Post("/messages", kit.Verbatim(body), "X-Svc-Message-Signature", good).As("of another agent").Refused(403, "signature_invalid")
		reply := `{"type":"svc.v1.dm","encrypted_payload":"QQ"}`
		path := "/messages/" + m.Str("id") + "/reply"
		post(path, reply, messageSignature(a.Sign, reply)).As("reply").Want(201)
		post(path, reply, messageSignature(b.Sign, reply)).As("reply").Refused(403, "signature_invalid")

		sign, _ := kit.NewKeys()
		a.Post(a.Path("/keys"), obj{"signing_public_key": kit.SignJWK(sign)}).Want(200)
		post("/messages", body, good).As("a former key").Refused(403, "signature_invalid")
		post("/messages", body, messageSignature(sign, body)).As("the new key").Want(201)
		if n := len(b.Everything()); n != 3 {
			t.Errorf("%d messages arrived, want 3", n)
		}
	})
}

// attested is a JWS over a claim, compact or flattened.
func attested(key ed25519.PrivateKey, kid string, flat, spoilt bool) any {
	header, _ := json.Marshal(obj{"alg": "EdDSA", "kid": kid})
	protected, payload := kit.B64(header), kit.B64([]byte(`{"role":"buyer"}`))
	signature := ed25519.Sign(key, []byte(protected+"."+payload))
	if spoilt {
		signature[0] ^= 1
	}
	if flat {
		return obj{"protected": protected, "payload": payload, "signature": kit.B64(signature)}
	}
	return protected + "." + payload + "." + kit.B64(signature)
}

func TestAttestations(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		unknown, _ := kit.NewKeys()
		for _, flat := range []bool{true, false} {
			good := []any{attested(a.Sign, a.SignKid(), flat, false)}
			m := a.TrySend(b, obj{"sender_attestations": good}).As("good, flat %v", flat).Want(201).Is("sender_attestations", good)
			b.Get("/messages/"+m.Str("id")).Want(200).Is("sender_attestations", good)
			byOther := []any{attested(b.Sign, b.SignKid(), flat, false)}
			a.TrySend(b, obj{"sender_attestations": byOther}).As("by another agent here").Want(201).Is("sender_attestations", byOther)
			loose := []any{attested(unknown, "somebody-elsewhere", flat, false), good[0]}
			a.TrySend(b, obj{"sender_attestations": loose}).As("unresolvable").Want(201).Is("sender_attestations", loose)

			spoilt := []any{good[0], attested(a.Sign, a.SignKid(), flat, true)}
			a.TrySend(b, obj{"sender_attestations": spoilt}).As("spoilt, flat %v", flat).Refused(403, "signature_invalid")
			a.TrySend(b, obj{"sender_attestations": []any{attested(unknown, a.SignKid(), flat, false)}}).As("by another key").Refused(403, "signature_invalid")
			b.TryReply(m.Body, obj{"sender_attestations": spoilt}).As("reply").Refused(403, "signature_invalid")
			b.TryReply(m.Body, obj{"sender_attestations": good}).As("reply").Want(201).Is("sender_attestations", good)
		}
		a.TrySend(b, obj{"sender_attestations": []any{}}).As("empty").Want(201)
		a.TrySend(b, obj{"sender_signing_kid": "not-mine"}).As("a kid alone is recorded").Want(201).Is("sender_signing_kid", "not-mine")
	})
}
