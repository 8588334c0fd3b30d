// Package crashtest takes the disk away: a disk in memory of which an image is
// taken before every change, as a loss of power would leave it. What a test
// finds on the images it judges itself.
package crashtest

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Kept are the shares, in percent, of what was not synced that images keep.
var Kept = []int{0, 30, 50, 90}

// Image is a disk after a loss of power, and how much clients had been told
// before it.
type Image struct {
	// Op is the change before which power was lost.
	Op string
	// Kept is the share of unsynced blocks and directory entries that is there.
	Kept int
	FS   *vfs.MemFS
	// Known is what the camera's counter of claims showed. Of images that are
	// alike it is that of the last: it must hold all that the earlier ones must.
	Known int
	// Number counts the images that differ.
	Number int
}

// Disk is a disk in memory, for one directory, and the camera on it.
type Disk struct {
	mem    *vfs.MemFS
	dir    string
	seed   maphash.Seed
	known  func() int
	images chan Image

	mu     sync.Mutex
	paused bool
	rng    *rand.Rand
	held   map[uint64]*Image // of the last change, not handed out yet
	tally  Tally
}

// Tally counts images.
type Tally struct {
	// Taken are all images, Alike those of them that had the same bytes as
	// another of the same or of the last change and are inspected together.
	Taken, Alike int
	// Before counts the changes that were imaged, by the kind of file.
	Before map[string]int
}

// Add adds u to the tally.
func (t *Tally) Add(u Tally) {
	t.Taken, t.Alike = t.Taken+u.Taken, t.Alike+u.Alike
	if t.Before == nil {
		t.Before = map[string]int{}
	}
	for kind, n := range u.Before {
		t.Before[kind] += n
	}
}

// Distinct is how many images differ.
func (t Tally) Distinct() int { return t.Taken - t.Alike }

func (t Tally) String() string {
	return fmt.Sprintf("%d images (%d of them like another) before %v", t.Taken, t.Alike, t.Before)
}

// NewDisk puts a camera on mem, on which dir lies or will lie. known
// counts what clients have been told; it is asked before each image.
func NewDisk(mem *vfs.MemFS, dir string, seed uint64, known func() int) *Disk {
	return &Disk{
		mem: mem, dir: dir, seed: maphash.MakeSeed(), known: known, images: make(chan Image, 64),
		rng: rand.New(rand.NewPCG(seed, 1)), held: map[uint64]*Image{}, tally: Tally{Before: map[string]int{}},
	}
}

// FS is what is to be written to.
func (d *Disk) FS() vfs.FS { return errorfs.Wrap(reusing{d.mem}, (*recorder)(d)) }

// Record starts the camera, or has it take no images for a while.
func (d *Disk) Record(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paused = !on
}

// Images gives the images, until Stop. Whoever writes waits for whoever inspects.
func (d *Disk) Images() <-chan Image { return d.images }

// Stop hands out the last images and ends the film. Nothing is written any more.
func (d *Disk) Stop() Tally {
	d.takeImage()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.held {
		d.images <- *i
	}
	d.held = nil
	close(d.images)
	return d.tally
}

// Lose is the disk after a loss of power, for the next life.
func (d *Disk) Lose(kept int) *vfs.MemFS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: d.rng})
}

// Mem is the disk itself, for the next life.
func (d *Disk) Mem() *vfs.MemFS { return d.mem }

// takeImage takes an image as it is now.
func (d *Disk) takeImage() {
	_ = (*recorder)(d).MaybeError(errorfs.Op{Kind: errorfs.OpFileSync, Path: "the end"})
}

// syncTakes is how long a sync is waited for: clients go on meanwhile, and are
// shown what they must not be shown yet, if anybody does.
const syncTakes = 300 * time.Microsecond

// recorder is the disk as the file system that is written to sees it.
type recorder Disk

func (c *recorder) String() string { return "camera" }

// MaybeError takes images before a change of the disk.
func (c *recorder) MaybeError(op errorfs.Op) error {
	verb, changes := changing[op.Kind]
	if !changes {
		return nil
	}
	if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
		time.Sleep(syncTakes)
	}
	d := (*Disk)(c)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held == nil || d.paused {
		return nil
	}
	d.tally.Before[kindOf(op.Path)]++
	next := map[uint64]*Image{}
	for _, kept := range Kept {
		known := d.known()
		mem := d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: d.rng})
		d.tally.Taken++
		sum := d.sum(mem)
		switch earlier := d.held[sum]; {
		case next[sum] != nil:
			d.tally.Alike++
			next[sum].Known = known
		case earlier != nil:
			d.tally.Alike++
			earlier.Known = known
			next[sum] = earlier
		default:
			next[sum] = &Image{Op: verb + " " + op.Path, Kept: kept, FS: mem, Known: known, Number: d.tally.Distinct()}
		}
	}
	for sum, i := range d.held {
		if next[sum] == nil {
			d.images <- *i
		}
	}
	d.held = next
	return nil
}

// sum is of all names and bytes in the directory.
func (d *Disk) sum(mem *vfs.MemFS) (sum uint64) {
	names, err := mem.List(d.dir)
	if err != nil {
		return 0 // not there yet
	}
	for _, name := range names {
		data, _ := mem.UnsafeGetFileDataBuffer(mem.PathJoin(d.dir, name))
		h := maphash.Hash{}
		h.SetSeed(d.seed)
		_, _ = h.WriteString(name)
		_ = h.WriteByte(0)
		_, _ = h.Write(data)
		sum += h.Sum64() | 1 // in whatever order they are listed
	}
	return sum
}

// changing are the operations that change what a loss of power leaves.
var changing = map[errorfs.OpKind]string{
	errorfs.OpCreate: "creating", errorfs.OpLink: "linking", errorfs.OpRemove: "removing", errorfs.OpRemoveAll: "removing",
	errorfs.OpRename: "renaming", errorfs.OpReuseForWrite: "reusing", errorfs.OpMkdirAll: "making",
	errorfs.OpFileWrite: "writing", errorfs.OpFileWriteAt: "writing in", errorfs.OpFileSync: "syncing", errorfs.OpFileSyncData: "syncing",
}

// kindOf a file by its name.
func kindOf(path string) string {
	name := path[strings.LastIndexByte(path, '/')+1:]
	if dot := strings.LastIndexByte(name, '.'); dot > 0 && !strings.HasPrefix(name, "marker.") {
		return name[dot+1:]
	}
	if end := strings.IndexAny(name, "-."); end > 0 {
		return name[:end]
	}
	return name
}

// reusing is the disk in memory but for one call: its own ReuseForWrite takes
// the lock that keeps clones out twice, and stands still for ever when a clone
// asks for it in between.
type reusing struct{ *vfs.MemFS }

func (d reusing) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return d.OpenReadWrite(newname, category)
}
