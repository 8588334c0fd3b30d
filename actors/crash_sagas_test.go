package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
	"parley/journal"
	"parley/persistence/crashtest"
)

// errCut is the error of all entries after the cut.
var errCut = errors.New("the process is dead")

// entryLimit passes a given number of entries to the journal. At the next entry the
// process ends as far as its actors are concerned; the journal completes the entries
// that it has.
type entryLimit struct {
	journal.Journal
	mu   sync.Mutex
	left int
	cut  bool
}

func (c *entryLimit) Append(e *journal.Entry) {
	c.mu.Lock()
	dead := c.left == 0
	c.cut = c.cut || dead
	if !dead {
		c.left--
	}
	c.mu.Unlock()
	switch {
	case !dead:
		c.Journal.Append(e)
	case e.Release != nil:
		e.Release(errCut)
	}
}

// allow passes n more entries.
func (c *entryLimit) allow(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.cut = n, false
}

func (c *entryLimit) wasCut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

// saga is an operation that takes several entries, of several actors or homes.
type saga struct {
	name string
	// prepare runs before the saga. do is cut off after each of its entries.
	prepare, do func(*client)
	// later is set if something is left to do after a restart; crash images are taken
	// then, too.
	later bool
}

var sagas = []saga{
	{name: "registration", prepare: func(*client) {}, do: func(c *client) { c.registerOrg("acme") }},
	{name: "creation", prepare: func(c *client) { c.registerOrg("acme") }, do: func(c *client) { c.create(c.orgs[0], "alice") }},
	{name: "creations of one name", prepare: func(c *client) { c.registerOrg("acme") }, do: func(c *client) { c.create(c.orgs[0], "alice"); c.create(c.orgs[0], "alice") }},
	{name: "revocation", prepare: (*client).prepareOrg, do: func(c *client) {
		c.changeAgent(0, agent.Revoke{}, func(s *agent.State) { s.RevokedMs, s.PollTokenHash = 1, nil })
	}, later: true},
	{name: "rotation", prepare: (*client).prepareOrg, do: func(c *client) {
		c.changeAgent(0, agent.RotateKeys{Signing: numbered(7)}, func(s *agent.State) { s.SigningKey = numbered(7) })
		c.changeAgent(0, agent.IssuePollToken{Hash: numbered(8)}, func(s *agent.State) { s.PollTokenHash = numbered(8) })
	}},
	{name: "credentials", prepare: (*client).prepareOrg, do: func(c *client) { c.credentials(c.orgs[0]) }},
	{name: "send", prepare: (*client).prepareOrg, do: (*client).sendTwice},
	{name: "reply", prepare: func(c *client) { c.prepareOrg(); c.sendTwice() }, do: (*client).replyTwice},
	{name: "status", prepare: func(c *client) { c.prepareOrg(); c.sendTwice(); c.replyTwice() }, do: func(c *client) { c.moveTo(c.pool[0], "completed") }},
	{name: "marks", prepare: func(c *client) { c.prepareOrg(); c.sendTwice() }, do: func(c *client) { c.page(c.active[1], true); c.page(c.active[1], true) }},
}

// registerOrg registers an organization, step by step.
func (c *client) registerOrg(slug string) {
	note(c.workload, &c.slugs, slug)
	if hard, ok := c.requestChallenge(slug, 250); ok {
		c.solve(hard, slug)
	}
	if id, ok := c.requestChallenge(slug, 0); ok {
		c.solve(id, slug)
		c.solve(id, slug)
	}
}

// prepareOrg creates an organization with two agents.
func (c *client) prepareOrg() {
	c.registerOrg("acme")
	c.create(c.orgs[0], "alice")
	c.create(c.orgs[0], "bob")
}

// changeAgent changes an agent, if it exists.
func (c *client) changeAgent(n int, command agent.Command, alter func(*agent.State)) {
	a := c.active[n]
	before, err := c.node().Agents.Get(context.Background(), a.id)
	if !c.answered(err) {
		return
	}
	next := proto.CloneOf(before)
	alter(next)
	c.mu.Lock()
	a.versions = append(a.versions, fingerprint(next))
	c.mu.Unlock()
	if now, err := c.node().Agents.Change(context.Background(), a.id, command); c.answered(err) {
		c.sawAgent(now)
	}
}

// sendTwice sends under a key, and then repeats the request.
func (c *client) sendTwice() {
	from, to := c.active[0], c.active[1]
	s := direct(from.owner, from.id, to.id, "1:hello", "k1")
	note(c.workload, &c.attempts, attempt{attemptKey: attemptKey{from: s.From, key: s.Key}, send: s})
	c.post(s)
	c.post(s)
}

// replyTwice replies to the first message under a key, and then repeats the request.
func (c *client) replyTwice() {
	r := answerTo(c.orgs[0], c.pool[0], "2:hello yourself", "k2")
	note(c.workload, &c.attempts, attempt{attemptKey: attemptKey{r.From, r.Conversation, r.Key}, reply: r})
	c.reply(r)
	c.reply(r)
}

// run executes one saga, cut off after a number of entries, and checks the crash
// images. It reports whether there was anything to cut off.
func (s saga) run(t testing.TB, v *crashResult, journals, drawn, passing int, wrap func(journal.Journal) journal.Journal) bool {
	t.Helper()
	w := newWorkload(t, journals)
	if v.brief {
		w.patience = 100 * time.Millisecond
	}
	for range drawn { // so that the parties have other homes
		w.entropy()
	}
	knife := &entryLimit{left: -1}
	mem := vfs.NewCrashableMem()
	live := func(do func(disk *crashtest.Disk, c *client)) {
		disk := crashtest.NewDisk(mem, crashDir, uint64(passing), w.claimed)
		v.checkImages(w, disk, func() {
			w.running = w.unopenedNode()
			w.running.fs, w.running.wrap = disk.FS(), func(j journal.Journal) journal.Journal { knife.Journal = wrap(j); return journal.Of(knife) }
			disk.Record(s.later && knife.left >= 0)
			if err := w.running.start(crashDir); err != nil {
				t.Fatal(err)
			}
			do(disk, &client{workload: w, rng: rand.New(rand.NewPCG(uint64(drawn), uint64(passing)))})
			if err := w.running.stop(); err != nil {
				t.Error(err)
			}
		})
	}
	live(func(disk *crashtest.Disk, c *client) {
		s.prepare(c)
		disk.Record(true)
		knife.allow(passing)
		s.do(c)
		if s.later {
			mem = disk.Lose(0)
		}
	})
	cut := knife.wasCut()
	if s.later {
		knife.allow(passing)
		live(func(*crashtest.Disk, *client) { time.Sleep(10 * time.Millisecond) })
	}
	v.addAnswers(w)
	return cut
}

// TestSagasSurviveACrashAfterAnyEntry ends the process after each entry of each saga,
// and fails the power at every later change of the disk. After a restart the saga is
// complete everywhere or nowhere.
func TestSagasSurviveACrashAfterAnyEntry(t *testing.T) {
	skipUnderRace(t)
	for _, homes := range []struct{ journals, drawn int }{{1, 0}, {4, 0}, {4, 1}, {4, 2}} {
		if homes.drawn > 0 && testing.Short() || homes.drawn > 1 && !*exhaustive {
			continue
		}
		t.Run(fmt.Sprintf("%d journals, %d drawn", homes.journals, homes.drawn), func(t *testing.T) {
			t.Parallel()
			v := &crashResult{}
			entries := 0
			all := sagas
			if homes.drawn == 0 || *exhaustive {
				all = slices.Concat(sagas, groupSagas)
			}
			for _, s := range all {
				passing := 0
				for s.run(t, v, homes.journals, homes.drawn, passing, unchanged) {
					passing++
				}
				if passing == 0 {
					t.Errorf("%s appends no entry", s.name)
				}
				entries += passing
			}
			t.Logf("%d entries of %d sagas", entries, len(all))
			v.check(t)
		})
	}
}

// unchanged returns the journal as it is.
func unchanged(j journal.Journal) journal.Journal { return j }

// effectDropper removes effects of one kind from entries.
type effectDropper struct {
	journal.Journal
	drops journal.Effect
}

func (j effectDropper) Append(e *journal.Entry) {
	e.Effects = slices.DeleteFunc(e.Effects, func(w journal.Effect) bool { return reflect.TypeOf(w) == reflect.TypeOf(j.drops) })
	j.Journal.Append(e)
}

// ignoringErrors is a test that ignores unexpected answers.
type ignoringErrors struct{ testing.TB }

func (ignoringErrors) Errorf(string, ...any) {}

// TestSagaControls removes one effect of each saga: the image check must report it.
func TestSagaControls(t *testing.T) {
	skipUnderRace(t)
	for _, forgets := range []journal.Effect{journal.AppendFeed{}, journal.RecordReceipt{}, journal.EnqueueFor{}, journal.PutRow{}, journal.AddToList{}, journal.CreateStream{}, journal.Fanout{}} {
		t.Run(fmt.Sprintf("%T", forgets), func(t *testing.T) {
			v := &crashResult{brief: true}
			for _, s := range slices.Concat(sagas, groupSagas) {
				if v.broken == 0 {
					s.run(ignoringErrors{t}, v, 1, 0, -1, func(j journal.Journal) journal.Journal { return journal.Of(effectDropper{j, forgets}) })
				}
			}
			if v.broken == 0 {
				t.Errorf("%v, but nothing was found missing", v.tally)
			}
		})
	}
}
