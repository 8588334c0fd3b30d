package actors

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley"
	"parley/actors/agent"
	"parley/actors/rules"
	"parley/journal"
	"parley/persistence/crashtest"
)

// errCut is what becomes of entries after the cut.
var errCut = errors.New("the process is dead")

// cutter passes a number of entries on; with the next the process is dead as
// far as its actors are concerned. What the journal was given, it goes on with.
type cutter struct {
	journal.Journal
	mu      sync.Mutex
	passing int
	cut     bool
}

func (c *cutter) Append(e *journal.Entry) {
	c.mu.Lock()
	dead := c.passing == 0
	c.cut = c.cut || dead
	if !dead {
		c.passing--
	}
	c.mu.Unlock()
	switch {
	case !dead:
		c.Journal.Append(e)
	case e.Release != nil:
		e.Release(errCut)
	}
}

// pass lets so many more entries through.
func (c *cutter) pass(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passing, c.cut = n, false
}

func (c *cutter) wasCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

// saga is something that takes several entries, of several actors or homes.
type saga struct {
	name string
	// given is done before; when is cut after each of its entries.
	given, when func(*client)
	// later: something is left to do after a restart, which is filmed too.
	later bool
}

var sagas = []saga{
	{name: "registration", given: func(*client) {}, when: func(c *client) { c.found("acme") }},
	{name: "forgetting", given: func(*client) {}, when: func(c *client) { c.forget("acme") }},
	{name: "creation", given: func(c *client) { c.found("acme") }, when: func(c *client) { c.create(c.orgs[0], "alice") }},
	{name: "creations of one name", given: func(c *client) { c.found("acme") }, when: func(c *client) { c.create(c.orgs[0], "alice"); c.create(c.orgs[0], "alice") }},
	{name: "revocation", given: (*client).founded, when: func(c *client) {
		c.alter(0, agent.Revoke{}, func(s *agent.State) { s.RevokedMs, s.PollTokenHash = 1, nil })
	}, later: true},
	{name: "rotation", given: (*client).founded, when: func(c *client) {
		c.alter(0, agent.RotateKeys{Signing: numbered(7)}, func(s *agent.State) { s.SigningKey = numbered(7) })
		c.alter(0, agent.IssuePollToken{Hash: numbered(8)}, func(s *agent.State) { s.PollTokenHash = numbered(8) })
	}},
	{name: "credentials", given: (*client).founded, when: func(c *client) { c.credentials(c.orgs[0]) }},
	{name: "send", given: (*client).founded, when: (*client).opens},
	{name: "reply", given: func(c *client) { c.founded(); c.opens() }, when: (*client).replies},
	{name: "status", given: func(c *client) { c.founded(); c.opens(); c.replies() }, when: func(c *client) { c.moveTo(c.pool[0], "completed") }},
	{name: "marks", given: func(c *client) { c.founded(); c.opens() }, when: func(c *client) { c.page(c.active[1], true); c.page(c.active[1], true) }},
}

// found registers an organization, step by step.
func (c *client) found(slug string) {
	note(c.crashWorld, &c.slugs, slug)
	if hard, ok := c.issue(slug, 250); ok {
		c.solve(hard, slug)
	}
	if id, ok := c.issue(slug, 0); ok {
		c.solve(id, slug)
		c.solve(id, slug)
	}
}

// founded makes an organization with two agents.
func (c *client) founded() {
	c.found("acme")
	c.create(c.orgs[0], "alice")
	c.create(c.orgs[0], "bob")
}

// forget has the time come of a challenge that a former release stored.
func (c *client) forget(slug string) {
	s, due, err := formerly(c.node(), slug, parley.OrgID{})
	if !c.answered(err) {
		return
	}
	c.node().engine.Fire(s, due)
}

// alter changes an agent, if it is there.
func (c *client) alter(n int, command agent.Command, alter func(*agent.State)) {
	a := c.active[n]
	before, err := c.node().Agents.Get(context.Background(), a.id)
	if !c.answered(err) {
		return
	}
	next := rules.Clone(before, &agent.State{})
	alter(next)
	c.mu.Lock()
	a.versions = append(a.versions, fingerprint(next))
	c.mu.Unlock()
	if now, err := c.node().Agents.Change(context.Background(), a.id, command); c.answered(err) {
		c.sawAgent(now)
	}
}

// opens sends under a key, and then the same again.
func (c *client) opens() {
	from, to := c.active[0], c.active[1]
	s := direct(from.owner, from.id, to.id, "1:hello", "k1")
	note(c.crashWorld, &c.attempts, attempt{attemptKey: attemptKey{from: s.From, key: s.Key}, send: s})
	c.post(s)
	c.post(s)
}

// replies to the first message under a key, and then the same again.
func (c *client) replies() {
	r := answerTo(c.orgs[0], c.pool[0], "2:hello yourself", "k2")
	note(c.crashWorld, &c.attempts, attempt{attemptKey: attemptKey{r.From, r.Conversation, r.Key}, reply: r})
	c.reply(r)
	c.reply(r)
}

// run does one saga, cut after so many entries, on a disk under the camera; it
// reports whether there was anything to cut.
func (s saga) run(t testing.TB, v *crashVerdict, journals, drawn, passing int, wrap func(journal.Journal) journal.Journal) bool {
	t.Helper()
	w := newCrashWorld(t, journals)
	if v.brief {
		w.patience = 100 * time.Millisecond
	}
	for range drawn { // so that the parties live elsewhere
		w.entropy()
	}
	knife := &cutter{passing: -1}
	mem := vfs.NewCrashableMem()
	live := func(do func(disk *crashtest.Disk, c *client)) {
		disk := crashtest.NewDisk(mem, crashDir, uint64(passing), w.told)
		v.film(w, disk, func() {
			w.r = w.unopenedNode()
			w.r.fs, w.r.wrap = disk.FS(), func(j journal.Journal) journal.Journal { knife.Journal = wrap(j); return knife }
			disk.Record(s.later && knife.passing >= 0)
			if err := w.r.start(crashDir); err != nil {
				t.Fatal(err)
			}
			do(disk, &client{crashWorld: w, rng: rand.New(rand.NewPCG(uint64(drawn), uint64(passing)))})
			if err := w.r.stop(); err != nil {
				t.Error(err)
			}
		})
	}
	live(func(disk *crashtest.Disk, c *client) {
		s.given(c)
		disk.Record(true)
		knife.pass(passing)
		s.when(c)
		if s.later {
			mem = disk.Lose(0)
		}
	})
	cut := knife.wasCut()
	if s.later {
		knife.pass(passing)
		live(func(*crashtest.Disk, *client) { time.Sleep(10 * time.Millisecond) })
	}
	v.heard(w)
	return cut
}

var sagasEverywhere = flag.Bool("saga.everywhere", false, "cut the sagas of groups wherever the parties may live")

// TestSagasAreCutAnywhere kills the process after each entry of each saga, and
// at every change of the disk until the journal has dealt with it: after a
// restart it is finished everywhere, or was never begun.
func TestSagasAreCutAnywhere(t *testing.T) {
	for _, homes := range []struct{ journals, drawn int }{{1, 0}, {4, 0}, {4, 1}, {4, 2}} {
		if homes.drawn > 0 && (testing.Short() || raceDetector) || raceDetector && homes.journals == 1 {
			continue
		}
		t.Run(fmt.Sprintf("%d journals, %d drawn", homes.journals, homes.drawn), func(t *testing.T) {
			t.Parallel()
			v := &crashVerdict{}
			entries := 0
			all := sagas
			if homes.drawn == 0 && !raceDetector || *sagasEverywhere {
				all = slices.Concat(sagas, groupSagas)
			}
			for _, s := range all {
				passing := 0
				for s.run(t, v, homes.journals, homes.drawn, passing, whole) {
					passing++
				}
				if passing == 0 {
					t.Errorf("%s takes no entry", s.name)
				}
				entries += passing
			}
			t.Logf("%d entries of %d sagas", entries, len(all))
			v.judge(t)
		})
	}
}

// whole is a journal as it is.
func whole(j journal.Journal) journal.Journal { return j }

// mute leaves words of one kind out of the entries that it is given.
type mute struct {
	journal.Journal
	forgets journal.Effect
}

func (j mute) Append(e *journal.Entry) {
	e.Effects = slices.DeleteFunc(e.Effects, func(w journal.Effect) bool { return reflect.TypeOf(w) == reflect.TypeOf(j.forgets) })
	j.Journal.Append(e)
}

// lenient is a test that does not mind answers that nothing explains.
type lenient struct{ testing.TB }

func (lenient) Errorf(string, ...any) {}

// TestSagaControls leaves one part of sagas out: it must be seen to be missing.
func TestSagaControls(t *testing.T) {
	unraced(t)
	for _, forgets := range []journal.Effect{journal.AppendFeed{}, journal.RecordReceipt{}, journal.EnqueueFor{}, journal.PutRow{}, journal.AddToList{}, journal.CreateStream{}, journal.Fanout{}} {
		t.Run(fmt.Sprintf("%T", forgets), func(t *testing.T) {
			v := &crashVerdict{brief: true}
			for _, s := range slices.Concat(sagas, groupSagas) {
				if v.broken == 0 {
					s.run(lenient{t}, v, 1, 0, -1, func(j journal.Journal) journal.Journal { return mute{j, forgets} })
				}
			}
			if v.broken == 0 {
				t.Errorf("%v, and nothing is seen to be missing", v.tally)
			}
		})
	}
}
