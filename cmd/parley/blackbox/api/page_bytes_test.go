package api

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// pageBytesMax is the maximum size of a page of several messages.
const pageBytesMax = 1 << 20

// walk reads a listing with the maximum limit and checks each page: it does not exceed
// the bound and ends only where the next message would exceed it.
func walk(g *kit.Agent, path, query string) (rows []obj, pages int) {
	g.T.Helper()
	last := 0
	for cursor := ""; pages < 100; pages++ {
		a := g.Get(path+query+cursor, "X-Svc-Agent", g.ID).Want(200)
		items := a.Items()
		if len(items) == 0 || len(a.Raw) > pageBytesMax && len(items) > 1 {
			a.Fatalf("a page of %d messages has %d bytes", len(items), len(a.Raw))
		}
		if pages > 0 && last+len(a.Raw)/len(items) <= pageBytesMax {
			a.Errorf("the page before had %d bytes: another of %d would have fitted", last, len(a.Raw)/len(items))
		}
		rows, last = append(rows, items...), len(a.Raw)
		if a.At("has_more") != true {
			return rows, pages + 1
		}
		cursor = "&cursor=" + url.QueryEscape(a.Str("next_cursor"))
	}
	g.T.Fatalf("%s has no last page", path)
	return nil, 0
}

func TestPagesAreBoundedInBytes(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		first := a.Send(b, kit.Largest())
		want := []string{kit.Text(first, "id")}
		for range 15 {
			want = append(want, kit.Text(a.Reply(first, kit.Largest()), "id"))
		}
		transcript := "/conversations/" + kit.Text(first, "conversation_id") + "/messages"
		newest := slices.Clone(want)
		slices.Reverse(newest)
		for _, c := range []struct {
			reader      *kit.Agent
			path, query string
			want        []string
			pages       int
		}{
			{a, transcript, "?limit=200", want, 6}, // the sender sees its own copies as well
			{b, transcript, "?limit=200", want, 3},
			{b, transcript, "?limit=200&order=desc", newest, 3},
			{b, b.Path("/messages"), "?limit=100", newest, 3},
			{b, b.Path("/messages"), "?limit=100&type=svc.v1.dm", newest, 3},
		} {
			rows, pages := walk(c.reader, c.path, c.query)
			if got := kit.IDs(rows); !slices.Equal(got, c.want) || pages != c.pages {
				t.Errorf("%s%s: %d messages on %d pages, want %d on %d, in order", c.path, c.query, len(got), pages, len(c.want), c.pages)
			}
		}
	})
}

func TestAWaitIsBoundedInBytes(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		var sent []string
		for range 16 {
			sent = append(sent, kit.Text(a.Send(b, kit.Largest()), "id"))
		}
		for _, query := range []string{"timeout_ms=1000", "timeout_ms=1000&after=" + kit.NilUUID} {
			var got []string
			for again := query; len(got) < len(sent); {
				w := b.Get(b.Path("/wait?") + again).Want(200)
				rows, _ := w.At("items").([]any)
				if len(rows) == 0 || len(w.Raw) > pageBytesMax {
					w.Fatalf("a wait of %d messages has %d bytes", len(rows), len(w.Raw))
				}
				got = append(got, kit.IDs(kit.Objects(rows))...)
				w.Is("unread", float64(len(sent)-len(got)))
				if strings.Contains(again, "after") {
					again = "timeout_ms=1000&after=" + w.Str("after")
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
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		g := grouptest.NewWithPolicy(a, "open", b)
		var want []string
		for range 9 {
			want = append(want, kit.Text(g.Broadcast(a, kit.Largest()), "id"))
		}
		rows, pages := walk(b, b.Path("/messages"), "?limit=100")
		if len(rows) != len(want) || pages != 2 {
			t.Errorf("%d of %d broadcasts on %d pages", len(rows), len(want), pages)
		}
		// The sender sees its own copies as well: three of them fill a page.
		if rows, pages = walk(a, "/conversations/"+kit.Text(rows[0], "conversation_id")+"/messages", "?limit=200"); len(rows) != len(want) || pages != 3 {
			t.Errorf("the sender sees %d of %d broadcasts on %d pages", len(rows), len(want), pages)
		}
	})
}
