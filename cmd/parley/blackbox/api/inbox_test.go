package api

import (
	"encoding/base64"
	"net/url"
	"slices"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

func TestInbox(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		if rows := b.Inbox("").Items(); len(rows) != 0 {
			t.Errorf("a new inbox has %d rows", len(rows))
		}
		b.Inbox("").Is("next_cursor", nil, "has_more", false, "items", []any{})
		var sent []string
		for range 21 {
			sent = append([]string{kit.Text(a.Send(b), "id")}, sent...)
		}
		page := b.Inbox("")
		rows := page.Items()
		for _, r := range rows {
			kit.Shaped(t, "row", r, kit.MessageShape)
			if r["direction"] != "received" || r["to_agent_id"] != b.ID || r["self_encrypted_payload"] != nil {
				t.Errorf("row %v", r)
			}
		}
		if !slices.Equal(kit.IDs(rows), sent[:20]) || page.At("has_more") != true {
			page.Errorf("want the newest twenty, newest first")
		}
		rest := b.Inbox("?cursor=" + url.QueryEscape(page.Str("next_cursor")))
		if !slices.Equal(kit.IDs(rest.Items()), sent[20:]) {
			rest.Errorf("want the oldest")
		}
		rest.Is("has_more", false, "next_cursor", nil)
		if n := len(a.Everything()); n != 0 {
			t.Errorf("the sender's inbox has %d rows", n)
		}
	})
}

func TestInboxLimit(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		for range 3 {
			a.Send(b)
		}
		for _, c := range []struct {
			limit string
			rows  int
		}{{"1", 1}, {"3", 3}, {"100", 3}} {
			page := b.Inbox("?limit=" + c.limit)
			if n := len(page.Items()); n != c.rows || page.At("has_more") != (c.rows < 3) {
				page.Errorf("want %d rows", c.rows)
			}
		}
		for limit, kind := range map[string]string{
			"0": "greater_than_equal", "-1": "greater_than_equal", "101": "less_than_equal", "x": "int_parsing", "1.5": "int_parsing", "99999999999999999999": "",
		} {
			b.Get(b.Path("/messages?limit="+limit)).As("limit %q", limit).Invalid("query.limit", kind)
		}
	})
}

func TestInboxWalkWhileMessagesArrive(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		var want []string
		for range 45 {
			want = append([]string{kit.Text(a.Send(b), "id")}, want...)
		}
		var got []string
		cursor := ""
		for range 100 {
			page := b.Inbox("?limit=7" + cursor)
			got = append(got, kit.IDs(page.Items())...)
			a.Send(b)
			if page.At("has_more") != true {
				break
			}
			cursor = "&cursor=" + url.QueryEscape(page.Str("next_cursor"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("the pages had %d rows of 45: %v, want %v", len(got), got, want)
		}
	})
}

func TestCursors(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		c := b.Org.Agent("carol")
		for range 3 {
			a.Send(b)
			a.Send(c)
		}
		cursor := b.Inbox("?limit=1").Str("next_cursor")
		with := func(cursor string) *kit.Answer {
			return b.Get(b.Path("/messages?limit=1&cursor=") + url.QueryEscape(cursor))
		}
		with(cursor).Want(200)
		flipped := []byte(cursor)
		flipped[len(flipped)/2] ^= 1
		for name, bad := range map[string]string{
			"garbage": "nonsense", "cut short": cursor[:len(cursor)-2], "longer": cursor + "AA", "flipped": string(flipped),
			"of another agent": c.Inbox("?limit=1").Str("next_cursor"), "an id": b.ID,
			"our own make": base64.RawURLEncoding.EncodeToString([]byte(`{"after":1}`)),
			"of another list": func() string {
				a.Send(b)
				return b.Get(b.Path("/conversations?limit=1")).Want(200).Str("next_cursor")
			}(),
		} {
			with(bad).As("%s", name).Refused(400, "invalid_cursor")
		}
	})
}

func TestInboxTypeFilter(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		var orders, rest []string
		for i := range 30 {
			if i%10 == 0 {
				orders = append([]string{kit.Text(a.Send(b, obj{"type": "acme.v1.order"}), "id")}, orders...)
			} else {
				rest = append([]string{kit.Text(a.Send(b), "id")}, rest...)
			}
		}
		for _, limit := range []string{"1", "2", "100"} {
			if got := kit.IDs(b.Pages(b.Path("/messages"), "?type=acme.v1.order&limit="+limit)); !slices.Equal(got, orders) {
				t.Errorf("limit %s: got %v, want %v", limit, got, orders)
			}
		}
		if got := kit.IDs(b.Pages(b.Path("/messages"), "?type=svc.v1.dm&limit=8")); !slices.Equal(got, rest) {
			t.Errorf("the others: got %v, want %v", got, rest)
		}
		if got := b.Pages(b.Path("/messages"), "?type=acme.v1.orde&limit=8"); len(got) != 0 {
			t.Errorf("a type that no message has: %v", got)
		}
	})
}

func TestInboxOfBothEnds(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		a, b := o.Agent("a"), o.Agent("b")
		m := a.Send(b)
		rows := b.Inbox("").Items()
		if len(rows) != 1 || rows[0]["direction"] != "received" || rows[0]["id"] != m["id"] {
			t.Errorf("the recipient's inbox: %v", rows)
		}
		if n := len(a.Everything()); n != 0 {
			t.Errorf("the sender's inbox has %d rows", n)
		}
		path := "/messages/" + kit.Text(m, "id")
		o.Get(path).As("no acting agent").Want(200).Is("direction", "sent")
		o.Get(path, "X-Svc-Agent", a.ID).Want(200).Is("direction", "sent")
		o.Get(path, "X-Svc-Agent", b.ID).Want(200).Is("direction", "received")
		o.Get(path, "X-Svc-Agent", kit.Nobody).As("unknown agent").Refused(403, "not_owner")
	})
}
