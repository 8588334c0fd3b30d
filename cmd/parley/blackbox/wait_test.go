package blackbox

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// waits makes a wait in the background.
func (g *Agent) waits(query string) <-chan *Answer {
	out := make(chan *Answer, 1)
	go func() { out <- g.Get(g.Path("/wait?") + query) }()
	return out
}

// Given checks the answer of a wait: the messages and the number that follow. It returns
// the query that continues after it.
func Given(a *Answer, unread int, want ...obj) string {
	a.T.Helper()
	a.Want(200)
	Exactly(a.T, "the answer", a.Body, "items after unread")
	rows, _ := a.At("items").([]any)
	items := Objects(rows)
	for _, m := range items {
		Shaped(a.T, "an item", m, MessageShape)
		if m["status"] == "new" || m["direction"] != "received" {
			a.Errorf("an item is not received and transferred")
		}
	}
	if got := IDs(items); !slices.Equal(got, IDs(want)) {
		a.Errorf("items are %v, want %v", got, IDs(want))
	}
	if a.Is("unread", float64(unread)); len(items) > 0 {
		a.Is("after", items[len(items)-1]["id"])
	}
	return fmt.Sprintf("timeout_ms=1000&after=%v", a.At("after"))
}

func TestWaitReturnsStoredMessages(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		var ms []obj
		for range 23 {
			ms = append(ms, a.Send(b))
		}
		b.S.Call(t, b.Token, "HEAD", b.Path("/wait"), nil).Want(200)
		Marked(t, a, ms[0], "new")
		next := Given(b.Get(b.Path("/wait?timeout_ms=60000")), 3, ms[:20]...)
		Marked(t, a, ms[19], "delivered")
		Marked(t, a, ms[20], "new")
		b.Acked(obj{"ids": []any{ms[21]["id"]}}, 1)
		next = Given(b.Get(b.Path("/wait?")+next), 0, ms[20:]...)
		Given(b.Get(b.Path("/wait?timeout_ms=1000")), 0)
		// With a cursor, transferred messages come again, read or not; without one, they
		// do not.
		Given(b.Get(b.Path("/wait?timeout_ms=1000&after=")+Text(ms[17], "id")), 0, ms[18:]...)
		Given(b.Get(b.Path("/wait?timeout_ms=1000&after=")+NilUUID), 2, ms[:20]...)
		b.Acked(obj{"up_to": ms[22]["id"]}, 22)
		Given(b.Get(b.Path("/wait?timeout_ms=1000&after=")+Text(ms[17], "id")), 0, ms[18:]...)
		Given(b.Get(b.Path("/wait?timeout_ms=1000&after=")+NilUUID), 0, ms[:20]...)
		empty := b.Get(b.Path("/wait?") + next)
		Given(empty, 0)
		empty.Is("after", ms[22]["id"])
	})
}

func TestWaitWakes(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		began := time.Now()
		waiting := b.waits("timeout_ms=30000")
		time.Sleep(50 * time.Millisecond)
		m := a.Send(b)
		next := Given(<-waiting, 0, m)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the wait took %s to return", took)
		}
		again := b.waits(strings.Replace(next, "1000", "30000", 1))
		a.Patch("/conversations/"+Text(m, "conversation_id")+"/status", obj{"status": "failed"}, "X-Svc-Agent", a.ID)
		second := a.Send(b)
		Given(<-again, 0, second)
		for range 10 { // after an answer, every later wait sees its effect
			m := a.Send(b)
			Given(b.Get(b.Path("/wait?timeout_ms=1000")), 0, m)
		}
	})
}

func TestWaitRefusals(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		m := a.Send(b)
		for query, kind := range map[string]string{"999": "greater_than_equal", "60001": "less_than_equal", "x": "int_parsing"} {
			b.Get(b.Path("/wait?timeout_ms=")+query).As("%s", query).Invalid("query.timeout_ms", kind)
		}
		b.Get(b.Path("/wait?after=x")).Invalid("query.after", "uuid_parsing")
		b.Get(b.Path("/wait?after=")+Nobody).Refused(404, "not_found")
		a.Get(a.Path("/wait?after=")+Text(m, "id")).Refused(404, "not_found")
		a.Get(b.Path("/wait")).Refused(403, "not_owner")
		b.Delete(b.Path("")).Want(204)
		b.Get(b.Path("/wait")).Refused(410, "gone")
	})
}

// TestWaitOfADisconnectedClient: nothing counts as transferred to a client that has
// disconnected.
func TestWaitOfADisconnectedClient(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a, b := Pair(t, s)
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.Base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", b.Path("/wait?timeout_ms=30000"), b.Token); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		_ = conn.Close()
		time.Sleep(50 * time.Millisecond)
		m := a.Send(b)
		time.Sleep(100 * time.Millisecond)
		Marked(t, a, m, "new")
		Given(b.Get(b.Path("/wait?timeout_ms=1000")), 0, m)
	})
}

// TestWaitsEndWithTheServer: a server that shuts down does not wait for them.
func TestWaitsEndWithTheServer(t *testing.T) {
	t.Parallel()
	s := Start(t)
	b := s.Org(t).Agent("bob")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.Base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", b.Path("/wait?timeout_ms=60000"), b.Token); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if err := s.Drain(5 * time.Second); err != nil {
		t.Error(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		t.Errorf("a waiting client received %q, %v", line, err)
	}
}
