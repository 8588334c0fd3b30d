package link_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"parley/cluster/link"
)

// eventually waits until the numbers of a peer are as wanted.
func (n *node) eventually(t *testing.T, peer uint64, what string, met func(link.Stats) bool) {
	t.Helper()
	var s link.Stats
	for range 500 {
		for _, s = range n.Stats() {
			if s.Peer == peer && met(s) {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s never comes true: %+v", what, s)
}

// TestStats: both ends count what crosses, and a link whose peer is gone is down.
func TestStats(t *testing.T) {
	all := connect(t, members(t, 2)...)
	a, b := all[0], all[1]
	reach(t, a, b.id)
	a.eventually(t, b.id, "that the link is up", func(s link.Stats) bool { return s.Up })
	before := a.Stats()
	for range 10 {
		a.Send(b.id, make([]byte, 1000))
	}
	sent := func(s link.Stats) bool { return s.Peer == b.id && s.BytesSent >= 10000 && s.MessagesSent >= 11 }
	a.eventually(t, b.id, "that ten messages and a call are sent", sent)
	b.eventually(t, a.id, "that they are received", func(s link.Stats) bool {
		return s.BytesReceived >= 10000 && s.MessagesReceived >= 11 && s.MessagesSent > 0 && s.BytesSent > 0
	})
	for _, s := range before {
		if sent(s) {
			t.Errorf("they were counted before they were sent: %+v", s)
		}
	}
	if err := a.Transfer(t.Context(), b.id, []byte("header"), bytes.NewReader(make([]byte, 1<<20))); err != nil {
		t.Fatal(err)
	}
	b.eventually(t, a.id, "that a content is received", func(s link.Stats) bool { return s.BytesReceived >= 1<<20 })

	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); _, _ = a.Call(ctx, b.id, []byte("wait")) }()
	a.eventually(t, b.id, "that a call waits", func(s link.Stats) bool { return s.Pending == 1 })
	stop()
	<-over
	a.eventually(t, b.id, "that none does", func(s link.Stats) bool { return s.Pending == 0 })

	b.Links.Close()
	a.eventually(t, b.id, "that the link is down", func(s link.Stats) bool { return !s.Up })
	a.Send(b.id, []byte("lost"))
	a.eventually(t, b.id, "that a message is dropped", func(s link.Stats) bool { return s.Dropped > 0 && s.Waiting == 0 })
	if s := b.Stats(); len(s) != 0 {
		t.Errorf("closed links have %+v", s)
	}
}
