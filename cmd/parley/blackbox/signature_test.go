package blackbox

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"
)

// messageSignature signs a raw body for the X-Svc-Message-Signature header.
func messageSignature(key ed25519.PrivateKey, body string) string {
	sum := sha256.Sum256([]byte(body))
	return b64(ed25519.Sign(key, []byte("svc-msg-v1\n"+hex.EncodeToString(sum[:]))))
}

func TestMessageSignature(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, b := s.org(t), s.org(t).agent("bob")
		o.agent("first")
		a := o.agent("signer")
		plain, _ := json.Marshal(message(b))
		body := string(plain)
		post := func(path, body, signature string) *answer {
			return a.post(path, verbatim(body), "X-Svc-Agent", a.id, "X-Svc-Message-Signature", signature)
		}
		good := messageSignature(a.sign, body)
		m := post("/messages", body, good).as("good").want(201)
		sum := sha256.Sum256(plain)
		for name, signature := range map[string]string{
			"of another body":  messageSignature(a.sign, body+" "),
			"of another key":   messageSignature(b.sign, body),
			"without a prefix": b64(ed25519.Sign(a.sign, []byte(hex.EncodeToString(sum[:])))),
			"cut short":        good[:40],
			"not base64url":    "!!!",
		} {
			post("/messages", body, signature).as("%s", name).refused(403, "signature_invalid")
		}
		o.post("/messages", verbatim(body), "X-Svc-Message-Signature", good).as("of another agent").refused(403, "signature_invalid")
		reply := `{"type":"svc.v1.dm","encrypted_payload":"QQ"}`
		path := "/messages/" + m.str("id") + "/reply"
		post(path, reply, messageSignature(a.sign, reply)).as("reply").want(201)
		post(path, reply, messageSignature(b.sign, reply)).as("reply").refused(403, "signature_invalid")

		sign, _ := newKeys()
		a.post(a.path("/keys"), obj{"signing_public_key": signJWK(sign)}).want(200)
		post("/messages", body, good).as("a former key").refused(403, "signature_invalid")
		post("/messages", body, messageSignature(sign, body)).as("the new key").want(201)
		if n := len(b.everything()); n != 3 {
			t.Errorf("%d messages arrived, want 3", n)
		}
	})
}

// attested is a JWS over a claim, compact or flattened.
func attested(key ed25519.PrivateKey, kid string, flat, spoilt bool) any {
	header, _ := json.Marshal(obj{"alg": "EdDSA", "kid": kid})
	protected, payload := b64(header), b64([]byte(`{"role":"buyer"}`))
	signature := ed25519.Sign(key, []byte(protected+"."+payload))
	if spoilt {
		signature[0] ^= 1
	}
	if flat {
		return obj{"protected": protected, "payload": payload, "signature": b64(signature)}
	}
	return protected + "." + payload + "." + b64(signature)
}

func TestAttestations(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		unknown, _ := newKeys()
		for _, flat := range []bool{true, false} {
			good := []any{attested(a.sign, a.signKid(), flat, false)}
			m := a.trySend(b, obj{"sender_attestations": good}).as("good, flat %v", flat).want(201).is("sender_attestations", good)
			b.get("/messages/"+m.str("id")).want(200).is("sender_attestations", good)
			byOther := []any{attested(b.sign, b.signKid(), flat, false)}
			a.trySend(b, obj{"sender_attestations": byOther}).as("by another agent here").want(201).is("sender_attestations", byOther)
			loose := []any{attested(unknown, "somebody-elsewhere", flat, false), good[0]}
			a.trySend(b, obj{"sender_attestations": loose}).as("unresolvable").want(201).is("sender_attestations", loose)

			spoilt := []any{good[0], attested(a.sign, a.signKid(), flat, true)}
			a.trySend(b, obj{"sender_attestations": spoilt}).as("spoilt, flat %v", flat).refused(403, "signature_invalid")
			a.trySend(b, obj{"sender_attestations": []any{attested(unknown, a.signKid(), flat, false)}}).as("by another key").refused(403, "signature_invalid")
			b.tryReply(m.body, obj{"sender_attestations": spoilt}).as("reply").refused(403, "signature_invalid")
			b.tryReply(m.body, obj{"sender_attestations": good}).as("reply").want(201).is("sender_attestations", good)
		}
		a.trySend(b, obj{"sender_attestations": []any{}}).as("empty").want(201)
		a.trySend(b, obj{"sender_signing_kid": "not-mine"}).as("a kid alone is recorded").want(201).is("sender_signing_kid", "not-mine")
	})
}
