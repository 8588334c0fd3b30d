package blackbox

import (
	"strings"
	"testing"
	"time"
)

// TestHoldIsShownAndEnded: a target's Retry-After delays the job that it answered for the
// whole time, and the webhook's other jobs for at most five minutes. The API shows the
// delay, and the owner can end it.
func TestHoldIsShownAndEnded(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		for name, ends := range map[string]func(h *hook, held obj) *Answer{
			"retry of the pending job": func(h *hook, held obj) *Answer { return h.retry(held) },
			"test":                     func(h *hook, _ obj) *Answer { return h.agent.Post(h.path("/test"), nil) },
			"PATCH active":             func(h *hook, _ obj) *Answer { return h.setActive(true) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				a, b := Pair(t, s)
				h := b.listens(says(503, "Retry-After", "86400"), says(200))
				asked := a.Send(b)
				first := h.waitForStatus(asked, "failed")
				if wait := between(t, first, "last_attempt_at", "next_attempt_at"); wait < 23*time.Hour || wait > 25*time.Hour {
					t.Errorf("the target requested a delay of one day; the delay is %v", wait)
				}
				other := a.Send(b)
				held := h.holds(other)
				if wait := time.Until(Moment(t, held, "next_attempt_at")); wait > 5*time.Minute {
					t.Errorf("another job is held for %v", wait)
				}
				if why := Text(held, "last_error"); !strings.Contains(why, "held") {
					t.Errorf("the row of a held job has %q", why)
				}
				why := b.Get("/messages/" + Text(other, "id") + "/trace").Want(200)
				if said := why.Str("pending_reason"); !strings.Contains(said, "held") || !strings.Contains(said, Text(held, "next_attempt_at")) {
					why.Errorf("the trace does not tell of the hold")
				}
				h.to.checkNoMore(t, 1)
				ends(h, held).Want(200)
				h.waitForStatus(other, "delivered")
				if still := h.job(asked); still["status"] != "failed" || still["next_attempt_at"] != first["next_attempt_at"] {
					t.Errorf("the delayed job became %v", still)
				}
			})
		}
	})
}

// holds waits until the job of a message is held and returns it.
func (h *hook) holds(m obj) obj {
	h.agent.T.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		if j := h.job(m); j != nil && j["status"] == "pending" && j["next_attempt_at"] != nil {
			return j
		}
		if time.Now().After(deadline) {
			h.agent.T.Fatalf("the job is not held after 30 s: %v", h.job(m))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestOwnAddressIsNoTarget: the server cannot be made to call itself, by name or by
// address, in any spelling.
func TestOwnAddressIsNoTarget(t *testing.T) {
	t.Parallel()
	for base, own := range map[string][]string{
		"https://parley.unknown.invalid": {"parley.unknown.invalid", "PARLEY.unknown.invalid.", "parley.unknown.invalid:8443", "p%61rley.unknown.invalid", "ｐarley.unknown.invalid"},
		"https://93.184.216.34:8443":     {"93.184.216.34", "0x5d.184.0xd822", "1572395042:8443"},
	} {
		s := Start(t, "--dev=false", "--pow-bits", "8", "--quota-profile", "open", "--base-url", base)
		g := s.Org(t).Agent("g")
		for _, host := range own {
			if a := g.hooksAt("https://" + host + "/hook"); a.Err != nil || a.Status != 422 || a.Body["code"] != "ssrf_blocked" {
				a.As("%s at %s", host, base).Errorf("want 422 ssrf_blocked")
			}
		}
		for _, host := range []string{"hooks.unknown.invalid", "93.184.216.35", "a.parley.unknown.invalid"} {
			g.hooksAt("https://"+host+"/hook").As("control: %s at %s", host, base).Want(201)
		}
	}
}

// TestURLIsReturnedAsSent: the API returns the URL as sent, but the server dials its
// canonical form, in which two spellings of a target are equal.
func TestURLIsReturnedAsSent(t *testing.T) {
	hooks(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		to := theSink(t).target()
		sent := strings.Replace(to.url, "https://", "HTTPS:\\\\", 1)
		made := b.hooksAt(sent).Want(201).Is("url", sent)
		h := &hook{agent: b, to: to, id: made.Str("id"), secret: made.Str("secret")}
		if row := h.read(); row["url"] != sent {
			t.Errorf("the listing has %v", row["url"])
		}
		h.setActive(true).Is("url", sent)
		b.Post(h.path("/rotate-secret"), nil).Want(200).Is("url", sent)
		b.hooksAt(to.url).Refused(409, "duplicate_webhook")
		h.waitForStatus(a.Send(b), "delivered")
		to.waitForDelivery(t, 1)
	})
}
