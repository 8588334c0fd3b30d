package blackbox

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// TestSignatureOfRepeats: the answer to a repeat under an Idempotency-Key is the stored
// message, whatever happened to its signatures: the sender may have rotated or retired
// its key since. A request rejected for its signature is not stored.
func TestSignatureOfRepeats(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		r := a.group(obj{"enrollment_policy": "open"})
		b.request("POST", r.path("/join"), nil).want(200)
		m := a.send(b)
		for name, c := range map[string]struct {
			path string
			body obj
			code int
		}{
			"send":      {"/messages", message(b), 201},
			"sync":      {"/messages/sync?timeout_ms=1000", message(b), 200},
			"reply":     {"/messages/" + text(m, "id") + "/reply", obj{"type": "svc.v1.dm", "encrypted_payload": "QQ"}, 201},
			"broadcast": {"/messages", toHandle(r.handle), 201},
		} {
			bodyText := func(more obj) string {
				plain, _ := json.Marshal(merged(c.body, more))
				return string(plain)
			}
			body := bodyText(nil)
			forged := bodyText(obj{"sender_attestations": []any{attested(a.sign, a.signKid(), false, true)}})
			post := func(key, body, signature string) *answer {
				return a.post(c.path, verbatim(body), "X-Svc-Agent", a.id, "Idempotency-Key", name+key, "X-Svc-Message-Signature", signature).as("%s %s", name, key)
			}
			id := func(an *answer) any {
				if name == "sync" {
					return an.at("message.id")
				}
				return an.at("id")
			}
			good, wrong := messageSignature(a.sign, body), messageSignature(b.sign, body)
			post("-1", body, wrong).refused(403, "signature_invalid")
			first := id(post("-1", body, good).as("%s, not remembered before", name).want(c.code))
			for what, again := range map[string]*answer{
				"by another key": post("-1", body, wrong), "with a forged attestation": post("-1", forged, messageSignature(a.sign, forged)),
			} {
				again.as("%s again, %s", name, what).want(200)
				if again.header.Get("Idempotency-Replayed") != "true" || id(again) != first {
					again.errorf("not the stored message %v", first)
				}
			}
			other := bodyText(obj{"type": "svc.v1.receipt"})
			post("-1", other, wrong).as("%s, another under the key", name).refused(409, "idempotency_mismatch")
			post("-2", forged, messageSignature(a.sign, forged)).refused(403, "signature_invalid")
			a.post(c.path, verbatim(forged), "X-Svc-Agent", a.id).as("%s without a key", name).refused(403, "signature_invalid")
		}
	})
}

// TestEmptySignature: a header without a value is an invalid signature, on a new
// connection and on a reused one.
func TestEmptySignature(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		for name, connections := range map[string]*http.Transport{"fresh connections": {DisableKeepAlives: true}, "one connection": {}} {
			for range 3 {
				ask, err := s.request(a.token, "POST", "/messages", message(b))
				if err != nil {
					t.Fatal(err)
				}
				ask.Header["X-Svc-Message-Signature"] = []string{""}
				told, err := connections.RoundTrip(ask)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, told.Body)
				_ = told.Body.Close()
				if told.StatusCode != 403 {
					t.Errorf("on %s: %s", name, told.Status)
				}
			}
			connections.CloseIdleConnections()
		}
		if n := len(b.everything()); n != 0 {
			t.Errorf("%d messages arrived", n)
		}
	})
}
