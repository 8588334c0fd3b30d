package actors

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"parley/actors/conversation"
	"parley/actors/host"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/layout"
)

// variant is a way to run a script. It must not influence any answer.
type variant struct {
	journals     int
	stateEvery   uint64 // for kinds whose stored state only their actor reads; 0 is the default
	passivate    bool   // every actor is passivated after every command
	restart      int    // on average one in this many commands is followed by a restart
	crash        int    // on average one in this many commands is followed by a power failure
	withoutCache bool   // no record stays in the cache
	// follower, if not 0, is how late a second node is at most. The two serve in turn.
	follower time.Duration
	// transfer: the second node is away while the first one serves, and takes its content
	// afterwards.
	transfer bool
}

const never = 1 << 60

var ways = map[string]variant{
	"snapshots always":              {journals: 1, stateEvery: 1, passivate: true},
	"snapshots never":               {journals: 1, stateEvery: never, passivate: true},
	"snapshots now and then":        {journals: 1, stateEvery: 3, passivate: true},
	"restarts":                      {journals: 1, stateEvery: 5, restart: 15},
	"losses of power":               {journals: 1, stateEvery: 5, crash: 15},
	"no facts at hand":              {journals: 1, withoutCache: true},
	"four journals":                 {journals: 4},
	"four journals, snapshots":      {journals: 4, stateEvery: 1, passivate: true},
	"four journals, losses":         {journals: 4, stateEvery: never, crash: 15},
	"a leader and a follower":       {journals: 1, follower: 2 * time.Millisecond},
	"a follower by transfer":        {journals: 1, follower: 2 * time.Millisecond, transfer: true},
	"four journals, replicas":       {journals: 4, follower: 2 * time.Millisecond, withoutCache: true},
	"four journals, and everything": {journals: 4, stateEvery: 2, passivate: true, restart: 20, crash: 20, withoutCache: true},
}

// waysOf returns the ways to run a script: all for the first, every other one for the
// others, in turn, unless the test is exhaustive.
func waysOf(seed uint64) map[string]variant {
	if seed == 0 || *exhaustive {
		return ways
	}
	half := map[string]variant{}
	for i, name := range slices.Sorted(maps.Keys(ways)) {
		if i%2 == int(seed%2) {
			half[name] = ways[name]
		}
	}
	return half
}

var scripts = flag.Int("metamorphic.scripts", 5, "how many scripts TestVariantsAnswerAlike runs in several ways")

// TestVariantsAnswerAlike runs scripts in many variants and compares all answers and
// everything that can be read, byte by byte: ids, refusals, repeats, pages read across
// restarts, resumed streams.
func TestVariantsAnswerAlike(t *testing.T) {
	skipUnderRace(t)
	seeds, commands := *scripts, 400
	if testing.Short() {
		seeds, commands = 1, 150
	}
	var interruptions atomic.Int64
	said := strings.Builder{}
	for seed := range uint64(seeds) {
		want, _ := runScript(t, seed, commands, variant{journals: 1})
		said.WriteString(want)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			for name, w := range waysOf(seed) {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					got, interrupted := runScript(t, seed, commands, w)
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
		t.Logf("seed %d: %d commands, %d bytes, %d ways", seed, commands, len(want), len(waysOf(seed)))
	}
	t.Logf("%d restarts and power failures", interruptions.Load())
	for _, word := range wordsOfTheScripts {
		if seeds >= 5 && !strings.Contains(said.String(), word) {
			t.Errorf("no script produced %q", word)
		}
	}
}

// wordsOfTheScripts must occur in the output of the scripts, so that each outcome is
// compared.
var wordsOfTheScripts = []string{
	"repeated true", "repeated false", "idempotency_mismatch", "self_message", "incoming_policy", "outgoing_policy", "gone", "not_owner",
	"conversation_closed", "invalid_transition", "role_not_allowed", "name_taken", "name_immutable", "quota_exceeded", "slug_immutable",
	"slug_taken", "pow_invalid", "last_credential", "is registered", "now has", "revoked", "minted", "marked", "moved to", "changed", "carries",
	"a stream of", "leafs", "goes on", "ends here", "rotated", "found by", "gap true", "only unseen true",
	"is founded", "is a member", "is asked for", "voted", "left the group", "is over", "to all", "isolation_conflict", "already_member", "not_admin",
	"last_admin", "no_recipients", "invited",
	"committed by", "Repeated:true", "epoch_conflict", "mls_pending", "mls_removal_pending", "sealed for", "acknowledged the Welcome", "Welcome of", "not_member",
}

// defect is a fault that must show in one of the variants.
type defect struct {
	variant   variant
	wrap      func(openings int, j journal.Journal) journal.Journal
	tuneStore func(*persistence.Options)
	tune      func(*Node)
}

// TestVariantsControl plants a defect that only one of the variants reveals, and
// expects the answers to differ.
func TestVariantsControl(t *testing.T) {
	skipUnderRace(t)
	const commands = 300
	want, _ := runScript(t, 0, commands, variant{journals: 1})
	for name, f := range map[string]defect{
		"answered before it is synced": {
			variant: variant{journals: 1, crash: 15}, tuneStore: func(o *persistence.Options) { o.Unsynced = true },
		},
		"keys of former openings are forgotten": {
			variant: variant{journals: 1, restart: 15}, wrap: func(openings int, j journal.Journal) journal.Journal { return journal.Of(withoutKeys{j, openings > 1}) },
		},
		"a snapshot that does not count messages": {
			variant: variant{journals: 1, stateEvery: 1, passivate: true}, tune: countLocally,
		},
		"an actor that begins with all but the last event": {
			variant: variant{journals: 1, stateEvery: never, passivate: true}, wrap: func(_ int, j journal.Journal) journal.Journal { return journal.Of(withoutLastEvent{j}) },
		},
		"no marks for other homes": {
			variant: variant{journals: 4}, wrap: func(_ int, j journal.Journal) journal.Journal { return journal.Of(withoutReceipts{j}) },
		},
		"a follower that reads before it has caught up": {
			variant: variant{journals: 1, follower: 100 * time.Millisecond}, wrap: func(_ int, j journal.Journal) journal.Journal { return journal.Of(withoutFence{j}) },
		},
		"a follower that keeps what a leader has changed": {
			variant: variant{journals: 1, follower: 2 * time.Millisecond}, wrap: func(_ int, j journal.Journal) journal.Journal { return journal.Of(withoutChanges{j}) },
		},
		"a follower by transfer that keeps what it knew": {
			variant: variant{journals: 1, follower: 2 * time.Millisecond, transfer: true}, wrap: func(_ int, j journal.Journal) journal.Journal { return journal.Of(withoutChanges{j}) },
		},
		"streams that begin anew with each opening": {
			variant: variant{journals: 1, restart: 15}, wrap: func(openings int, j journal.Journal) journal.Journal {
				return journal.Of(repeatFirstEntry{j, openings > 1})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := f.runScript(t, 0, commands)
			if got == want {
				t.Fatal("the defect did not show")
			}
			before, after, line := strings.Split(want, "\n"), strings.Split(got, "\n"), 0
			for line < min(len(before), len(after))-1 && before[line] == after[line] {
				line++
			}
			t.Logf("line %d of %d: %.200s, not %.200s", line, len(before), after[line], before[line])
		})
	}
}

// runScript runs a script with the defect, up to the first failure.
func (f defect) runScript(t *testing.T, seed uint64, commands int) (said string, interrupted int) {
	openings := 0
	p := newScriptRunner(panicOnFailure{t}, seed, f.variant, func(r *testNode) {
		if keep := r.tuneStore; f.tuneStore != nil {
			r.tuneStore = func(o *persistence.Options) { keep(o); f.tuneStore(o) }
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
			s, ok := r.(testFailure)
			if !ok {
				panic(r)
			}
			said = p.out.String() + "stumbled: " + string(s)
		}
	}()
	p.run(commands)
	return p.out.String(), p.interrupted
}

// panicOnFailure is a test whose failures panic, so that a control can check them.
type panicOnFailure struct{ *testing.T }

type testFailure string

func (s panicOnFailure) Fatal(args ...any)            { panic(testFailure(fmt.Sprint(args...))) }
func (s panicOnFailure) Fatalf(f string, args ...any) { panic(testFailure(fmt.Sprintf(f, args...))) }
func (s panicOnFailure) Error(args ...any)            { s.Log(args...) }
func (s panicOnFailure) Errorf(f string, args ...any) { s.Logf(f, args...) }

// withoutKeys is a journal without rows of idempotency keys.
type withoutKeys struct {
	journal.Journal
	now bool
}

func (j withoutKeys) Row(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error) {
	if j.now && table == journal.OnceTable {
		return nil, false, nil
	}
	return j.Journal.Row(slot, table, key)
}

// countLocally makes conversations count only messages they have seen themselves.
func countLocally(n *Node) {
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

// withoutLastEvent hides the last event from an actor that loads its state.
type withoutLastEvent struct{ journal.Journal }

func (j withoutLastEvent) View() journal.View {
	return journal.ViewOf(withoutLastEventView{j.Journal.View()})
}

type withoutLastEventView struct{ journal.View }

func (v withoutLastEventView) Events(s journal.Stream, from uint64, reverse bool, fn func(uint64, int64, journal.StoredEvent) bool) error {
	// Actors load their state in serve. Readers elsewhere see all events.
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

// withoutReceipts drops receipts for other homes, of a journal with four.
type withoutReceipts struct{ journal.Journal }

func (j withoutReceipts) Append(e *journal.Entry) {
	words := e.Effects[:0:0]
	for _, w := range e.Effects {
		if _, mark := w.(journal.RecordReceipt); !mark || layout.Homes(4).Same(w.Home(), e.Slot) {
			words = append(words, w)
		}
	}
	e.Effects = words
	j.Journal.Append(e)
}

// withoutFence shows what is there.
type withoutFence struct{ journal.Journal }

func (withoutFence) Fence(context.Context) error { return nil }

// withoutChanges reports no change.
type withoutChanges struct{ journal.Journal }

func (withoutChanges) Observe(journal.Observer) (stop func()) { return func() {} }

// repeatFirstEntry returns the first entry of a followed feed twice.
type repeatFirstEntry struct {
	journal.Journal
	now bool
}

func (j repeatFirstEntry) Follow(agent parley.AgentID, after uint64, notify func()) journal.Subscription {
	if j.now && after > 0 {
		after--
	}
	return j.Journal.Follow(agent, after, notify)
}

// clonableDisk is a crashable disk in memory that can be cloned during ReuseForWrite.
// The method of MemFS takes the lock that excludes clones twice.
type clonableDisk struct{ *vfs.MemFS }

func (d clonableDisk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return d.OpenReadWrite(newname, category)
}
