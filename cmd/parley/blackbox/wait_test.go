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
func (g *agent) waits(query string) <-chan *answer {
	out := make(chan *answer, 1)
	go func() { out <- g.get(g.path("/wait?") + query) }()
	return out
}

// given checks the answer of a wait: the messages and the number that follow. It returns
// the query that continues after it.
func given(a *answer, unread int, want ...obj) string {
	a.t.Helper()
	a.want(200)
	exactly(a.t, "the answer", a.body, "items after unread")
	rows, _ := a.at("items").([]any)
	items := objects(rows)
	for _, m := range items {
		shaped(a.t, "an item", m, messageShape)
		if m["status"] == "new" || m["direction"] != "received" {
			a.errorf("an item is not received and transferred")
		}
	}
	if got := ids(items); !slices.Equal(got, ids(want)) {
		a.errorf("items are %v, want %v", got, ids(want))
	}
	if a.is("unread", float64(unread)); len(items) > 0 {
		a.is("after", items[len(items)-1]["id"])
	}
	return fmt.Sprintf("timeout_ms=1000&after=%v", a.at("after"))
}

func TestWaitReturnsStoredMessages(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		var ms []obj
		for range 23 {
			ms = append(ms, a.send(b))
		}
		b.s.call(t, b.token, "HEAD", b.path("/wait"), nil).want(200)
		marked(t, a, ms[0], "new")
		next := given(b.get(b.path("/wait?timeout_ms=60000")), 3, ms[:20]...)
		marked(t, a, ms[19], "delivered")
		marked(t, a, ms[20], "new")
		b.acked(obj{"ids": []any{ms[21]["id"]}}, 1)
		next = given(b.get(b.path("/wait?")+next), 0, ms[20:]...)
		given(b.get(b.path("/wait?timeout_ms=1000")), 0)
		// With a cursor, transferred messages come again, read or not; without one, they
		// do not.
		given(b.get(b.path("/wait?timeout_ms=1000&after=")+text(ms[17], "id")), 0, ms[18:]...)
		given(b.get(b.path("/wait?timeout_ms=1000&after=")+nilUUID), 2, ms[:20]...)
		b.acked(obj{"up_to": ms[22]["id"]}, 22)
		given(b.get(b.path("/wait?timeout_ms=1000&after=")+text(ms[17], "id")), 0, ms[18:]...)
		given(b.get(b.path("/wait?timeout_ms=1000&after=")+nilUUID), 0, ms[:20]...)
		empty := b.get(b.path("/wait?") + next)
		given(empty, 0)
		empty.is("after", ms[22]["id"])
	})
}

func TestWaitWakes(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		began := time.Now()
		waiting := b.waits("timeout_ms=30000")
		time.Sleep(50 * time.Millisecond)
		m := a.send(b)
		next := given(<-waiting, 0, m)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the wait took %s to return", took)
		}
		again := b.waits(strings.Replace(next, "1000", "30000", 1))
		a.patch("/conversations/"+text(m, "conversation_id")+"/status", obj{"status": "failed"}, "X-Svc-Agent", a.id)
		second := a.send(b)
		given(<-again, 0, second)
		for range 10 { // after an answer, every later wait sees its effect
			m := a.send(b)
			given(b.get(b.path("/wait?timeout_ms=1000")), 0, m)
		}
	})
}

func TestWaitRefusals(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		m := a.send(b)
		for query, kind := range map[string]string{"999": "greater_than_equal", "60001": "less_than_equal", "x": "int_parsing"} {
			b.get(b.path("/wait?timeout_ms=")+query).as("%s", query).invalid("query.timeout_ms", kind)
		}
		b.get(b.path("/wait?after=x")).invalid("query.after", "uuid_parsing")
		b.get(b.path("/wait?after=")+nobody).refused(404, "not_found")
		a.get(a.path("/wait?after=")+text(m, "id")).refused(404, "not_found")
		a.get(b.path("/wait")).refused(403, "not_owner")
		b.delete(b.path("")).want(204)
		b.get(b.path("/wait")).refused(410, "gone")
	})
}

// TestWaitOfADisconnectedClient: nothing counts as transferred to a client that has
// disconnected.
func TestWaitOfADisconnectedClient(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", b.path("/wait?timeout_ms=30000"), b.token); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		_ = conn.Close()
		time.Sleep(50 * time.Millisecond)
		m := a.send(b)
		time.Sleep(100 * time.Millisecond)
		marked(t, a, m, "new")
		given(b.get(b.path("/wait?timeout_ms=1000")), 0, m)
	})
}

// TestWaitsEndWithTheServer: a server that shuts down does not wait for them.
func TestWaitsEndWithTheServer(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := s.org(t).agent("bob")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", b.path("/wait?timeout_ms=60000"), b.token); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if err := s.drain(5 * time.Second); err != nil {
		t.Error(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		t.Errorf("a waiting client received %q, %v", line, err)
	}
}
