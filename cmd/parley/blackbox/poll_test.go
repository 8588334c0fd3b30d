package blackbox

import (
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// polled requests the poll URL as issued, which is absolute.
func (s *server) polled(t testing.TB, address, query string) *answer {
	return s.call(t, "", "GET", strings.TrimPrefix(address, s.base)+query, nil)
}

func TestPoll(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		count := func(query string, want int) {
			t.Helper()
			r := s.polled(t, b.pollURL, query).want(200).is("count", want)
			exactly(t, "poll answer", r.body, "count")
		}
		count("", 0)
		m1 := a.send(b)
		time.Sleep(3 * time.Millisecond)
		m2 := a.send(b)
		count("", 2)
		b.get("/messages/" + text(m1, "id")).want(200)
		b.reply(m2)
		count("", 2)
		marked(t, a, a.send(b), "new")
		count("", 3)
		s.polled(t, a.pollURL, "").want(200).is("count", 1)

		at := func(m obj) time.Time {
			when, err := time.Parse(time.RFC3339Nano, text(m, "created_at"))
			if err != nil {
				t.Fatal(err)
			}
			return when
		}
		since := func(form string) string { return "?since=" + url.QueryEscape(form) }
		count(since(text(m1, "created_at")), 2)
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
			s.polled(t, b.pollURL, form).as("%s", name).want(200).is("count", 3)
		}
		for _, bad := range []string{"yesterday", "2026-13-01", "2026-02-30", "12:00", "0x10"} {
			s.polled(t, b.pollURL, since(bad)).as("since %s", bad).invalid("query.since", "")
		}
	})
}

func TestPollTokens(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		a.send(b)
		fresh := b.post(b.path("/poll-token"), nil).want(200)
		exactly(t, "poll token", fresh.body, "poll_url")
		if fresh.str("poll_url") == b.pollURL || !strings.HasPrefix(fresh.str("poll_url"), s.base+"/poll/") {
			fresh.errorf("want a new absolute address")
		}
		s.polled(t, b.pollURL, "").as("replaced").refused(404, "not_found")
		s.polled(t, fresh.str("poll_url"), "").want(200).is("count", 1)
		b.delete(b.path("/poll-token")).want(204)
		s.polled(t, fresh.str("poll_url"), "").as("revoked").refused(404, "not_found")
		again := b.post(b.path("/poll-token"), obj{}).want(200).str("poll_url")
		s.polled(t, again, "").want(200).is("count", 1)
		s.call(t, "", "GET", "/poll/unknown", nil).refused(404, "not_found")
		s.call(t, "", "GET", "/poll/"+again[len(s.base+"/poll/"):]+"x", nil).refused(404, "not_found")
	})
}

func TestPollLimits(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		refused := func(r *answer) {
			t.Helper()
			r.refused(429, "rate_limited")
			if n, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || n < 1 || n > 60 {
				r.errorf("Retry-After is %q", r.header.Get("Retry-After"))
			}
			for _, h := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
				if _, err := strconv.Atoi(r.header.Get(h)); err != nil {
					r.errorf("%s is %q", h, r.header.Get(h))
				}
			}
		}
		byToken := start(t, "--journals", journals, "--poll-limit", "1000/3")
		o := byToken.org(t)
		a, b := o.agent("a"), o.agent("b")
		for range 3 {
			byToken.polled(t, a.pollURL, "").want(200)
		}
		refused(byToken.polled(t, a.pollURL, ""))
		byToken.polled(t, b.pollURL, "").as("another token").want(200)
		byToken.call(t, "", "GET", "/health", nil).want(200)

		byAddress := start(t, "--journals", journals, "--poll-limit", "5/0")
		g := byAddress.org(t).agent("a")
		for range 5 {
			byAddress.polled(t, g.pollURL, "").want(200)
		}
		refused(byAddress.polled(t, g.pollURL, ""))
	})
}
