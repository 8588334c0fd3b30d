package actors

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/crashtest"
)

// crashScenario is a workload with several lives on one disk, each ended by a shutdown
// or a power failure. A control's wrap or tuneStore breaks a guarantee.
type crashScenario struct {
	journals, lives, rounds int
	seed                    uint64
	wrap                    func(journal.Journal) journal.Journal
	tuneStore               func(*persistence.Options)
}

// crashResult sums up all crash images of a test.
type crashResult struct {
	tally   crashtest.Tally
	claims  int
	answers map[string]int
	// broken counts faulty images; faults describes the first few.
	broken int
	faults []string
	// brief skips the remaining images once one loss was found.
	brief bool
}

func (v *crashResult) add(i crashtest.Image, faults []string) {
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

// lost reports whether something was missing that a client had been shown.
func (v *crashResult) lost() bool { return strings.Contains(strings.Join(v.faults, "\n"), "lost:") }

// addAnswers adds the answers and claims of a workload.
func (v *crashResult) addAnswers(w *workload) {
	v.claims += w.claimed()
	if v.answers == nil {
		v.answers = map[string]int{}
	}
	for code, n := range w.answers {
		v.answers[code] += n
	}
}

// check fails the test if images are broken.
func (v *crashResult) check(t *testing.T) {
	t.Helper()
	t.Logf("%v; %d claims; answers: %v", v.tally, v.claims, v.answers)
	if v.broken > 0 {
		t.Errorf("%d of %d images are broken:\n%s", v.broken, v.tally.Distinct(), strings.Join(v.faults, "\n"))
	}
}

// checkImages calls live on a recording disk and has every image checked.
func (v *crashResult) checkImages(w *workload, disk *crashtest.Disk, live func()) {
	var mu sync.Mutex
	var inspecting sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		inspecting.Go(func() {
			for i := range disk.Images() {
				mu.Lock()
				enough := v.brief && v.lost()
				mu.Unlock()
				if enough || raceDetector && i.Number%8 != 0 { // the race detector is for what runs before
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

// run executes all lives.
func (x crashScenario) run(t *testing.T, v *crashResult) {
	t.Helper()
	w := newWorkload(t, x.journals)
	rng := rand.New(rand.NewPCG(x.seed, 7))
	mem := vfs.NewCrashableMem()
	for life := range x.lives {
		disk := crashtest.NewDisk(mem, crashDir, x.seed*10+uint64(life), w.claimed)
		lost, kept := rng.IntN(2) == 0, crashtest.Kept[rng.IntN(len(crashtest.Kept))]
		v.checkImages(w, disk, func() {
			w.running = w.unopenedNode()
			w.running.fs, w.running.wrap = disk.FS(), x.wrap
			w.running.tuneStore = func(o *persistence.Options) {
				smallFiles(o)
				if x.tuneStore != nil {
					x.tuneStore(o)
				}
			}
			if err := w.running.start(crashDir); err != nil {
				t.Fatal(err)
			}
			if life == 0 {
				(&client{workload: w, rng: rng}).provokeRefusals()
			}
			w.work(x.rounds, x.seed*10+uint64(life))
			if lost {
				mem = disk.Lose(kept)
			}
			if err := w.running.stop(); err != nil {
				t.Error(err)
			}
		})
	}
	v.addAnswers(w)
}

// skipUnderRace skips, if the race detector is on, a long test that breaks guarantees on
// purpose or in which few goroutines meet.
func skipUnderRace(t *testing.T) {
	if raceDetector {
		t.Skip("runs only without the race detector")
	}
}

var exhaustive = flag.Bool("exhaustive", false, "check 6,000 images of power failures, passivate 20,000 actors, cut sagas wherever the parties may live")

// crashImages returns how many distinct images each number of journals must survive.
func crashImages() int {
	switch {
	case raceDetector:
		return 60
	case *exhaustive:
		return 3000
	case testing.Short():
		return 150
	}
	return 450
}

// missingAnswers returns the refusals of provokeRefusals that no client received.
func (v *crashResult) missingAnswers() (codes []string) {
	for _, code := range []string{"", "repeated", "slug_taken", "name_taken", "invalid_transition", "pow_invalid", "challenge_used", "gone", "quota_exceeded"} {
		if v.answers[code] == 0 {
			codes = append(codes, code)
		}
	}
	return codes
}

// TestCrash fails the power of a node at every write, sync, rename, creation and
// removal. Nothing that an answer has shown may be missing, sagas are complete
// everywhere or nowhere, and a key creates one message.
func TestCrash(t *testing.T) {
	for _, journals := range []int{1, 4} {
		if raceDetector && journals == 1 {
			continue
		}
		t.Run(fmt.Sprintf("%d journals", journals), func(t *testing.T) {
			v := &crashResult{}
			brief := testing.Short() || raceDetector
			x := crashScenario{journals: journals, lives: 3, rounds: 10}
			if brief {
				x.lives, x.rounds = 2, 4
			}
			for ; v.tally.Distinct() < crashImages() && v.broken < 20; x.seed++ {
				x.run(t, v)
			}
			if v.check(t); brief {
				return // too few images for the checks below
			}
			for _, kind := range []string{"log", "sst", "blob", "MANIFEST", "OPTIONS", "marker", "witness"} {
				if v.tally.Before[kind] == 0 {
					t.Errorf("no image was taken at a change of a %s file", kind)
				}
			}
			if codes := v.missingAnswers(); len(codes) > 0 {
				t.Errorf("no client received %q", codes)
			}
		})
	}
}

// releaseEarly releases entries when they are visible, before they are durable.
type releaseEarly struct{ journal.Journal }

func (j releaseEarly) Append(e *journal.Entry) {
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

// undurableReads returns views that do not wait for the disk.
type undurableReads struct{ journal.Journal }

func (j undurableReads) View() journal.View {
	return journal.ViewOf(undurableReadsView{j.Journal.View()})
}

func (j undurableReads) Latest() journal.View {
	return journal.ViewOf(undurableReadsView{j.Journal.Latest()})
}

type undurableReadsView struct{ journal.View }

func (undurableReadsView) Durable(context.Context) error { return nil }

// undurableStreams returns streams that do not wait for the disk: they return all
// visible rows.
type undurableStreams struct{ journal.Journal }

func (j undurableStreams) Follow(id parley.AgentID, after uint64, notify func()) journal.Subscription {
	return &undurableStream{Subscription: j.Journal.Follow(id, after, notify), journal: journal.Of(j), agent: id, position: after}
}

type undurableStream struct {
	journal.Subscription
	journal  journal.Journal
	agent    parley.AgentID
	position uint64
}

func (s *undurableStream) Next(limit int) (entries []journal.FeedEntry, err error) {
	v := s.journal.View()
	defer v.Close()
	err = v.Feed(s.agent, s.position, ^uint64(0), func(e journal.FeedEntry) bool {
		entries = append(entries, e)
		s.position = e.Position
		return len(entries) < limit
	})
	return entries, err
}

// TestCrashControls breaks one guarantee at a time: the image check must report it.
func TestCrashControls(t *testing.T) {
	skipUnderRace(t)
	unsynced := func(o *persistence.Options) { o.Unsynced = true }
	for name, x := range map[string]crashScenario{
		"commits are not synced":                {journals: 1, tuneStore: unsynced},
		"commits are not synced, four journals": {journals: 4, tuneStore: unsynced},
		"readers do not wait for Durable":       {journals: 1, wrap: func(j journal.Journal) journal.Journal { return journal.Of(undurableReads{j}) }},
		"streams do not wait":                   {journals: 1, wrap: func(j journal.Journal) journal.Journal { return journal.Of(undurableStreams{j}) }},
		"answers leave before their sync":       {journals: 1, wrap: func(j journal.Journal) journal.Journal { return journal.Of(releaseEarly{j}) }},
		"answers leave, four journals":          {journals: 4, wrap: func(j journal.Journal) journal.Journal { return journal.Of(releaseEarly{j}) }},
	} {
		t.Run(name, func(t *testing.T) {
			v := &crashResult{brief: true}
			x.lives, x.rounds = 2, 12
			for x.seed = 0; x.seed < 10 && !v.lost(); x.seed++ {
				x.run(t, v)
			}
			if !v.lost() {
				t.Errorf("%v, %d of them broken, but no loss was found", v.tally, v.broken)
			}
		})
	}
}
