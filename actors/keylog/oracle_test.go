package keylog_test

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/keylog"
)

var rules = actorstest.Rules[*keylog.State, keylog.Command, keylog.Event]{
	Zero:   func() *keylog.State { return &keylog.State{} },
	Decide: keylog.Decide, Evolve: keylog.Evolve, Tag: keylog.Tag, New: keylog.New,
}

func TestGolden(t *testing.T) {
	leaf := sha256.Sum256([]byte("leaf"))
	actorstest.Golden(
		t, "testdata/events.golden", rules, &keylog.State{Size: 1, Subtrees: [][]byte{leaf[:]}},
		[]keylog.Event{&keylog.Appended{Leaves: [][]byte{leaf[:], leaf[:]}, AtMs: actorstest.Epoch.UnixMilli()}},
	)
}

// sight is everything visible of the log.
type sight struct {
	exists bool
	size   uint64
	root   keylog.Hash
}

// oracle remembers every leaf.
type oracle struct{ leaves []keylog.Hash }

// Visible computes the root hash from all leaves, as RFC 6962 section 2.1 defines it.
func (o *oracle) Visible(time.Time) any {
	return sight{len(o.leaves) > 0, uint64(len(o.leaves)), treeHash(o.leaves)}
}

func treeHash(leaves []keylog.Hash) keylog.Hash {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, leaves[0][:]...))
	default:
		half := 1
		for half*2 < n {
			half *= 2
		}
		left, right := treeHash(leaves[:half]), treeHash(leaves[half:])
		return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
	}
}

func (o *oracle) Predict(c keylog.Command, _ time.Time) actorstest.Verdict {
	leaves := c.(keylog.Append).Leaves
	if o.leaves = append(o.leaves, leaves...); len(leaves) == 0 {
		return actorstest.Accepted("nothing")
	}
	return actorstest.Accepted("appended")
}

func wish(t *rapid.T, o *oracle, _ time.Time) keylog.Command {
	c := keylog.Append{}
	for i := range rapid.IntRange(0, 3).Draw(t, "leaves") {
		c.Leaves = append(c.Leaves, sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(len(o.leaves)+i))))
	}
	return c
}

func look(l *actorstest.Life[*keylog.State, keylog.Command, keylog.Event]) any {
	return sight{l.State.Exists(), l.State.GetSize(), l.State.Root()}
}

var trial = actorstest.Trial[*keylog.State, keylog.Command, keylog.Event, *oracle]{
	Rules: rules, Oracle: func() *oracle { return &oracle{} }, Draw: wish, Look: look, Pauses: []time.Duration{0, time.Second},
	Cases: []string{"Append: appended", "Append: nothing"},
}

func TestOracle(t *testing.T) { trial.Run(t) }

func TestOracleControl(t *testing.T) {
	type logRules = actorstest.Rules[*keylog.State, keylog.Command, keylog.Event]
	evolving := func(wrong func(*keylog.State)) func(*logRules) {
		return func(r *logRules) {
			r.Evolve = func(s *keylog.State, e keylog.Event) { keylog.Evolve(s, e); wrong(s) }
		}
	}
	trial.Finds(t, map[string]func(*logRules){
		"a leaf is forgotten": func(r *logRules) {
			r.Decide = func(s *keylog.State, c keylog.Command, now time.Time) ([]keylog.Event, error) {
				leaves := c.(keylog.Append).Leaves
				return keylog.Decide(s, keylog.Append{Leaves: leaves[:min(1, len(leaves))]}, now)
			}
		},
		"a hash is another": evolving(func(s *keylog.State) { s.Subtrees[0][3] ^= 1 }),
		"a leaf too many":   evolving(func(s *keylog.State) { s.Size++ }),
	})
}
