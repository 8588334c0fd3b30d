package blackbox

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

// pageBytesMax is the maximum size of a page of several messages.
const pageBytesMax = 1 << 20

// largest is a message of the maximum size, with a copy for its sender.
func largest() obj {
	payload := strings.Repeat("Q", 131072)
	return obj{"encrypted_payload": payload, "self_encrypted_payload": payload}
}

// walk reads a listing with the maximum limit and checks each page: it does not exceed
// the bound and ends only where the next message would exceed it.
func walk(g *agent, path, query string) (rows []obj, pages int) {
	g.t.Helper()
	last := 0
	for cursor := ""; pages < 100; pages++ {
		a := g.get(path+query+cursor, "X-Svc-Agent", g.id).want(200)
		items := a.items()
		if len(items) == 0 || len(a.raw) > pageBytesMax && len(items) > 1 {
			a.fatalf("a page of %d messages has %d bytes", len(items), len(a.raw))
		}
		if pages > 0 && last+len(a.raw)/len(items) <= pageBytesMax {
			a.errorf("the page before had %d bytes: another of %d would have fitted", last, len(a.raw)/len(items))
		}
		rows, last = append(rows, items...), len(a.raw)
		if a.at("has_more") != true {
			return rows, pages + 1
		}
		cursor = "&cursor=" + url.QueryEscape(a.str("next_cursor"))
	}
	g.t.Fatalf("%s has no last page", path)
	return nil, 0
}

func TestPagesAreBoundedInBytes(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		first := a.send(b, largest())
		want := []string{text(first, "id")}
		for range 15 {
			want = append(want, text(a.reply(first, largest()), "id"))
		}
		transcript := "/conversations/" + text(first, "conversation_id") + "/messages"
		newest := slices.Clone(want)
		slices.Reverse(newest)
		for _, c := range []struct {
			reader      *agent
			path, query string
			want        []string
			pages       int
		}{
			{a, transcript, "?limit=200", want, 6}, // the sender sees its own copies as well
			{b, transcript, "?limit=200", want, 3},
			{b, transcript, "?limit=200&order=desc", newest, 3},
			{b, b.path("/messages"), "?limit=100", newest, 3},
			{b, b.path("/messages"), "?limit=100&type=svc.v1.dm", newest, 3},
		} {
			rows, pages := walk(c.reader, c.path, c.query)
			if got := ids(rows); !slices.Equal(got, c.want) || pages != c.pages {
				t.Errorf("%s%s: %d messages on %d pages, want %d on %d, in order", c.path, c.query, len(got), pages, len(c.want), c.pages)
			}
		}
	})
}

func TestAWaitIsBoundedInBytes(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		var sent []string
		for range 16 {
			sent = append(sent, text(a.send(b, largest()), "id"))
		}
		for _, query := range []string{"timeout_ms=1000", "timeout_ms=1000&after=" + nilUUID} {
			var got []string
			for again := query; len(got) < len(sent); {
				w := b.get(b.path("/wait?") + again).want(200)
				rows, _ := w.at("items").([]any)
				if len(rows) == 0 || len(w.raw) > pageBytesMax {
					w.fatalf("a wait of %d messages has %d bytes", len(rows), len(w.raw))
				}
				got = append(got, ids(objects(rows))...)
				w.is("unread", float64(len(sent)-len(got)))
				if strings.Contains(again, "after") {
					again = "timeout_ms=1000&after=" + w.str("after")
				}
			}
			if !slices.Equal(got, sent) {
				t.Errorf("%s: got %v, want %v", query, got, sent)
			}
		}
	})
}

// TestLongBroadcastsAreAllThere: the bound never hides a broadcast from its reader.
func TestLongBroadcastsAreAllThere(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		g := a.groupWithPolicy("open", b)
		var want []string
		for range 9 {
			want = append(want, text(g.broadcast(a, largest()), "id"))
		}
		rows, pages := walk(b, b.path("/messages"), "?limit=100")
		if len(rows) != len(want) || pages != 2 {
			t.Errorf("%d of %d broadcasts on %d pages", len(rows), len(want), pages)
		}
		// The sender sees its own copies as well: three of them fill a page.
		if rows, pages = walk(a, "/conversations/"+text(rows[0], "conversation_id")+"/messages", "?limit=200"); len(rows) != len(want) || pages != 3 {
			t.Errorf("the sender sees %d of %d broadcasts on %d pages", len(rows), len(want), pages)
		}
	})
}
