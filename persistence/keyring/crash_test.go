package keyring

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/persistence/crashtest"
	"parley/persistence/disk"
)

// promise is what a caller was told: from then on it must hold.
type promise struct {
	org        parley.OrgID
	state      State
	key        Key
	generation uint64 // of the shard, at the least
}

// history is what callers did and were promised.
type history struct {
	mu       sync.Mutex
	promises []promise
	// keys are those that Create returned, erasing the organizations whose key somebody
	// began to destroy.
	keys    map[parley.OrgID]Key
	erasing map[parley.OrgID]bool
}

func newHistory() *history {
	return &history{keys: map[parley.OrgID]Key{}, erasing: map[parley.OrgID]bool{}}
}

func (h *history) known() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.promises)
}

// create and destroy make a change and note the promise.
func (h *history) create(k *Keyring, org parley.OrgID) error {
	key, err := k.Create(org)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys[org] = key
	h.promises = append(h.promises, promise{org, Live, key, k.shard(org).acknowledged()})
	return nil
}

func (h *history) destroy(k *Keyring, org parley.OrgID) error {
	h.mu.Lock()
	h.erasing[org] = true
	h.mu.Unlock()
	if err := k.Destroy(org, testStart); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.promises = append(h.promises, promise{org, Erased, Key{}, k.shard(org).acknowledged()})
	return nil
}

func (s *shard) acknowledged() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.generation
}

// promised returns the first promises, and the keys that may have been stored.
func (h *history) promised(known int) (promises []promise, keys map[parley.OrgID]Key, erasing map[parley.OrgID]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys, erasing = map[parley.OrgID]Key{}, map[parley.OrgID]bool{}
	for org, key := range h.keys {
		keys[org] = key
	}
	for org := range h.erasing {
		erasing[org] = true
	}
	return h.promises[:known:known], keys, erasing
}

// check opens what a power failure left. Every promise must hold, the files must not
// contain a key whose destruction was promised, and after the opening none that is
// destroyed.
func (h *history) check(t testing.TB, fsys *vfs.MemFS, known int) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	promises, keys, erasing := h.promised(known)
	files := contentsOf(t, readFiles(t, fsys, testDir))
	for _, p := range promises {
		if key, made := keys[p.org]; p.state == Erased && made {
			if name := files.reveal(key); name != "" {
				fault("revealed: %s holds a key whose destruction was acknowledged", name)
			}
		}
	}
	record, err := &disk.WitnessRecord{}, error(nil)
	if _, there := files[disk.WitnessName]; there {
		if record, err = disk.ReadWitness(fsys, testDir); err != nil {
			fault("lost: the witness: %v", err)
			return faults
		}
	}
	k, err := Open(fsys, testDir, testWrapping, Options{Witnessed: record.Keyring})
	if err != nil {
		fault("lost: %v", err)
		return faults
	}
	state := k.State()
	for _, p := range promises {
		key, now := k.Key(p.org)
		switch at, _ := k.ErasedAt(p.org); {
		case p.state == Live && now == Live && key == p.key:
		case p.state == Live && now == Erased && erasing[p.org]:
		case p.state == Erased && now == Erased && at.Equal(testStart):
		default:
			fault("lost: an organization in state %d was promised, it is in state %d", p.state, now)
		}
		if state.Generations[shardOf(p.org)] < p.generation {
			fault("lost: generation %d was acknowledged, it is %d", p.generation, state.Generations[shardOf(p.org)])
		}
	}
	// What the opening repaired is durable: what is erased now may be acknowledged.
	files = contentsOf(t, readFiles(t, fsys.CrashClone(vfs.CrashCloneCfg{}), testDir))
	if delete(files, disk.WitnessName); len(files) != 2*Shards {
		fault("%d files after the opening", len(files))
	}
	for org, key := range keys {
		if _, now := k.Key(org); now == Erased {
			if name := files.reveal(key); name != "" {
				fault("revealed: after the opening, %s holds a destroyed key", name)
			}
		}
	}
	return faults
}

// crashRun is a run of concurrent callers on a disk that may break a guarantee.
type crashRun struct {
	seed   uint64
	rounds int
	breaks func(vfs.FS) vfs.FS
	// nested: power fails during the openings too.
	nested bool
	// enough, if set, says when no further image needs a check.
	enough func() bool
}

// crashResult sums up the checks of many images.
type crashResult struct {
	mu       sync.Mutex
	tally    crashtest.Tally
	promises int
	nested   int
	faults   []string
}

func (v *crashResult) add(i crashtest.Image, faults []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range faults {
		v.faults = append(v.faults, fmt.Sprintf("before %s, %d%% of the unsynced kept: %s", i.Op, i.Kept, f))
	}
}

func (v *crashResult) saw(what string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return strings.Contains(strings.Join(v.faults, "\n"), what)
}

// crashOrgs are organizations of a few shards, so that changes meet. Shard 5 has a file
// of several blocks.
func crashOrgs() (orgs []parley.OrgID) {
	for i := range 24 {
		orgs = append(orgs, orgIn(byte(i%4*5), i))
	}
	return orgs
}

// crashBase is a keyring with some live organizations.
func crashBase(t testing.TB, h *history) map[string][]byte {
	t.Helper()
	fsys := vfs.NewMem()
	mustMake(t, fsys, testDir)
	k := mustOpen(t, fsys, testDir)
	for i := range 220 {
		mustCreate(t, k, orgIn(5, 1000+i))
	}
	for _, org := range crashOrgs()[:12] {
		if err := h.create(k, org); err != nil {
			t.Fatal(err)
		}
	}
	return readFiles(t, fsys, testDir)
}

func (x crashRun) run(t *testing.T, v *crashResult) {
	t.Helper()
	h := newHistory()
	mem := fsWith(t, crashBase(t, h))
	// The witness is in the directory that is imaged: images that differ in it only are
	// different.
	w, err := disk.MakeWitness(mem, testDir, disk.Head{})
	if err != nil {
		t.Fatal(err)
	}
	d := crashtest.NewDisk(mem, testDir, x.seed, h.known)
	var inspectors, workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		inspectors.Go(func() {
			for i := range d.Images() {
				if x.enough != nil && x.enough() || raceDetector && i.Number%10 != 0 {
					continue
				}
				if x.nested && !raceDetector && i.Number%25 == 0 {
					x.crashAgain(t, h, i, v)
				}
				v.add(i, h.check(t, i.FS, i.Known))
			}
		})
	}
	fsys := d.FS()
	if x.breaks != nil {
		fsys = x.breaks(fsys)
	}
	k := mustOpen(t, fsys, testDir)
	stop := x.witness(t, k, w, d.FS())
	orgs := crashOrgs()
	for worker := range uint64(3) {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(x.seed, worker))
			for range x.rounds {
				org, err := orgs[rng.IntN(len(orgs))], error(nil)
				if rng.IntN(3) == 0 {
					err = h.destroy(k, org)
				} else if _, state := k.Key(org); state != Erased {
					err = h.create(k, org)
				}
				if err != nil && !errors.Is(err, ErrErased) {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	stop()
	v.tally.Add(d.Stop())
	inspectors.Wait()
	v.promises += h.known()
}

// witness has a witness follow the keyring, and writes it again and again until stop.
func (x crashRun) witness(t *testing.T, k *Keyring, made *disk.Witness, fsys vfs.FS) (stop func()) {
	t.Helper()
	record, err := disk.ReadWitness(fsys, testDir)
	if err = errors.Join(err, made.Close()); err != nil {
		t.Fatal(err)
	}
	w, err := disk.OpenWitness(fsys, testDir, record)
	if err != nil {
		t.Fatal(err)
	}
	k.Follow(w)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if err := w.Write(); err != nil {
				t.Error(err)
			}
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		if err := w.Finish(); err != nil {
			t.Error(err)
		}
	}
}

// crashAgain fails the power at every change that the opening of an image makes.
func (x crashRun) crashAgain(t *testing.T, h *history, i crashtest.Image, v *crashResult) {
	mem := i.FS.CrashClone(vfs.CrashCloneCfg{})
	d := crashtest.NewDisk(mem, testDir, x.seed, func() int { return i.Known })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for again := range d.Images() {
			again.Op = i.Op + ", then " + again.Op
			v.add(again, h.check(t, again.FS, again.Known))
			v.mu.Lock()
			v.nested++
			v.mu.Unlock()
		}
	}()
	if _, err := Open(d.FS(), testDir, testWrapping, Options{}); err != nil {
		v.add(i, []string{"lost: " + err.Error()})
	}
	d.Stop()
	<-done
}

// TestCrash fails the power at every change of the disk while callers create and
// destroy keys.
func TestCrash(t *testing.T) {
	t.Parallel()
	images := 150
	if raceDetector {
		images = 40
	} else if *exhaustive {
		images = 2000
	}
	v := &crashResult{}
	for seed := uint64(0); v.tally.Distinct() < images; seed++ {
		crashRun{seed: seed, rounds: 12, nested: true}.run(t, v)
	}
	t.Logf("%v; %d promises, %d images of power failures during an opening", v.tally, v.promises, v.nested)
	if len(v.faults) > 0 {
		t.Errorf("%d faults:\n%s", len(v.faults), strings.Join(v.faults[:min(len(v.faults), 20)], "\n"))
	}
}

// unsyncedFile is a file, or a directory, whose syncs do nothing.
type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error     { return nil }
func (unsyncedFile) SyncData() error { return nil }

// The disks of the controls leave something out that the package relies on.
type (
	noDirectorySyncs struct{ vfs.FS }
	noFileSyncs      struct{ vfs.FS }
	noSecondCopies   struct{ vfs.FS }
)

func (d noDirectorySyncs) OpenDir(path string) (vfs.File, error) {
	f, err := d.FS.OpenDir(path)
	return unsyncedFile{f}, err
}

func (d noFileSyncs) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(path, category)
	return unsyncedFile{f}, err
}

func (d noSecondCopies) Rename(from, to string) error {
	if strings.HasSuffix(to, copies[1]) {
		return d.Remove(from)
	}
	return d.FS.Rename(from, to)
}

// TestCrashControls breaks one guarantee at a time: the checks must notice.
func TestCrashControls(t *testing.T) {
	unraced(t)
	t.Parallel()
	for name, c := range map[string]struct {
		breaks func(vfs.FS) vfs.FS
		sees   []string
	}{
		"the directory is not synced":     {func(d vfs.FS) vfs.FS { return noDirectorySyncs{d} }, []string{"lost: ", "revealed: ", "was acknowledged: an old file is in its place"}},
		"files are not synced":            {func(d vfs.FS) vfs.FS { return noFileSyncs{d} }, []string{"lost: "}},
		"the second copy stays as it was": {func(d vfs.FS) vfs.FS { return noSecondCopies{d} }, []string{"revealed: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &crashResult{}
			all := func() bool {
				for _, what := range c.sees {
					if !v.saw(what) {
						return false
					}
				}
				return true
			}
			for seed := uint64(0); seed < 10 && !all(); seed++ {
				crashRun{seed: seed, rounds: 12, breaks: c.breaks, enough: all}.run(t, v)
			}
			if !all() {
				t.Errorf("%v, %d faults, and not all of %q were seen", v.tally, len(v.faults), c.sees)
			}
		})
	}
}

// TestUnfinishedFilesAreRemoved: what a crash left of a rewrite that contained a key
// since destroyed is gone after the opening. The control leaves it.
func TestUnfinishedFilesAreRemoved(t *testing.T) {
	k, files := filled(t, 5, 3)
	key, _ := k.Key(orgIn(5, 1))
	old := files["05.a"]
	mustDestroy(t, k, orgIn(5, 1), time.Now())
	files = readFiles(t, k.fs, testDir)
	if name := revealed(t, files, key); name != "" {
		t.Errorf("%s holds the destroyed key", name)
	}
	files["05.b.tmp"] = old[:len(old)-40]
	if revealed(t, files, key) != "05.b.tmp" {
		t.Error("control: the unfinished file does not hold the key")
	}
	fsys := fsWith(t, files)
	mustOpen(t, fsys, testDir)
	for _, kept := range []int{0, 100} {
		left := fsys.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rand.New(rand.NewPCG(1, 1))})
		if name := revealed(t, readFiles(t, left, testDir), key); name != "" {
			t.Errorf("after the opening, %s holds the destroyed key", name)
		}
	}
}
