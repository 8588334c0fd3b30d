package webhooks

import (
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/hooktest"
)

// TestHoldIsShownAndEnded: a target's Retry-After delays the job that it answered for the
// whole time, and the webhook's other jobs for at most five minutes. The API shows the
// delay, and the owner can end it.
func TestHoldIsShownAndEnded(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		for name, ends := range map[string]func(h *hooktest.Hook, held obj) *kit.Answer{
			"retry of the pending job": func(h *hooktest.Hook, held obj) *kit.Answer { return h.Retry(held) },
			"test":                     func(h *hooktest.Hook, _ obj) *kit.Answer { return h.Agent.Post(h.Path("/test"), nil) },
			"PATCH active":             func(h *hooktest.Hook, _ obj) *kit.Answer { return h.SetActive(true) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				a, b := kit.Pair(t, s)
				h := hooktest.Listening(b, hooktest.Says(503, "Retry-After", "86400"), hooktest.Says(200))
				asked := a.Send(b)
				first := h.WaitForStatus(asked, "failed")
				if wait := between(t, first, "last_attempt_at", "next_attempt_at"); wait < 23*time.Hour || wait > 25*time.Hour {
					t.Errorf("the target requested a delay of one day; the delay is %v", wait)
				}
				other := a.Send(b)
				held := h.Holds(other)
				if wait := time.Until(kit.Moment(t, held, "next_attempt_at")); wait > 5*time.Minute {
					t.Errorf("another job is held for %v", wait)
				}
				if why := kit.Text(held, "last_error"); !strings.Contains(why, "held") {
					t.Errorf("the row of a held job has %q", why)
				}
				why := b.Get("/messages/" + kit.Text(other, "id") + "/trace").Want(200)
				if said := why.Str("pending_reason"); !strings.Contains(said, "held") || !strings.Contains(said, kit.Text(held, "next_attempt_at")) {
					why.Errorf("the trace does not tell of the hold")
				}
				h.To.CheckNoMore(t, 1)
				ends(h, held).Want(200)
				h.WaitForStatus(other, "delivered")
				if still := h.Job(asked); still["status"] != "failed" || still["next_attempt_at"] != first["next_attempt_at"] {
					t.Errorf("the delayed job became %v", still)
				}
			})
		}
	})
}

// TestOwnAddressIsNoTarget: the server cannot be made to call itself, by name or by
// address, in any spelling.
func TestOwnAddressIsNoTarget(t *testing.T) {
	t.Parallel()
	for base, own := range map[string][]string{
		"https://parley.unknown.invalid": {"parley.unknown.invalid", "PARLEY.unknown.invalid.", "parley.unknown.invalid:8443", "p%61rley.unknown.invalid", "ｐarley.unknown.invalid"},
		"https://93.184.216.34:8443":     {"93.184.216.34", "0x5d.184.0xd822", "1572395042:8443"},
	} {
		s := kit.Start(t, "--dev=false", "--pow-bits", "8", "--quota-profile", "open", "--base-url", base)
		g := s.Org(t).Agent("g")
		for _, host := range own {
			if a := hooktest.TryNew(g, "https://"+host+"/hook"); a.Err != nil || a.Status != 422 || a.Body["code"] != "ssrf_blocked" {
				a.As("%s at %s", host, base).Errorf("want 422 ssrf_blocked")
			}
		}
		for _, host := range []string{"hooks.unknown.invalid", "93.184.216.35", "a.parley.unknown.invalid"} {
			hooktest.TryNew(g, "https://"+host+"/hook").As("control: %s at %s", host, base).Want(201)
		}
	}
}

// TestURLIsReturnedAsSent: the API returns the URL as sent, but the server dials its
// canonical form, in which two spellings of a target are equal.
func TestURLIsReturnedAsSent(t *testing.T) {
	hooktest.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		to := hooktest.SharedSink(t).Target()
		sent := strings.Replace(to.URL, "https://", "HTTPS:\\\\", 1)
		made := hooktest.TryNew(b, sent).Want(201).Is("url", sent)
		h := &hooktest.Hook{Agent: b, To: to, ID: made.Str("id"), Secret: made.Str("secret")}
		if row := h.Read(); row["url"] != sent {
			t.Errorf("the listing has %v", row["url"])
		}
		h.SetActive(true).Is("url", sent)
		b.Post(h.Path("/rotate-secret"), nil).Want(200).Is("url", sent)
		hooktest.TryNew(b, to.URL).Refused(409, "duplicate_webhook")
		h.WaitForStatus(a.Send(b), "delivered")
		to.WaitForDelivery(t, 1)
	})
}
