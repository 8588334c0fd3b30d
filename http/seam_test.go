package http

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"parley/actors"
	"parley/actors/query"
	"parley/client/parley"
)

// speak sends the numbers below n, each in a new conversation that is canceled at once,
// so that a status follows each message.
func (h *harness) speak(from, to parley.AgentID, n int) {
	for i := range n {
		m := h.send(from, to, i)
		if _, err := h.node.Messages.ChangeStatus(context.Background(), actors.ChangeStatus{
			Conversation: m.Conversation(), By: []parley.AgentID{from}, Status: "canceled",
		}); err != nil {
			h.t.Error(err)
		}
	}
}

// TestStreamLosesAndRepeatsNothing: readers connect and disconnect at random moments
// while an agent receives messages. Readers that resume get each message exactly once.
// The others may miss only messages that were being sent when they disconnected.
func TestStreamLosesAndRepeatsNothing(t *testing.T) {
	readers, messages := 12, 120
	if raceDetector {
		messages = 40
	}
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals, " journals"), func(t *testing.T) {
			h := harnessInMemory(t, journals)
			defer h.close()
			speaker, token := h.agent("speaker"), h.token(h.client)
			var working sync.WaitGroup
			for n := range readers {
				// Each reader has its own feed, because a message is transferred once
				// per feed.
				id := h.agent(fmt.Sprintf("reader%d", n))
				working.Go(func() { h.speak(speaker, id, messages) })
				working.Go(func() { h.come(id, token, messages, n%2 == 0, rand.New(rand.NewPCG(uint64(n), 3))) })
			}
			working.Wait()
		})
	}
}

// come reads an agent's stream in pieces until it has all messages.
func (h *harness) come(id parley.AgentID, token string, messages int, resuming bool, random *rand.Rand) {
	seen, last := map[int]bool{}, parley.MessageID{}.String()
	for until := time.Now().Add(30 * time.Second); len(seen) < messages && (resuming || !h.carried(id, messages)); {
		if time.Now().After(until) {
			h.t.Errorf("after half a minute %d of %d messages have arrived", len(seen), messages)
			return
		}
		time.Sleep(time.Duration(random.IntN(8)) * time.Millisecond)
		lastEventID := ""
		if resuming {
			lastEventID = last
		}
		l := h.listen(id, token, lastEventID)
		if resuming && (l.start != last || l.gap) {
			h.t.Errorf("resumed after %s the stream begins with %s, gap %v", last, l.start, l.gap)
		}
		_ = l.conn.SetReadDeadline(time.Now().Add(time.Duration(1+random.IntN(30)) * time.Millisecond))
		l.hear(seen, resuming)
		last = l.last
		_ = l.conn.Close()
	}
}

// carried reports whether all messages of an agent have been transferred.
func (h *harness) carried(id parley.AgentID, messages int) bool {
	page, _, err := h.node.Messages.Inbox(context.Background(), id, 0, messages, "", nil)
	if err != nil {
		h.t.Error(err)
	}
	return len(page) == messages && !slices.ContainsFunc(page, func(m query.Message) bool { return m.Receipts.TransferredAt == 0 })
}

// hear reads one connection. Messages come in order, each once and each followed by its
// status.
func (l *streamReader) hear(seen map[int]bool, resuming bool) {
	before, message := -1, event{}
	for {
		e, ok := l.next()
		switch {
		case !ok:
			return
		case e.name == "status":
			// The first status may belong to a message of an earlier connection.
			if message.name != "" && conversationOfEvent(l.t, e) != conversationOfEvent(l.t, message) {
				l.t.Errorf("the status %s follows %s", e.data, message.data)
			}
			continue
		case e.name != "message":
			continue
		}
		n := e.number(l.t)
		if n <= before || (resuming && (seen[n] || n > 0 && !seen[n-1])) {
			l.t.Errorf("message %d follows %d, seen before: %v", n, before, seen[n])
		}
		seen[n], before, message = true, n, e
	}
}

// BenchmarkIdleStream: reports the bytes of an open stream without events, without its
// connection. It measures once, whatever b.N.
func BenchmarkIdleStream(b *testing.B) {
	const streams = 10_000
	ln := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	h := newHarness(b, 1, ln, nil)
	defer h.close()
	ids := make([]parley.AgentID, 100)
	for i := range ids {
		ids[i] = h.agent(fmt.Sprintf("a%d", i))
	}
	conns := make([]*idleConn, streams)
	for i := range conns {
		conns[i] = &idleConn{closed: make(chan struct{}), request: []byte("GET /agents/" + ids[i%len(ids)].String() +
			"/stream HTTP/1.1\r\nHost: home\r\nAuthorization: Bearer " + h.token(h.client) + "\r\n\r\n")}
	}
	heap, stacks := memory()
	for _, c := range conns {
		ln.conns <- c
	}
	for h.service.OpenStreams() < streams {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(12 * time.Second) // until the engine has stopped its workers
	heapThen, stacksThen := memory()
	b.ReportMetric((heapThen-heap)/streams, "heap-B/stream")
	b.ReportMetric((stacksThen-stacks)/streams, "stack-B/stream")
	for _, c := range conns {
		_ = c.Close()
	}
	for h.service.OpenStreams() > 0 {
		time.Sleep(time.Millisecond)
	}
	runtime.KeepAlive(conns)
}

// memory returns the bytes of heap and stacks after a collection.
func memory() (heap, stacks float64) {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc), float64(m.StackInuse)
}

// pipeListener accepts connections that send one request and then nothing.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (s *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, io.EOF
	}
}
func (s *pipeListener) Close() error   { s.once.Do(func() { close(s.done) }); return nil }
func (s *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

type idleConn struct {
	request []byte
	once    sync.Once
	closed  chan struct{}
}

func (c *idleConn) Read(p []byte) (int, error) {
	if n := copy(p, c.request); n > 0 {
		c.request = c.request[n:]
		return n, nil
	}
	<-c.closed
	return 0, net.ErrClosed
}

func (c *idleConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *idleConn) Close() error                     { c.once.Do(func() { close(c.closed) }); return nil }
func (c *idleConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *idleConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *idleConn) SetDeadline(time.Time) error      { return nil }
func (c *idleConn) SetReadDeadline(time.Time) error  { return nil }
func (c *idleConn) SetWriteDeadline(time.Time) error { return nil }
