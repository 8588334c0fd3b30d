package persistence

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestGather: a replica that has batches under way gathers entries for the next one, but not
// longer than they are under way, nor than it leads.
func TestGather(t *testing.T) {
	const ago, end = gatherFor / 4, gatherFor / 2
	for name, c := range map[string]struct {
		underWay, stale bool
		then            func(*leadership)
		want            time.Duration
	}{
		"nothing is under way":             {false, false, nil, 0},
		"one is under way":                 {true, false, nil, gatherFor - ago},
		"one was before, one is":           {true, true, nil, gatherFor - ago},
		"one is, for a moment":             {true, false, func(l *leadership) { l.pop() }, end},
		"the term ends while one is":       {true, false, func(l *leadership) { close(l.over) }, end},
		"one is, before one without batch": {true, false, func(l *leadership) { l.proposed = append(l.proposed, &flight{}); l.pop() }, gatherFor - ago},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &leadership{over: make(chan struct{}), slots: make(chan struct{}, proposedMax)}
				j := &journalState{lead: l, idle: make(chan struct{}, 1)}
				l.journals = []*journalState{{idle: make(chan struct{}, 1)}, j}
				if c.stale {
					j.idle <- struct{}{}
				}
				if c.underWay {
					l.slots <- struct{}{}
					l.proposed = []*flight{{proposal: []byte("batch")}}
				}
				if c.then != nil {
					time.AfterFunc(end, func() { c.then(l) })
				}
				began := time.Now()
				j.gather(ago)
				if took := time.Since(began); took != c.want {
					t.Errorf("it waits for %v, want %v", took, c.want)
				}
			})
		})
	}
}
