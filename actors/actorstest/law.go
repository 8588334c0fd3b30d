package actorstest

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/actors/encoding"
)

// Turn is one command and its outcome.
type Turn[S State, C any, E Event] struct {
	Before  S
	After   S
	Command C
	Events  []E
	Err     error
	Now     time.Time
}

// Obey runs random commands. Decide must never change the state, and events must
// survive encoding. Replaying the events, from the beginning or from a snapshot taken
// midway, must give the live state. Draw returns the next command; law checks each turn
// against the aggregate's own laws.
func Obey[S State, C any, E Event](
	t *testing.T, r Rules[S, C, E], draw func(*rapid.T, S) C, law func(*rapid.T, Turn[S, C, E]),
) {
	rapid.Check(t, func(rt *rapid.T) {
		life := r.Begin()
		steps := rapid.IntRange(1, 40).Draw(rt, "steps")
		cut := rapid.IntRange(0, steps-1).Draw(rt, "snapshot before step")
		snapshot, seen := r.Zero(), 0
		for step := range steps {
			if step == cut {
				snapshot, seen = r.thaw(rt, life.State), len(life.History)
			}
			life.Now = life.Now.Add(rapid.SampledFrom(pauses).Draw(rt, "pause"))
			turn := Turn[S, C, E]{Before: r.thaw(rt, life.State), Command: draw(rt, life.State), Now: life.Now}
			turn.Events, turn.Err = life.Do(rt, turn.Command)
			turn.After = life.State
			law(rt, turn)
		}
		if replayed := r.replay(rt, r.Zero(), life.History); !same(rt, replayed, life.State) {
			rt.Fatalf("replay gives %v, the live state is %v", replayed, life.State)
		}
		if resumed := r.replay(rt, snapshot, life.History[seen:]); !same(rt, resumed, life.State) {
			rt.Fatalf("the snapshot and later events give %v, the live state is %v", resumed, life.State)
		}
	})
}

// pauses are the times between turns: none, too short to notice, and the lifetimes of
// challenges and signing keys.
var pauses = []time.Duration{0, time.Microsecond, time.Second, 4 * time.Minute, 9 * time.Hour, 40 * 24 * time.Hour}

// same reports whether two states have the same stored form.
func same[S State](t judge, a, b S) bool { return bytes.Equal(encode(t, a), encode(t, b)) }

// thaw returns the state as restored from a snapshot.
func (r Rules[S, C, E]) thaw(t judge, s S) S {
	t.Helper()
	back := r.Zero()
	if err := encoding.Unmarshal(encode(t, s), back); err != nil {
		t.Fatal(err)
	}
	return back
}
