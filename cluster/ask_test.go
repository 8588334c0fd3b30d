package cluster

import (
	"errors"
	"testing"
	"time"

	"parley/actors/host"
	"parley/client/parley"
	"parley/journal"
)

// TestAskEnds: a request whose actor does not answer in time is not asked for again, and one
// that no node takes is given up.
func TestAskEnds(t *testing.T) {
	now := time.Unix(0, 0)
	n := &Node{Options: Options{Clock: func() time.Time { return now }, Leader: func() (Peer, error) { return nil, nil }}}
	for name, c := range map[string]struct {
		content any
		err     error
		want    error
	}{
		"a change":                   {"change", parley.ErrOutcomeUnknown, parley.ErrOutcomeUnknown},
		"a query":                    {query{}, parley.ErrOutcomeUnknown, journal.ErrBehind},
		"a change that no one takes": {"change", journal.ErrNotLeader, journal.ErrNotLeader},
	} {
		asked := 0
		_, err := n.Ask(host.Request{Content: c.content}, func(host.Request) (any, error) {
			asked++
			now = now.Add(host.AnswerTimeout + time.Second)
			return nil, c.err
		})
		if asked != 1 || !errors.Is(err, c.want) {
			t.Errorf("%s: asked %d times, %v; want %v", name, asked, err, c.want)
		}
	}
}

type query struct{}

func (query) ReadOnly() {}
