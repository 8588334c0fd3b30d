package streams

import (
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

func TestPoll(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		count := func(query string, want int) {
			t.Helper()
			r := s.Polled(t, b.PollURL, query).Want(200).Is("count", want)
			kit.Exactly(t, "poll answer", r.Body, "count")
		}
		count("", 0)
		m1 := a.Send(b)
		time.Sleep(3 * time.Millisecond)
		m2 := a.Send(b)
		count("", 2)
		b.Get("/messages/" + kit.Text(m1, "id")).Want(200)
		b.Reply(m2)
		count("", 2)
		kit.Marked(t, a, a.Send(b), "new")
		count("", 3)
		s.Polled(t, a.PollURL, "").Want(200).Is("count", 1)

		at := func(m obj) time.Time {
			when, err := time.Parse(time.RFC3339Nano, kit.Text(m, "created_at"))
			if err != nil {
				t.Fatal(err)
			}
			return when
		}
		since := func(form string) string { return "?since=" + url.QueryEscape(form) }
		count(since(kit.Text(m1, "created_at")), 2)
		count(since(at(m1).Add(-time.Microsecond).Format("2006-01-02T15:04:05.000000Z")), 3)
		count(since(time.Now().Add(time.Hour).UTC().Format(time.RFC3339)), 0)
		early := at(m1).Add(-time.Hour)
		for name, form := range map[string]string{
			"zulu": since(early.UTC().Format(time.RFC3339)), "offset": since(early.In(time.FixedZone("", 5*3600+1800)).Format(time.RFC3339)),
			"no zone": since(early.UTC().Format("2006-01-02T15:04:05")), "fraction": since(early.UTC().Format("2006-01-02T15:04:05.123")),
			"date only":       since(early.UTC().Add(-24 * time.Hour).Format(time.DateOnly)),
			"plus as a space": "?since=" + early.In(time.FixedZone("", 7200)).Format(time.RFC3339), "long ago": since("1970-01-01"),
			"space for T": since(early.UTC().Format("2006-01-02 15:04:05Z07:00")),
		} {
			s.Polled(t, b.PollURL, form).As("%s", name).Want(200).Is("count", 3)
		}
		for _, bad := range []string{"yesterday", "2026-13-01", "2026-02-30", "12:00", "0x10"} {
			s.Polled(t, b.PollURL, since(bad)).As("since %s", bad).Invalid("query.since", "")
		}
	})
}

func TestPollTokens(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		a.Send(b)
		fresh := b.Post(b.Path("/poll-token"), nil).Want(200)
		kit.Exactly(t, "poll token", fresh.Body, "poll_url")
		if fresh.Str("poll_url") == b.PollURL || !strings.HasPrefix(fresh.Str("poll_url"), s.Base+"/poll/") {
			fresh.Errorf("want a new absolute address")
		}
		s.Polled(t, b.PollURL, "").As("replaced").Refused(404, "not_found")
		s.Polled(t, fresh.Str("poll_url"), "").Want(200).Is("count", 1)
		b.Delete(b.Path("/poll-token")).Want(204)
		s.Polled(t, fresh.Str("poll_url"), "").As("revoked").Refused(404, "not_found")
		again := b.Post(b.Path("/poll-token"), obj{}).Want(200).Str("poll_url")
		s.Polled(t, again, "").Want(200).Is("count", 1)
		s.Call(t, "", "GET", "/poll/unknown", nil).Refused(404, "not_found")
		s.Call(t, "", "GET", "/poll/"+again[len(s.Base+"/poll/"):]+"x", nil).Refused(404, "not_found")
	})
}

func TestPollLimits(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		refused := func(r *kit.Answer) {
			t.Helper()
			r.Refused(429, "rate_limited")
			if n, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || n < 1 || n > 60 {
				r.Errorf("Retry-After is %q", r.Header.Get("Retry-After"))
			}
			for _, h := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
				if _, err := strconv.Atoi(r.Header.Get(h)); err != nil {
					r.Errorf("%s is %q", h, r.Header.Get(h))
				}
			}
		}
		byToken := kit.Start(t, "--journals", journals, "--poll-limit", "1000/3")
		o := byToken.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		for range 3 {
			byToken.Polled(t, a.PollURL, "").Want(200)
		}
		refused(byToken.Polled(t, a.PollURL, ""))
		byToken.Polled(t, b.PollURL, "").As("another token").Want(200)
		byToken.Call(t, "", "GET", "/health", nil).Want(200)

		byAddress := kit.Start(t, "--journals", journals, "--poll-limit", "5/0")
		g := byAddress.Org(t).Agent("a")
		for range 5 {
			byAddress.Polled(t, g.PollURL, "").Want(200)
		}
		refused(byAddress.Polled(t, g.PollURL, ""))
	})
}
