package streams

import (
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// follower reads an agent's stream over many connections, each resumed where the previous
// one was cut.
type follower struct {
	g    *kit.Agent
	got  []string
	last string
	cuts int
}

// follow reads for the given time, then cuts the connection at a random point.
func (f *follower) follow(d time.Duration) *kit.Answer {
	st, refusal := f.g.Listen(f.last)
	if st == nil {
		return refusal
	}
	defer st.Close()
	deadline := time.After(d)
	for {
		select {
		case e, ok := <-st.Events:
			if !ok {
				return nil
			}
			if e.Name == "message" {
				f.got, f.last = append(f.got, e.ID), e.ID
			}
		case <-deadline:
			f.cuts++
			return nil
		}
	}
}

// until follows in short pieces until it has n messages or the time is up.
func (f *follower) until(n int, piece func() time.Duration) *kit.Answer {
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
	kit.Alone(t, func(t *testing.T, s *kit.Server) {
		b := s.Org(t).Agent("followed")
		var from []*kit.Agent
		for range senders {
			from = append(from, s.Org(t).Agent("sender"))
		}
		whole := b.Stream("")
		whole.Opening()
		var wg sync.WaitGroup
		readers := make([]follower, followers)
		refusals := make([]*kit.Answer, followers)
		for i := range readers {
			readers[i] = follower{g: b, last: kit.NilUUID}
			wg.Go(func() {
				refusals[i] = readers[i].until(senders*perSender, func() time.Duration {
					return time.Duration(rand.IntN(40)) * time.Millisecond
				})
			})
		}
		sent := kit.Concurrently(senders, func(i int) []*kit.Answer {
			var out []*kit.Answer
			for range perSender {
				out = append(out, from[i].TrySend(b, nil))
			}
			return out
		})
		for _, a := range slices.Concat(sent...) {
			a.Want(201)
		}
		wg.Wait()
		want := kit.IDs(b.Everything())
		slices.Reverse(want)
		if len(want) != senders*perSender {
			t.Fatalf("%d messages arrived, want %d", len(want), senders*perSender)
		}
		for i, r := range readers {
			if refusals[i] != nil {
				refusals[i].Errorf("a stream was refused")
			}
			if r.cuts < 3 {
				t.Errorf("follower %d was cut only %d times", i, r.cuts)
			}
			sameOrder(t, "a follower", r.got, want)
		}
		var live []string
		for range want {
			live = append(live, kit.Text(whole.Message(), "id"))
		}
		sameOrder(t, "the uncut stream", live, want)
		whole.Quiet()
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
	kit.Alone(t, func(t *testing.T, s *kit.Server) {
		a, b := kit.Pair(t, s)
		conn, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_ = conn.(*net.TCPConn).SetReadBuffer(4096)
		request := "GET " + b.Path("/stream") + " HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + b.Token + "\r\n\r\n"
		if _, err := conn.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 512)
		if _, err := conn.Read(first); err != nil || !strings.HasPrefix(string(first), "HTTP/1.1 200") {
			t.Fatalf("no stream: %v %.200q", err, first)
		}
		fast := b.Stream("")
		fast.Opening()
		var want []string
		for range count {
			r := a.TrySend(b, obj{"encrypted_payload": strings.Repeat("x", 131072)}).Want(201)
			want = append(want, r.Str("id"))
			if r.Took > 5*time.Second {
				r.Errorf("a slow reader held the sender up for %v", r.Took)
			}
		}
		fast.Messages(want...)
		for range 3 {
			st := b.Stream(want[count/2])
			st.Messages(want[count/2+1:]...)
			st.Close()
		}
	})
}
