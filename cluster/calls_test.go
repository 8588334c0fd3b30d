package cluster

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"parley/actors/wire"
	"parley/client/parley"
	"parley/cluster/link"
	"parley/journal"
)

// TestEntriesOfOneLeader: what only the leader that made it may store never crosses to another
// node.
func TestEntriesOfOneLeader(t *testing.T) {
	rows := []journal.Row{{Table: journal.ErasureTable, Key: []byte("a"), Value: []byte("b")}}
	if _, err := callOf(&journal.Entry{Rows: rows}); err != nil {
		t.Errorf("a row does not cross: %v", err)
	}
	if _, err := callOf(&journal.Entry{Rows: rows, Here: true}); !errors.Is(err, journal.ErrNotLeader) {
		t.Errorf("a row of one leader crosses: %v", err)
	}
}

// TestOutcomeOfLastTry: what was tried in vain until the end is answered as undone only if no
// try may have done it.
func TestOutcomeOfLastTry(t *testing.T) {
	lost, elsewhere := parley.ErrOutcomeUnknown, journal.ErrNotLeader
	for name, c := range map[string]struct {
		again repetition
		tries []error // the last one is repeated
		want  error
	}{
		"a change that was lost once":    {changesAgain, []error{elsewhere, lost, elsewhere}, lost},
		"a change that none got":         {changesAgain, []error{elsewhere}, journal.ErrBehind},
		"a change that is not repeated":  {changesOnce, []error{elsewhere, lost, nil}, lost},
		"a change that succeeds again":   {changesAgain, []error{lost, nil}, nil},
		"a query that was lost":          {changesNothing, []error{elsewhere, lost}, journal.ErrBehind},
		"what is refused, after a loss":  {changesAgain, []error{lost, ErrTooFew}, ErrTooFew},
		"a single change that none gets": {changesOnce, []error{elsewhere}, elsewhere},
	} {
		now := time.Unix(0, 0)
		n := &Node{Options: Options{Clock: func() time.Time { now = now.Add(time.Second); return now }}}
		tries := c.tries
		_, err := n.untilDecided(t.Context(), c.again, func() (any, error) {
			err := tries[0]
			if len(tries) > 1 {
				tries = tries[1:]
			}
			return nil, err
		})
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestTriesEndWithTheirContext: what nobody waits for any more is not tried again.
func TestTriesEndWithTheirContext(t *testing.T) {
	n := &Node{Options: Options{Clock: time.Now}}
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	_, err := n.untilDecided(ctx, changesAgain, func() (any, error) {
		tries++
		cancel()
		return nil, journal.ErrNotLeader
	})
	if tries != 1 || !errors.Is(err, journal.ErrBehind) {
		t.Errorf("%d tries, %v", tries, err)
	}
}

// TestInvalidEntries: what no journal can take does not get to one, which would end the process
// of the leader.
func TestInvalidEntries(t *testing.T) {
	row := func(slot parley.Slot) appendEntry {
		return appendEntry{Effects: []journal.Effect{journal.PutRow{Row: journal.Row{Slot: slot, Table: journal.OnceTable}}}}
	}
	for name, c := range map[string]struct {
		appendEntry
		valid bool
	}{
		"the last slot": {row(parley.Slots - 1), true}, "a slot that does not exist": {row(parley.Slots), false},
		"a home that does not exist": {appendEntry{Slot: parley.Slots}, false}, "no effect": {appendEntry{Effects: []journal.Effect{nil}}, false},
		"nobody": {appendEntry{Effects: []journal.Effect{journal.Fanout{}}}, true},
	} {
		if got := c.appendEntry.valid(); got != c.valid {
			t.Errorf("%s: valid is %v", name, got)
		}
	}
}

// TestMalformedRequests: what cannot be read is told apart from what a node of another version
// sends, and of those who are no members nothing is decoded that is larger than a claim.
func TestMalformedRequests(t *testing.T) {
	n := &Node{Options: Options{Types: registeredTypes(), Gossiped: func([]byte) error { return errors.New("it cannot be read") }}}
	encoded := func(r any) []byte {
		b, err := n.Types.Append(nil, r)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	items := append(encoded(appendEntry{}), 0x12, 0x84, 0x80, 0x40, 0x12, 0x80, 0x80, 0x40) // a list of 1 MiB
	items = append(items, bytes.Repeat([]byte{0x0a, 0}, 1<<19)...)
	for name, c := range map[string]struct {
		request []byte
		member  bool
		want    error
	}{
		"cut off": {[]byte{0x0a, 99}, true, link.ErrFrame}, "of another version": {[]byte("\x0a\x09a.another"), true, wire.ErrUnregistered},
		"an entry that no journal can take":    {encoded(appendEntry{Slot: parley.Slots}), true, link.ErrFrame},
		"gossip":                               {encoded(gossip{[]byte("a")}), true, link.ErrFrame},
		"half a million empty rows":            {items, true, link.ErrFrame},
		"the same of one that is no member":    {items, false, link.ErrNoMember},
		"a small one of a node that is none":   {encoded(askState{}), false, link.ErrNoMember},
		"a part of one of a node that is none": {[]byte{0x0a, 99}, false, link.ErrNoMember},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := n.Answer(t.Context(), 7, c.member, c.request)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.want) || errors.Is(err, link.ErrFrame) != (c.want == link.ErrFrame) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<10 {
			t.Errorf("%s: %d bytes of memory", name, took)
		}
	}
}
