package blackbox

import (
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// follower reads an agent's stream over many connections, each resumed where the previous
// one was cut.
type follower struct {
	g    *agent
	got  []string
	last string
	cuts int
}

// follow reads for the given time, then cuts the connection at a random point.
func (f *follower) follow(d time.Duration) *answer {
	st, refusal := f.g.listen(f.last)
	if st == nil {
		return refusal
	}
	defer st.close()
	deadline := time.After(d)
	for {
		select {
		case e, ok := <-st.events:
			if !ok {
				return nil
			}
			if e.name == "message" {
				f.got, f.last = append(f.got, e.id), e.id
			}
		case <-deadline:
			f.cuts++
			return nil
		}
	}
}

// until follows in short pieces until it has n messages or the time is up.
func (f *follower) until(n int, piece func() time.Duration) *answer {
	deadline := time.Now().Add(30 * time.Second)
	for len(f.got) < n && time.Now().Before(deadline) {
		if refusal := f.follow(piece()); refusal != nil {
			return refusal
		}
	}
	_ = f.follow(100 * time.Millisecond) // reads messages beyond n, if any
	return nil
}

func TestStreamSeam(t *testing.T) {
	const senders, perSender, followers = 3, 100, 4
	alone(t, func(t *testing.T, s *server) {
		b := s.org(t).agent("followed")
		var from []*agent
		for range senders {
			from = append(from, s.org(t).agent("sender"))
		}
		whole := b.stream("")
		whole.opening()
		var wg sync.WaitGroup
		readers := make([]follower, followers)
		refusals := make([]*answer, followers)
		for i := range readers {
			readers[i] = follower{g: b, last: nilUUID}
			wg.Go(func() {
				refusals[i] = readers[i].until(senders*perSender, func() time.Duration {
					return time.Duration(rand.IntN(40)) * time.Millisecond
				})
			})
		}
		sent := concurrently(senders, func(i int) []*answer {
			var out []*answer
			for range perSender {
				out = append(out, from[i].trySend(b, nil))
			}
			return out
		})
		for _, a := range slices.Concat(sent...) {
			a.want(201)
		}
		wg.Wait()
		want := ids(b.everything())
		slices.Reverse(want)
		if len(want) != senders*perSender {
			t.Fatalf("%d messages arrived, want %d", len(want), senders*perSender)
		}
		for i, r := range readers {
			if refusals[i] != nil {
				refusals[i].errorf("a stream was refused")
			}
			if r.cuts < 3 {
				t.Errorf("follower %d was cut only %d times", i, r.cuts)
			}
			sameOrder(t, "a follower", r.got, want)
		}
		var live []string
		for range want {
			live = append(live, text(whole.message(), "id"))
		}
		sameOrder(t, "the uncut stream", live, want)
		whole.quiet()
	})
}

// sameOrder compares two orders and reports where they differ.
func sameOrder(t testing.TB, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	seen, twice := map[string]bool{}, 0
	for _, id := range got {
		if seen[id] {
			twice++
		}
		seen[id] = true
	}
	missing := 0
	for _, id := range want {
		if !seen[id] {
			missing++
		}
	}
	t.Errorf("%s: %d messages of %d, %d missing, %d duplicates, orders differ at %d", what, len(got), len(want), missing, twice, at)
}

// TestSlowReader stops reading for a while, although the server sends more than a socket
// buffer holds. Other readers must not be affected, and nothing may be lost.
func TestSlowReader(t *testing.T) {
	const count = 100
	alone(t, func(t *testing.T, s *server) {
		a, b := pair(t, s)
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.(*net.TCPConn).SetReadBuffer(4096)
		request := "GET " + b.path("/stream") + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + b.token + "\r\n\r\n"
		if _, err := conn.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 512)
		if _, err := conn.Read(first); err != nil || !strings.HasPrefix(string(first), "HTTP/1.1 200") {
			t.Fatalf("no stream: %v %.200q", err, first)
		}
		fast := b.stream("")
		fast.opening()
		var want []string
		for range count {
			r := a.trySend(b, obj{"encrypted_payload": strings.Repeat("x", 131072)}).want(201)
			want = append(want, r.str("id"))
			if r.took > 5*time.Second {
				r.errorf("a slow reader held the sender up for %v", r.took)
			}
		}
		fast.messages(want...)
		for range 3 {
			st := b.stream(want[count/2])
			st.messages(want[count/2+1:]...)
			st.close()
		}
	})
}
