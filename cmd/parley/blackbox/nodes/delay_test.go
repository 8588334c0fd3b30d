package nodes

import (
	"flag"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

var nodesDelays = flag.Int("nodes.delays", 1, "how often TestSlowNetwork delays, stalls and resets the connections between nodes")

// slowLink is where other nodes reach a node: what it passes on comes later, or not for a while,
// and its connections can break.
type slowLink struct {
	ln net.Listener
	to string
	// delay is how much later bytes arrive, in each direction; it varies by 20 %.
	delay   atomic.Int64
	stalled atomic.Bool

	mu    sync.Mutex
	conns map[*net.TCPConn]bool
}

func newSlowLink(t testing.TB, to string) *slowLink {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kit.Must(t, err)
	l := &slowLink{ln: ln, to: to, conns: map[*net.TCPConn]bool{}}
	t.Cleanup(func() {
		_ = ln.Close()
		l.reset()
	})
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go l.carry(conn.(*net.TCPConn))
		}
	}()
	return l
}

// carry connects two nodes.
func (l *slowLink) carry(from *net.TCPConn) {
	conn, err := net.Dial("tcp", l.to)
	if err != nil {
		_ = from.Close()
		return
	}
	to := conn.(*net.TCPConn)
	l.mu.Lock()
	l.conns[from], l.conns[to] = true, true
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.pass(to, from) })
	both.Go(func() { l.pass(from, to) })
	both.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, from)
	delete(l.conns, to)
}

// piece is what was read at once, and when it is due.
type piece struct {
	bytes []byte
	due   time.Time
}

// pass passes bytes on in their order, each piece when it is due, and closes both ends after the
// last one.
func (l *slowLink) pass(to, from *net.TCPConn) {
	pieces := make(chan piece, 4096)
	go func() {
		defer close(pieces)
		for {
			buf := make([]byte, 32<<10)
			n, err := from.Read(buf)
			if n > 0 {
				delay := float64(l.delay.Load()) * (0.8 + 0.4*rand.Float64())
				pieces <- piece{buf[:n], time.Now().Add(time.Duration(delay))}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		for l.stalled.Load() {
			time.Sleep(5 * time.Millisecond)
		}
		if _, err := to.Write(p.bytes); err != nil {
			break
		}
	}
	_, _ = to.Close(), from.Close()
	for range pieces { // the reader must not wait for ever
	}
}

// reset breaks all connections: what is on its way is lost.
func (l *slowLink) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		_ = conn.SetLinger(0)
		_ = conn.Close()
	}
}

// startOnSlowLinks runs three nodes that reach each other through slow links.
func startOnSlowLinks(t *testing.T) (*kit.Nodes, []*slowLink) {
	t.Helper()
	var links []*slowLink
	local := kit.LocalPlace(t.TempDir())
	n := kit.StartNodesAt(t, func(i int) (kit.Place, error) {
		at, err := local(i)
		if err == nil {
			links = append(links, newSlowLink(t, at.Cluster))
			at.Advertise = links[i].ln.Addr().String()
		}
		return at, err
	}, 3)
	return n, links
}

// TestSlowNetwork delays what nodes send each other, stops it for a while, and breaks their
// connections again and again, while clients work on all nodes. A steady delay costs no
// leadership, messages go on after each fault, and nothing is lost.
func TestSlowNetwork(t *testing.T) {
	n, links := startOnSlowLinks(t) // clients use all nodes, also when none is ready
	w := recorded.NewServer(t, n.Server(), 2, 6)
	listeners := w.Listeners()
	for round := range *nodesDelays {
		for _, delay := range []time.Duration{0, 5 * time.Millisecond, 50 * time.Millisecond} {
			for _, l := range links {
				l.delay.Store(int64(delay))
			}
			steady(w, n, listeners, delay)
		}
		for _, l := range links {
			l.delay.Store(int64(5 * time.Millisecond))
		}
		for i, l := range links {
			w.RunThrough(listeners, recorded.ClientCounts{Writers: 12, Movers: 3, Readers: 3}, 300*time.Millisecond, func() {
				l.stalled.Store(true)
				time.Sleep(time.Duration(200+rand.IntN(1500)) * time.Millisecond)
				l.stalled.Store(false)
				t.Logf("first 201 after nothing reached node %s for a while: %v", kit.NodeName(i), firstSend(w).Round(time.Millisecond))
			})
			w.RepeatUnanswered()
		}
		w.RunThrough(listeners, recorded.ClientCounts{Writers: 12, Movers: 3, Readers: 3}, 300*time.Millisecond, func() {
			for range 20 {
				for _, l := range links {
					l.reset()
				}
				time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
			}
			t.Logf("first 201 after the connections broke 20 times: %v", firstSend(w).Round(time.Millisecond))
		})
		n.Ready(t)
		w.RepeatUnanswered()
		w.ReadAll(listeners, round == *nodesDelays-1)
		w.Check()
	}
	w.CheckDetectsLosses()
	t.Log(&w.Tally)
}

// steady runs clients for a while at a steady delay. No node may stand for election; a stall of
// this machine may cost one, so that three tries in a row have to fail.
func steady(w *recorded.Server, n *kit.Nodes, listeners []*recorded.Listener, delay time.Duration) {
	w.T.Helper()
	for try := 1; ; try++ {
		term := clusterStatusOf(w.T, n.Node(0)).Groups[0].Term
		acked := w.Tally.Acked.Load()
		w.RunThrough(listeners, recorded.ClientCounts{Writers: 12, Movers: 3, Readers: 3}, 300*time.Millisecond, func() { time.Sleep(3 * time.Second) })
		w.RepeatUnanswered()
		after := clusterStatusOf(w.T, n.Node(0)).Groups[0].Term
		w.T.Logf("%v late: %d messages in 3.3 s, %d elections", delay, w.Tally.Acked.Load()-acked, after-term)
		if after == term {
			return
		}
		if try == 3 {
			w.T.Errorf("a delay of %v costs leaderships: the term was %d, and is %d", delay, term, after)
			return
		}
	}
}
