package actors

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"parley"
	"parley/actors/conversation"
	"parley/actors/host"
	"parley/journal"
	"parley/persistence"
)

// way is how a script is run; none of it may show in the answers.
type way struct {
	journals   int
	stateEvery uint64 // of the kinds whose folded state nobody else reads, 0: as ever
	passivate  bool   // every actor leaves after every command
	restart    int    // one command in so many is followed by a restart
	crash      int    // one command in so many is followed by a loss of power
	forget     bool   // no record stays at hand
}

const never = 1 << 60

var ways = map[string]way{
	"snapshots always":              {journals: 1, stateEvery: 1, passivate: true},
	"snapshots never":               {journals: 1, stateEvery: never, passivate: true},
	"snapshots now and then":        {journals: 1, stateEvery: 3, passivate: true},
	"restarts":                      {journals: 1, stateEvery: 5, restart: 15},
	"losses of power":               {journals: 1, stateEvery: 5, crash: 15},
	"no facts at hand":              {journals: 1, forget: true},
	"four journals":                 {journals: 4},
	"four journals, snapshots":      {journals: 4, stateEvery: 1, passivate: true},
	"four journals, losses":         {journals: 4, stateEvery: never, crash: 15},
	"four journals, and everything": {journals: 4, stateEvery: 2, passivate: true, restart: 20, crash: 20, forget: true},
}

var scripts = flag.Int("metamorphic.scripts", 3, "how many scripts TestHowItRunsDoesNotShow runs in every way")

// TestHowItRunsDoesNotShow runs one script of commands in many ways and
// compares everything that was answered and everything that can be read, byte
// by byte: ids, refusals, repeats, pages that are leafed through across
// restarts, streams that are resumed.
func TestHowItRunsDoesNotShow(t *testing.T) {
	seeds, commands := *scripts, 400
	switch {
	case raceDetector:
		seeds, commands = 1, 60
	case testing.Short():
		seeds, commands = 1, 150
	}
	var interruptions atomic.Int64
	said := strings.Builder{}
	for seed := range uint64(seeds) {
		want, _ := play(t, seed, commands, way{journals: 1})
		said.WriteString(want)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			for name, w := range ways {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					got, interrupted := play(t, seed, commands, w)
					interruptions.Add(int64(interrupted))
					if w.restart+w.crash > 0 && interrupted < commands/50 {
						t.Errorf("interrupted only %d times", interrupted)
					}
					if got != want {
						t.Error(cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
					}
				})
			}
		})
		t.Logf("seed %d: %d commands, %d bytes, %d ways", seed, commands, len(want), len(ways))
	}
	t.Logf("%d restarts and losses of power", interruptions.Load())
	for _, word := range wordsOfTheScripts {
		if seeds >= 3 && !strings.Contains(said.String(), word) {
			t.Errorf("nobody says %q", word)
		}
	}
}

// wordsOfTheScripts are said by one or another: each outcome that is to be
// compared has come about.
var wordsOfTheScripts = []string{
	"repeated true", "repeated false", "idempotency_mismatch", "self_message", "incoming_policy", "outgoing_policy", "gone", "not_owner",
	"conversation_closed", "invalid_transition", "role_not_allowed", "name_taken", "name_immutable", "quota_exceeded", "slug_immutable",
	"slug_taken", "pow_invalid", "last_credential", "is registered", "now has", "revoked", "minted", "marked", "moved to", "changed", "carries",
	"a stream of", "leafs", "goes on", "ends here", "rotated", "found by", "gap true", "only unseen true",
	"is founded", "is a member", "is asked for", "voted", "left the group", "is over", "to all", "isolation_conflict", "already_member", "not_admin",
	"last_admin", "no_recipients", "invited",
}

// flaw is a defect that must show in one of the ways.
type flaw struct {
	way  way
	wrap func(openings int, j journal.Journal) journal.Journal
	keep func(*persistence.Options)
	tune func(*Node)
}

// TestHowItRunsControls plants a flaw that only one of the ways brings to
// light, and expects the answers to differ.
func TestHowItRunsControls(t *testing.T) {
	skipUnderRace(t)
	const commands = 300
	want, _ := play(t, 0, commands, way{journals: 1})
	for name, f := range map[string]flaw{
		"answered before it is synced": {
			way: way{journals: 1, crash: 15}, keep: func(o *persistence.Options) { o.Unsynced = true },
		},
		"keys of former openings are forgotten": {
			way: way{journals: 1, restart: 15}, wrap: func(openings int, j journal.Journal) journal.Journal { return keyless{j, openings > 1} },
		},
		"a snapshot that does not count messages": {
			way: way{journals: 1, stateEvery: 1, passivate: true}, tune: uncounted,
		},
		"an actor that begins with all but the last event": {
			way: way{journals: 1, stateEvery: never, passivate: true}, wrap: func(_ int, j journal.Journal) journal.Journal { return lapsing{j} },
		},
		"no marks for other homes": {
			way: way{journals: 4}, wrap: func(_ int, j journal.Journal) journal.Journal { return unmarking{j} },
		},
		"streams that begin anew with each opening": {
			way: way{journals: 1, restart: 15}, wrap: func(openings int, j journal.Journal) journal.Journal { return doubling{j, openings > 1} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := f.play(t, 0, commands)
			if got == want {
				t.Fatal("it does not show")
			}
			before, after, line := strings.Split(want, "\n"), strings.Split(got, "\n"), 0
			for line < min(len(before), len(after))-1 && before[line] == after[line] {
				line++
			}
			t.Logf("line %d of %d: %.200s, not %.200s", line, len(before), after[line], before[line])
		})
	}
}

// play runs a script with the flaw, up to where it stumbles.
func (f flaw) play(t *testing.T, seed uint64, commands int) (said string, interrupted int) {
	openings := 0
	p := newPlayer(stumbling{t}, seed, f.way, func(r *testNode) {
		if keep := r.tuneStore; f.keep != nil {
			r.tuneStore = func(o *persistence.Options) { keep(o); f.keep(o) }
		}
		if tune := r.tune; f.tune != nil {
			r.tune = func(n *Node) { tune(n); f.tune(n) }
		}
		if f.wrap != nil {
			r.wrap = func(j journal.Journal) journal.Journal { openings++; return f.wrap(openings, j) }
		}
	})
	defer func() {
		if r := recover(); r != nil {
			s, ok := r.(stumble)
			if !ok {
				panic(r)
			}
			said = p.out.String() + "stumbled: " + string(s)
		}
	}()
	p.run(commands)
	return p.out.String(), p.interrupted
}

// stumbling is a test that leaves it to its control what a failure means.
type stumbling struct{ *testing.T }

type stumble string

func (s stumbling) Fatal(args ...any)            { panic(stumble(fmt.Sprint(args...))) }
func (s stumbling) Fatalf(f string, args ...any) { panic(stumble(fmt.Sprintf(f, args...))) }
func (s stumbling) Error(args ...any)            { s.Log(args...) }
func (s stumbling) Errorf(f string, args ...any) { s.Logf(f, args...) }

// keyless journals do not know what idempotency keys stand for.
type keyless struct {
	journal.Journal
	now bool
}

func (j keyless) Row(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error) {
	if j.now && table == journal.OnceTable {
		return nil, false, nil
	}
	return j.Journal.Row(slot, table, key)
}

// uncounted has conversations count what they have seen themselves.
func uncounted(n *Node) {
	k := n.messages.kind()
	k.StateEvery = 1
	seen := map[*conversation.State]int64{}
	k.Rules.Evolve = func(s *conversation.State, e conversation.Event) {
		conversation.Evolve(s, e)
		if _, ok := e.(*conversation.Posted); ok {
			seen[s]++
			s.Messages = 1 + seen[s]
		}
	}
	host.Register(n.engine, k)
}

// lapsing journals show an actor that loads its state all but its last event.
type lapsing struct{ journal.Journal }

func (j lapsing) View() journal.View { return lapsingView{j.Journal.View()} }

type lapsingView struct{ journal.View }

func (v lapsingView) Events(s journal.Stream, from uint64, reverse bool, fn func(uint64, int64, journal.StoredEvent) bool) error {
	// Actors load conversations in a turn of their own: who reads does not come
	// from there.
	if stack := make([]byte, 4096); !strings.Contains(string(stack[:runtime.Stack(stack, false)]), ").serve") {
		return v.View.Events(s, from, reverse, fn)
	}
	type event struct {
		seq uint64
		at  int64
		f   journal.StoredEvent
	}
	var all []event
	err := v.View.Events(s, from, reverse, func(seq uint64, at int64, f journal.StoredEvent) bool {
		all = append(all, event{seq, at, f})
		return true
	})
	for _, e := range all[:max(0, len(all)-1)] {
		if !fn(e.seq, e.at, e.f) {
			break
		}
	}
	return err
}

// unmarking journals lose marks on their way to another home.
type unmarking struct{ journal.Journal }

func (j unmarking) Append(e *journal.Entry) {
	words := e.Effects[:0:0]
	for _, w := range e.Effects {
		if _, mark := w.(journal.RecordReceipt); !mark || w.Home()%4 == e.Slot%4 {
			words = append(words, w)
		}
	}
	e.Effects = words
	j.Journal.Append(e)
}

// doubling journals give the first entry of what is followed twice.
type doubling struct {
	journal.Journal
	now bool
}

func (j doubling) Follow(agent parley.AgentID, after uint64, notify func()) journal.Subscription {
	if j.now && after > 0 {
		after--
	}
	return j.Journal.Follow(agent, after, notify)
}

// steady is a crashable disk in memory whose ReuseForWrite may meet a clone: its
// own takes the lock that keeps clones out twice.
type steady struct{ *vfs.MemFS }

func (d steady) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return d.OpenReadWrite(newname, category)
}
