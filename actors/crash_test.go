package actors

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/crashtest"
)

// crashTrial is a world that lives several lives on one disk, each ended in
// order or by a loss of power. What alters it breaks a promise on purpose.
type crashTrial struct {
	journals, lives, rounds int
	seed                    uint64
	wrap                    func(journal.Journal) journal.Journal
	keep                    func(*persistence.Options)
}

// crashVerdict is what came of trials.
type crashVerdict struct {
	tally   crashtest.Tally
	claims  int
	answers map[string]int
	// broken images, and what was wrong with the first few.
	broken int
	faults []string
	// brief verdicts are made when one loss was seen.
	brief bool
}

func (v *crashVerdict) add(i crashtest.Image, faults []string) {
	if len(faults) == 0 {
		return
	}
	v.broken++
	for _, f := range faults[:min(len(faults), 5)] {
		if len(v.faults) < 20 {
			v.faults = append(v.faults, fmt.Sprintf("before %s, %d%% of the unsynced kept: %s", i.Op, i.Kept, f))
		}
	}
}

// lost reports whether something that a client had been told was missing.
func (v *crashVerdict) lost() bool { return strings.Contains(strings.Join(v.faults, "\n"), "lost:") }

// heard adds what came of a world.
func (v *crashVerdict) heard(w *crashWorld) {
	v.claims += w.told()
	if v.answers == nil {
		v.answers = map[string]int{}
	}
	for code, n := range w.answers {
		v.answers[code] += n
	}
}

// judge fails the test where images are broken.
func (v *crashVerdict) judge(t *testing.T) {
	t.Helper()
	t.Logf("%v; %d claims; answers: %v", v.tally, v.claims, v.answers)
	if v.broken > 0 {
		t.Errorf("%d of %d images are broken:\n%s", v.broken, v.tally.Distinct(), strings.Join(v.faults, "\n"))
	}
}

// film runs live on a disk under the camera and has every image inspected.
func (v *crashVerdict) film(w *crashWorld, disk *crashtest.Disk, live func()) {
	var mu sync.Mutex
	var inspecting sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		inspecting.Go(func() {
			for i := range disk.Images() {
				mu.Lock()
				enough := v.brief && v.lost()
				mu.Unlock()
				if enough {
					continue
				}
				faults := w.inspect(i)
				mu.Lock()
				v.add(i, faults)
				mu.Unlock()
			}
		})
	}
	live()
	v.tally.Add(disk.Stop())
	inspecting.Wait()
}

// run lives all lives.
func (x crashTrial) run(t *testing.T, v *crashVerdict) {
	t.Helper()
	w := newCrashWorld(t, x.journals)
	rng := rand.New(rand.NewPCG(x.seed, 7))
	mem := vfs.NewCrashableMem()
	for life := range x.lives {
		disk := crashtest.NewDisk(mem, crashDir, x.seed*10+uint64(life), w.told)
		lost, kept := rng.IntN(2) == 0, crashtest.Kept[rng.IntN(len(crashtest.Kept))]
		v.film(w, disk, func() {
			w.r = w.unopenedNode()
			w.r.fs, w.r.wrap = disk.FS(), x.wrap
			w.r.tuneStore = func(o *persistence.Options) {
				small(o)
				if x.keep != nil {
					x.keep(o)
				}
			}
			if err := w.r.start(crashDir); err != nil {
				t.Fatal(err)
			}
			if life == 0 {
				(&client{crashWorld: w, rng: rng}).meetRefusals()
			}
			w.work(x.rounds, x.seed*10+uint64(life))
			if lost {
				mem = disk.Lose(kept)
			}
			if err := w.r.stop(); err != nil {
				t.Error(err)
			}
		})
	}
	v.heard(w)
}

// unraced leaves a test to the runs without the race detector: it is long, and
// breaks promises on purpose.
func unraced(t *testing.T) {
	if raceDetector {
		t.Skip("this is tried without the race detector")
	}
}

// crashImages is how many images that differ each number of journals must survive.
func crashImages() int {
	switch {
	case raceDetector:
		return 60
	case testing.Short():
		return 150
	}
	return 1000
}

// unheard are the answers that nobody got, of those that must be tried:
// meetRefusals provokes each.
func (v *crashVerdict) unheard() (codes []string) {
	for _, code := range []string{"", "repeated", "slug_taken", "name_taken", "invalid_transition", "pow_invalid", "challenge_used", "gone", "quota_exceeded"} {
		if v.answers[code] == 0 {
			codes = append(codes, code)
		}
	}
	return codes
}

// TestCrash takes the disk away from real actors at every write, sync, rename,
// creation and removal: nothing that any answer has shown may be missing, what
// takes several homes is done everywhere or nowhere, and a key makes one message.
func TestCrash(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d journals", journals), func(t *testing.T) {
			v := &crashVerdict{}
			brief := testing.Short() || raceDetector
			x := crashTrial{journals: journals, lives: 3, rounds: 10}
			if brief {
				x.lives, x.rounds = 2, 4
			}
			for ; v.tally.Distinct() < crashImages() && v.broken < 20; x.seed++ {
				x.run(t, v)
			}
			if v.judge(t); brief {
				return // too little for all that follows
			}
			for _, kind := range []string{"log", "sst", "MANIFEST", "OPTIONS", "marker", "witness"} {
				if v.tally.Before[kind] == 0 {
					t.Errorf("no image was taken at a change of a file of the kind %s", kind)
				}
			}
			if codes := v.unheard(); len(codes) > 0 {
				t.Errorf("nobody was answered %q", codes)
			}
		})
	}
}

// hasty releases entries when they are visible, before they are durable.
type hasty struct{ journal.Journal }

func (j hasty) Append(e *journal.Entry) {
	release, applied := e.Release, e.Applied
	if release != nil {
		once := sync.Once{}
		e.Release = func(err error) { once.Do(func() { release(err) }) }
		e.Applied = func() {
			if applied != nil {
				applied()
			}
			e.Release(nil)
		}
	}
	j.Journal.Append(e)
}

// trusting has views that do not wait for the disk.
type trusting struct{ journal.Journal }

func (j trusting) View() journal.View   { return trustingView{j.Journal.View()} }
func (j trusting) Latest() journal.View { return trustingView{j.Journal.Latest()} }

type trustingView struct{ journal.View }

func (trustingView) Durable(context.Context) error { return nil }

// eager has streams that do not wait for the disk: whenever there is something
// new they show all rows that there are.
type eager struct{ journal.Journal }

func (j eager) Follow(id parley.AgentID, after uint64, notify func()) journal.Subscription {
	return &eagerStream{Subscription: j.Journal.Follow(id, after, notify), journal: j, agent: id, position: after}
}

type eagerStream struct {
	journal.Subscription
	journal  journal.Journal
	agent    parley.AgentID
	position uint64
}

func (s *eagerStream) Next(limit int) (entries []journal.FeedEntry, err error) {
	v := s.journal.View()
	defer v.Close()
	err = v.Feed(s.agent, s.position, ^uint64(0), func(e journal.FeedEntry) bool {
		entries = append(entries, e)
		s.position = e.Position
		return len(entries) < limit
	})
	return entries, err
}

// TestCrashControls breaks one promise at a time: the checker must see it.
func TestCrashControls(t *testing.T) {
	unraced(t)
	unsynced := func(o *persistence.Options) { o.Unsynced = true }
	for name, x := range map[string]crashTrial{
		"commits are not synced":                {journals: 1, keep: unsynced},
		"commits are not synced, four journals": {journals: 4, keep: unsynced},
		"readers do not wait for Durable":       {journals: 1, wrap: func(j journal.Journal) journal.Journal { return trusting{j} }},
		"streams do not wait":                   {journals: 1, wrap: func(j journal.Journal) journal.Journal { return eager{j} }},
		"answers leave before their sync":       {journals: 1, wrap: func(j journal.Journal) journal.Journal { return hasty{j} }},
		"answers leave, four journals":          {journals: 4, wrap: func(j journal.Journal) journal.Journal { return hasty{j} }},
	} {
		t.Run(name, func(t *testing.T) {
			v := &crashVerdict{brief: true}
			x.lives, x.rounds = 2, 12
			for x.seed = 0; x.seed < 10 && !v.lost(); x.seed++ {
				x.run(t, v)
			}
			if !v.lost() {
				t.Errorf("%v, %d of them broken, and no loss was seen", v.tally, v.broken)
			}
		})
	}
}
