package connlimit

import (
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// ways lists the states of a connection, by what it waits for. Each function puts a
// connection into its state.
var ways = map[string]func(t *testing.T, l *Conn){
	"for its client to take an answer": func(t *testing.T, l *Conn) {
		l.serve()
		done := make(chan struct{})
		go func() { defer close(done); _, _ = l.Write([]byte("answer")) }()
		t.Cleanup(func() { _ = l.Conn.Close(); <-done })
		await(t, "nothing is written", func() bool { return l.state.Load() > stateServing })
	},
	"for a message":   func(_ *testing.T, l *Conn) { l.serve(); l.park() },
	"for a request":   func(_ *testing.T, _ *Conn) {},
	"with a stream":   func(_ *testing.T, l *Conn) { l.serve(); l.hijack() },
	"for a slow body": func(_ *testing.T, l *Conn) { _ = l.SetReadDeadline(time.Time{}) },
}

// twoHold fills the limit with connections of two addresses, all in the same state.
func twoHold(t *testing.T, bounds Bounds, way func(*testing.T, *Conn)) (a *among, held []*Conn) {
	a = newAmong(t, bounds)
	for i := range bounds.Total {
		l := a.from("192.0.2." + strconv.Itoa(1+i%2))
		way(t, l)
		held = append(held, l)
	}
	return a, held
}

// TestHeavyAddressesAreEvicted: connections of two addresses fill the limit. Whatever
// these connections wait for, newcomers from other addresses evict some of them, until
// each new address has half as many connections as the two.
func TestHeavyAddressesAreEvicted(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			a, held := twoHold(t, Bounds{Total: 40, Served: 40, PerAddress: 20}, way)
			idle := a.from("198.51.100.1")
			for i := range 5 {
				l := a.from("203.0.113.1")
				if l == nil {
					t.Fatalf("newcomer %d is not admitted", i)
				}
				l.serve()
			}
			if gone(idle) {
				t.Error("the only connection of an address was evicted")
			}
			left := 0
			for _, l := range held {
				if !gone(l) {
					left++
				}
			}
			if left != 34 {
				t.Errorf("%d of the 40 connections of two addresses are left, want 34", left)
			}
		})
	}
}

// TestHeavyAddressesAreEvictedControl: if no address counts as heavy, only connections
// that wait for a request are evicted.
func TestHeavyAddressesAreEvictedControl(t *testing.T) {
	for name, way := range ways {
		a, _ := twoHold(t, Bounds{Total: 40, Served: 40, PerAddress: 20, many: math.MaxInt}, way)
		if room := a.from("203.0.113.1") != nil; room != (name == "for a request" || name == "for a slow body") {
			t.Errorf("%s: room %v", name, room)
		}
	}
}

// TestHeavyAddressEvictsOwnConnections: newcomers of an address with many connections
// evict no connection of an address with few.
func TestHeavyAddressEvictsOwnConnections(t *testing.T) {
	for name, bounds := range map[string]Bounds{
		"many":           {Total: 40, Served: 40, PerAddress: 40},
		"control: never": {Total: 40, Served: 40, PerAddress: 40, many: math.MaxInt},
	} {
		a := newAmong(t, bounds)
		few := []*Conn{a.from("198.51.100.1"), a.from("198.51.100.2")}
		for range 50 {
			a.from("192.0.2.1")
		}
		lost := slices.ContainsFunc(few, gone)
		if lost != (bounds.many == math.MaxInt) {
			t.Errorf("%s: other addresses lost a connection: %v", name, lost)
		}
	}
}

// TestStalledAnswersAreEvicted: if no address has many connections, a connection is
// evicted whose client has read nothing of its answer for a second, and not earlier.
func TestStalledAnswersAreEvicted(t *testing.T) {
	a := newAmong(t, atMost(4))
	var lines []*Conn
	for i := range 4 {
		l := a.from(fmt.Sprint("192.0.2.", i))
		ways["for its client to take an answer"](t, l)
		lines = append(lines, l)
	}
	if a.from("203.0.113.1") != nil {
		t.Error("a connection is evicted whose answer has just begun")
	}
	a.n += int64(stalledLeast)
	if a.from("203.0.113.2") == nil || !gone(lines[0]) {
		t.Error("a connection stays whose client has read nothing for a second")
	}
	if a.from("203.0.113.3") == nil || !gone(lines[1]) || gone(lines[2]) {
		t.Error("the connection that has stalled longest is not the one evicted")
	}
}

// TestRanksFindTheHeaviest: after random arrivals and departures, the heaviest address
// is always correct.
func TestRanksFindTheHeaviest(t *testing.T) {
	a := newAmong(t, atMost(1000))
	open := map[string][]*Conn{}
	for i := range 3000 {
		address := "192.0.2." + strconv.Itoa(i*i%7)
		if i%5 < 3 || len(open[address]) == 0 {
			open[address] = append(open[address], a.from(address))
		} else {
			n := len(open[address]) - 1
			open[address][n].Leave()
			open[address] = open[address][:n]
		}
		most := 0
		for _, lines := range open {
			most = max(most, len(lines))
		}
		for which := range ranks {
			if h := a.l.ranks[which].largest(); h == nil || len(h.conns) != most || h.counts[which] != most {
				t.Fatalf("after %d the heaviest has %v, not %d", i, h, most)
			}
		}
	}
}

// fed is a listener that accepts one connection from each address it receives on from.
type fed struct {
	net.Listener
	from chan string
}

func (f *fed) Accept() (net.Conn, error) {
	address, open := <-f.from
	if !open {
		return nil, net.ErrClosed
	}
	_, server := net.Pipe()
	return addressed{server, &net.TCPAddr{IP: net.ParseIP(address), Port: 1}}, nil
}

// accepted returns how many connections the engine gets before it reads from the first,
// and how many it gets before the one whose address has no other connection.
func accepted(t *testing.T, bounds Bounds) (atOnce, until int) {
	synctest.Test(t, func(t *testing.T) {
		f := &fed{from: make(chan string)}
		l := Limit(f, bounds, time.Now, func() []byte { return nil })
		got := make(chan *Conn)
		go func() {
			defer close(got)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				got <- conn.(*Conn)
			}
		}()
		var all []*Conn
		take := func() {
			for synctest.Wait(); ; synctest.Wait() {
				select {
				case n, open := <-got:
					if !open {
						return
					}
					all = append(all, n)
				default:
					return
				}
			}
		}
		go func() {
			for range 100 {
				f.from <- "192.0.2.1"
			}
			f.from <- "198.51.100.1"
		}()
		take()
		atOnce = len(all)
		for i := 0; i < len(all); i++ {
			_ = all[i].SetReadDeadline(time.Time{})
			take()
		}
		until = slices.IndexFunc(all, func(n *Conn) bool { return n.address == string(net.ParseIP("198.51.100.1").To4()) })
		if len(all) != 101 {
			t.Errorf("the engine gets %d of 101 connections", len(all))
		}
		close(f.from)
	})
	return atOnce, until
}

// TestAddressesTakeTurns: one hundred connections arrive from one address and one from
// another. The engine gets only a few at once, and the single one is among the first.
func TestAddressesTakeTurns(t *testing.T) {
	bounds := atMost(1000)
	if atOnce, until := accepted(t, bounds); atOnce > startingMost+1 || until > startingMost+2 {
		t.Errorf("the engine gets %d connections at once, and the other address after %d", atOnce, until)
	}
	bounds.starting = math.MaxInt // control: no bound, the engine gets all in order of arrival
	if atOnce, _ := accepted(t, bounds); atOnce != 101 {
		t.Errorf("without a bound the engine gets %d connections at once", atOnce)
	}
}

// TestClosedListenerClosesWaitingConnections: closing the listener closes the
// connections that the engine has not accepted yet.
func TestClosedListenerClosesWaitingConnections(t *testing.T) {
	f := &fed{from: make(chan string)}
	bounds := atMost(100)
	bounds.starting = 1
	l := Limit(f, bounds, time.Now, func() []byte { return nil })
	go func() {
		for range 10 {
			f.from <- "192.0.2.1"
		}
	}()
	if _, err := l.Accept(); err != nil {
		t.Fatal(err)
	}
	await(t, "not all are admitted", func() bool { open, _, _ := l.Stats(); return open == 10 })
	close(f.from)
	await(t, "the listener is open", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.failed != nil })
	if _, err := l.Accept(); err == nil {
		t.Error("a closed listener accepts a connection")
	}
	if open, _, _ := l.Stats(); open != 1 {
		t.Errorf("%d connections are open", open)
	}
}

// TestEvictedAnswerIsDiscarded: when a connection is evicted, the kernel discards the
// part of the answer that the client has not read.
func TestEvictedAnswerIsDiscarded(t *testing.T) {
	for name, end := range map[string]func(*Conn){
		"makes room":             (*Conn).end,
		"control: is but closed": func(l *Conn) { _ = l.Conn.Close() },
	} {
		ln, dial := lineIn(t)
		l := Limit(ln, atMost(1), time.Now, func() []byte { return nil })
		client := dial()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		n, done := serving(conn).(*Conn), make(chan struct{})
		go func() {
			defer close(done)
			_, _ = n.Conn.Write(make([]byte, 64<<20))
		}()
		n.writing.Store(true)
		first := make([]byte, 1)
		if _, err := io.ReadFull(client, first); err != nil {
			t.Fatal(err)
		}
		end(n)
		<-done
		_ = client.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.Copy(io.Discard, client); (err == nil) != (name != "makes room") {
			t.Errorf("%s: the client's read ends with %v", name, err)
		}
	}
}
