package erasure

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"parley/client/parley"
	"parley/journal"
)

// brokenJournal has no view: each attempt fails.
type brokenJournal struct {
	journal.Journal
	views chan struct{}
}

var errBroken = errors.New("the journal is broken")

func (j brokenJournal) Latest() journal.View {
	j.views <- struct{}{}
	return journal.ViewOf(brokenView{})
}

func (j brokenJournal) View() journal.View {
	j.views <- struct{}{}
	return journal.ViewOf(brokenView{})
}

type brokenView struct{ journal.View }

func (brokenView) Close()                        {}
func (brokenView) Durable(context.Context) error { return nil }
func (brokenView) Row(parley.Slot, journal.Table, []byte) ([]byte, bool, error) {
	return nil, false, errBroken
}

// TestErasuresWorkWhereTheLeaderIs: jobs begin only between Lead and Interrupt, and end with it.
func TestErasuresWorkWhereTheLeaderIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := brokenJournal{views: make(chan struct{}, 1000)}
		e := New(Options{Journal: journal.Of(j), Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
		defer e.Close()
		works := func() bool {
			org := parley.OrgID{1}
			e.Begin(org)
			time.Sleep(time.Minute)
			synctest.Wait()
			attempts := len(j.views)
			for range attempts {
				<-j.views
			}
			return attempts > 0
		}
		if works() {
			t.Error("a node that has never led erases")
		}
		e.Lead()
		if !works() {
			t.Error("a node that leads does not erase")
		}
		e.Interrupt()
		if works() {
			t.Error("a node that does not lead any more erases")
		}
		e.Lead()
		e.Lead()
		if !works() {
			t.Error("a node that leads again does not erase")
		}
	})
}
