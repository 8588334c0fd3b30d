package keys

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// TestSignatureOfRepeats: the answer to a repeat under an Idempotency-Key is the stored
// message, whatever happened to its signatures: the sender may have rotated or retired
// its key since. A request rejected for its signature is not stored.
func TestSignatureOfRepeats(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		r := grouptest.New(a, obj{"enrollment_policy": "open"})
		b.Request("POST", r.Path("/join"), nil).Want(200)
		m := a.Send(b)
		for name, c := range map[string]struct {
			path string
			body obj
			code int
		}{
			"send":      {"/messages", kit.Message(b), 201},
			"sync":      {"/messages/sync?timeout_ms=1000", kit.Message(b), 200},
			"reply":     {"/messages/" + kit.Text(m, "id") + "/reply", obj{"type": "svc.v1.dm", "encrypted_payload": "QQ"}, 201},
			"broadcast": {"/messages", kit.ToHandle(r.Handle), 201},
		} {
			bodyText := func(more obj) string {
				plain, _ := json.Marshal(kit.Merged(c.body, more))
				return string(plain)
			}
			body := bodyText(nil)
			forged := bodyText(obj{"sender_attestations": []any{attested(a.Sign, a.SignKid(), false, true)}})
			post := func(key, body, signature string) *kit.Answer {
				return a.Post(c.path, kit.Verbatim(body), "X-Svc-Agent", a.ID, "Idempotency-Key", name+key, "X-Svc-Message-Signature", signature).As("%s %s", name, key)
			}
			id := func(an *kit.Answer) any {
				if name == "sync" {
					return an.At("message.id")
				}
				return an.At("id")
			}
			good, wrong := messageSignature(a.Sign, body), messageSignature(b.Sign, body)
			post("-1", body, wrong).Refused(403, "signature_invalid")
			first := id(post("-1", body, good).As("%s, not remembered before", name).Want(c.code))
			for what, again := range map[string]*kit.Answer{
				"by another key": post("-1", body, wrong), "with a forged attestation": post("-1", forged, messageSignature(a.Sign, forged)),
			} {
				again.As("%s again, %s", name, what).Want(200)
				if again.Header.Get("Idempotency-Replayed") != "true" || id(again) != first {
					again.Errorf("not the stored message %v", first)
				}
			}
			other := bodyText(obj{"type": "svc.v1.receipt"})
			post("-1", other, wrong).As("%s, another under the key", name).Refused(409, "idempotency_mismatch")
			post("-2", forged, messageSignature(a.Sign, forged)).Refused(403, "signature_invalid")
			a.Post(c.path, kit.Verbatim(forged), "X-Svc-Agent", a.ID).As("%s without a key", name).Refused(403, "signature_invalid")
		}
	})
}

// TestEmptySignature: a header without a value is an invalid signature, on a new
// connection and on a reused one.
func TestEmptySignature(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		for name, connections := range map[string]*http.Transport{"fresh connections": {DisableKeepAlives: true}, "one connection": {}} {
			for range 3 {
				ask, err := s.Request(a.Token, "POST", "/messages", kit.Message(b))
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
		if n := len(b.Everything()); n != 0 {
			t.Errorf("%d messages arrived", n)
		}
	})
}
