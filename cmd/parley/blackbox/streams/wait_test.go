package streams

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// waitCall makes a wait in the background.
func waitCall(g *kit.Agent, query string) <-chan *kit.Answer {
	out := make(chan *kit.Answer, 1)
	go func() { out <- g.Get(g.Path("/wait?") + query) }()
	return out
}

func TestWaitReturnsStoredMessages(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		var ms []obj
		for range 23 {
			ms = append(ms, a.Send(b))
		}
		b.S.Call(t, b.Token, "HEAD", b.Path("/wait"), nil).Want(200)
		kit.Marked(t, a, ms[0], "new")
		next := kit.Given(b.Get(b.Path("/wait?timeout_ms=60000")), 3, ms[:20]...)
		kit.Marked(t, a, ms[19], "delivered")
		kit.Marked(t, a, ms[20], "new")
		b.Acked(obj{"ids": []any{ms[21]["id"]}}, 1)
		next = kit.Given(b.Get(b.Path("/wait?")+next), 0, ms[20:]...)
		kit.Given(b.Get(b.Path("/wait?timeout_ms=1000")), 0)
		// With a cursor, transferred messages come again, read or not; without one, they
		// do not.
		kit.Given(b.Get(b.Path("/wait?timeout_ms=1000&after=")+kit.Text(ms[17], "id")), 0, ms[18:]...)
		kit.Given(b.Get(b.Path("/wait?timeout_ms=1000&after=")+kit.NilUUID), 2, ms[:20]...)
		b.Acked(obj{"up_to": ms[22]["id"]}, 22)
		kit.Given(b.Get(b.Path("/wait?timeout_ms=1000&after=")+kit.Text(ms[17], "id")), 0, ms[18:]...)
		kit.Given(b.Get(b.Path("/wait?timeout_ms=1000&after=")+kit.NilUUID), 0, ms[:20]...)
		empty := b.Get(b.Path("/wait?") + next)
		kit.Given(empty, 0)
		empty.Is("after", ms[22]["id"])
	})
}

func TestWaitWakes(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		began := time.Now()
		waiting := waitCall(b, "timeout_ms=30000")
		time.Sleep(50 * time.Millisecond)
		m := a.Send(b)
		next := kit.Given(<-waiting, 0, m)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the wait took %s to return", took)
		}
		again := waitCall(b, strings.Replace(next, "1000", "30000", 1))
		a.Patch("/conversations/"+kit.Text(m, "conversation_id")+"/status", obj{"status": "failed"}, "X-Svc-Agent", a.ID)
		second := a.Send(b)
		kit.Given(<-again, 0, second)
		for range 10 { // after an answer, every later wait sees its effect
			m := a.Send(b)
			kit.Given(b.Get(b.Path("/wait?timeout_ms=1000")), 0, m)
		}
	})
}

func TestWaitRefusals(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		m := a.Send(b)
		for query, kind := range map[string]string{"999": "greater_than_equal", "60001": "less_than_equal", "x": "int_parsing"} {
			b.Get(b.Path("/wait?timeout_ms=")+query).As("%s", query).Invalid("query.timeout_ms", kind)
		}
		b.Get(b.Path("/wait?after=x")).Invalid("query.after", "uuid_parsing")
		b.Get(b.Path("/wait?after=")+kit.Nobody).Refused(404, "not_found")
		a.Get(a.Path("/wait?after=")+kit.Text(m, "id")).Refused(404, "not_found")
		a.Get(b.Path("/wait")).Refused(403, "not_owner")
		b.Delete(b.Path("")).Want(204)
		b.Get(b.Path("/wait")).Refused(410, "gone")
	})
}

// TestWaitOfADisconnectedClient: nothing counts as transferred to a client that has
// disconnected.
func TestWaitOfADisconnectedClient(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
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
		kit.Marked(t, a, m, "new")
		kit.Given(b.Get(b.Path("/wait?timeout_ms=1000")), 0, m)
	})
}

// TestWaitsEndWithTheServer: a server that shuts down does not wait for them.
func TestWaitsEndWithTheServer(t *testing.T) {
	t.Parallel()
	s := kit.Start(t)
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
