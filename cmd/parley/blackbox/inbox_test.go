package blackbox

import (
	"encoding/base64"
	"net/url"
	"slices"
	"testing"
)

func TestInbox(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		if rows := b.inbox("").items(); len(rows) != 0 {
			t.Errorf("a new inbox has %d rows", len(rows))
		}
		b.inbox("").is("next_cursor", nil, "has_more", false, "items", []any{})
		var sent []string
		for range 21 {
			sent = append([]string{text(a.send(b), "id")}, sent...)
		}
		page := b.inbox("")
		rows := page.items()
		for _, r := range rows {
			shaped(t, "row", r, messageShape)
			if r["direction"] != "received" || r["to_agent_id"] != b.id || r["self_encrypted_payload"] != nil {
				t.Errorf("row %v", r)
			}
		}
		if !slices.Equal(ids(rows), sent[:20]) || page.at("has_more") != true {
			page.errorf("want the newest twenty, newest first")
		}
		rest := b.inbox("?cursor=" + url.QueryEscape(page.str("next_cursor")))
		if !slices.Equal(ids(rest.items()), sent[20:]) {
			rest.errorf("want the oldest")
		}
		rest.is("has_more", false, "next_cursor", nil)
		if n := len(a.everything()); n != 0 {
			t.Errorf("the sender's inbox has %d rows", n)
		}
	})
}

func TestInboxLimit(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		for range 3 {
			a.send(b)
		}
		for _, c := range []struct {
			limit string
			rows  int
		}{{"1", 1}, {"3", 3}, {"100", 3}} {
			page := b.inbox("?limit=" + c.limit)
			if n := len(page.items()); n != c.rows || page.at("has_more") != (c.rows < 3) {
				page.errorf("want %d rows", c.rows)
			}
		}
		for limit, kind := range map[string]string{
			"0": "greater_than_equal", "-1": "greater_than_equal", "101": "less_than_equal", "x": "int_parsing", "1.5": "int_parsing", "99999999999999999999": "",
		} {
			b.get(b.path("/messages?limit="+limit)).as("limit %q", limit).invalid("query.limit", kind)
		}
	})
}

func TestInboxWalkWhileMessagesArrive(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		var want []string
		for range 45 {
			want = append([]string{text(a.send(b), "id")}, want...)
		}
		var got []string
		cursor := ""
		for range 100 {
			page := b.inbox("?limit=7" + cursor)
			got = append(got, ids(page.items())...)
			a.send(b)
			if page.at("has_more") != true {
				break
			}
			cursor = "&cursor=" + url.QueryEscape(page.str("next_cursor"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("the pages had %d rows of 45: %v, want %v", len(got), got, want)
		}
	})
}

func TestCursors(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		c := b.org.agent("carol")
		for range 3 {
			a.send(b)
			a.send(c)
		}
		cursor := b.inbox("?limit=1").str("next_cursor")
		with := func(cursor string) *answer {
			return b.get(b.path("/messages?limit=1&cursor=") + url.QueryEscape(cursor))
		}
		with(cursor).want(200)
		flipped := []byte(cursor)
		flipped[len(flipped)/2] ^= 1
		for name, bad := range map[string]string{
			"garbage": "nonsense", "cut short": cursor[:len(cursor)-2], "longer": cursor + "AA", "flipped": string(flipped),
			"of another agent": c.inbox("?limit=1").str("next_cursor"), "an id": b.id,
			"our own make": base64.RawURLEncoding.EncodeToString([]byte(`{"after":1}`)),
			"of another list": func() string {
				a.send(b)
				return b.get(b.path("/conversations?limit=1")).want(200).str("next_cursor")
			}(),
		} {
			with(bad).as("%s", name).refused(400, "invalid_cursor")
		}
	})
}

func TestInboxTypeFilter(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		var orders, rest []string
		for i := range 30 {
			if i%10 == 0 {
				orders = append([]string{text(a.send(b, obj{"type": "acme.v1.order"}), "id")}, orders...)
			} else {
				rest = append([]string{text(a.send(b), "id")}, rest...)
			}
		}
		for _, limit := range []string{"1", "2", "100"} {
			if got := ids(b.pages(b.path("/messages"), "?type=acme.v1.order&limit="+limit)); !slices.Equal(got, orders) {
				t.Errorf("limit %s: got %v, want %v", limit, got, orders)
			}
		}
		if got := ids(b.pages(b.path("/messages"), "?type=svc.v1.dm&limit=8")); !slices.Equal(got, rest) {
			t.Errorf("the others: got %v, want %v", got, rest)
		}
		if got := b.pages(b.path("/messages"), "?type=acme.v1.orde&limit=8"); len(got) != 0 {
			t.Errorf("a type that no message has: %v", got)
		}
	})
}

func TestInboxOfBothEnds(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a, b := o.agent("a"), o.agent("b")
		m := a.send(b)
		rows := b.inbox("").items()
		if len(rows) != 1 || rows[0]["direction"] != "received" || rows[0]["id"] != m["id"] {
			t.Errorf("the recipient's inbox: %v", rows)
		}
		if n := len(a.everything()); n != 0 {
			t.Errorf("the sender's inbox has %d rows", n)
		}
		path := "/messages/" + text(m, "id")
		o.get(path).as("no acting agent").want(200).is("direction", "sent")
		o.get(path, "X-Svc-Agent", a.id).want(200).is("direction", "sent")
		o.get(path, "X-Svc-Agent", b.id).want(200).is("direction", "received")
		o.get(path, "X-Svc-Agent", nobody).as("unknown agent").refused(403, "not_owner")
	})
}
