package link_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"parley/cluster/link"
)

// TestMalformedEndsStream: a peer that sends something malformed is disconnected and named in the
// log, begins again after pauses that grow, and is heard again.
func TestMalformedEndsStream(t *testing.T) {
	for _, what := range []string{"malformed", "refused later"} {
		ids := members(t, 2)
		a, b := &node{identity: ids[0], id: uint64(ids[0].ID), messages: map[uint64][]string{}}, &node{
			identity: ids[1], id: uint64(ids[1].ID), messages: map[uint64][]string{},
		}
		a.start(t, "127.0.0.1:0")
		b.start(t, "127.0.0.1:0")
		a.SetPeers(map[uint64]string{b.id: b.address})
		reach(t, a, b.id)
		hear := func(text string) { // what is sent while there is no stream is lost
			t.Helper()
			count := func() int {
				b.mu.Lock()
				defer b.mu.Unlock()
				return len(slices.DeleteFunc(slices.Clone(b.messages[a.id]), func(m string) bool { return m != text }))
			}
			before := count()
			for began := time.Now(); count() == before; time.Sleep(time.Millisecond) {
				if a.Send(b.id, []byte(text)); time.Since(began) > 10*time.Second {
					t.Fatalf("%s is never heard", text)
				}
			}
		}
		for range 4 {
			hear(what)
			hear("good")
		}
		b.Close()
		if b.log.count("sent something malformed") < 3 || b.log.count(fmt.Sprintf("%016x", a.id)) < 3 {
			t.Errorf("the log has %q", b.log.text)
		}
	}
}

// TestMalformedCalls: a call, or an answer, that cannot be read ends the stream, with the calls
// that wait. Its peer is named in the log, and the next call has a new stream.
func TestMalformedCalls(t *testing.T) {
	for what, c := range map[string]struct {
		sent func(a, b *node)
		logs func(a, b *node) (in *node, named uint64)
	}{
		"a call":    {func(a, b *node) { _, _ = a.Call(t.Context(), b.id, []byte("malformed")) }, func(a, b *node) (*node, uint64) { return b, a.id }},
		"an answer": {func(a, b *node) { a.Malformed(b.id, errors.New("it is malformed")) }, func(a, b *node) (*node, uint64) { return a, b.id }},
	} {
		t.Run(what, func(t *testing.T) {
			all := connect(t, members(t, 2)...)
			a, b := all[0], all[1]
			reach(t, a, b.id)
			waited := make(chan error)
			go func() { _, err := a.Call(t.Context(), b.id, []byte("wait")); waited <- err }()
			for b.waits.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			c.sent(a, b)
			if err := <-waited; !errors.Is(err, link.ErrCut) {
				t.Errorf("a call that waits on the stream: %v", err)
			}
			in, named := c.logs(a, b)
			if in.log.count("sent something malformed") != 1 || in.log.count(fmt.Sprintf("%016x", named)) == 0 || in.log.count("it is malformed") != 1 {
				t.Errorf("it logs %s", in.log.text)
			}
			reach(t, a, b.id)
		})
	}
}
