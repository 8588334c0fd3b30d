package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
)

// TestOutcomeOfChange: a change of members that a leader has proposed, and cannot decide, is not
// answered as undone: it takes effect when the members reach each other again.
func TestOutcomeOfChange(t *testing.T) {
	s := &replicas{t: t, journals: 1, dir: "group", tick: 5 * time.Millisecond}
	for range 2 { // one of them cannot lead without what the other has proposed
		s.disks = append(s.disks, vfs.NewMem())
	}
	g := s.openAll()
	var cut atomic.Bool
	g.network.Lost = func(from, to uint64) bool { return from != to && cut.Load() }
	defer func() { _ = g.Close() }()
	if err := g.Start(ignoreQueue, ignoreTimer); err != nil {
		t.Fatal(err)
	}
	m := g.members[g.leads(t)]
	group := NewGroup(m, 1, time.Now, nil, nil)
	change := addMember{ID: 4, Described: Description{Name: "d", Address: "d:1"}.Encode()}
	cut.Store(true)
	if _, err := group.answer(context.Background(), change); !errors.Is(err, parley.ErrOutcomeUnknown) {
		t.Errorf("a change that was proposed: %v", err)
	}
	if _, err := group.answer(context.Background(), change); !errors.Is(err, journal.ErrNotLeader) {
		t.Errorf("a change that was not proposed: %v", err)
	}
	cut.Store(false)
	eventually(t, "the change to take effect", func() bool { _, member := group.Table()[4]; return member })
}

// TestRequestsBeforeStart: a node that starts answers peers before its member has begun, such as
// those that still take it for the leader that it was. It does nothing for them, and does not end.
func TestRequestsBeforeStart(t *testing.T) {
	group := NewGroup(NewMember(), 1, time.Now, nil, nil)
	for _, request := range []any{
		addMember{ID: 4, Described: Description{Name: "d", Address: "d:1"}.Encode()},
		removeMember{4},
		hand{4},
		changeKey{},
		askAcknowledged{ID: 4},
	} {
		if _, err := group.answer(context.Background(), request); !errors.Is(err, journal.ErrNotLeader) {
			t.Errorf("%T: %v", request, err)
		}
	}
}
