// Package crashtest simulates power failures. Its disk is in memory and records,
// before every change, an image of what a power failure at that moment would leave.
// Tests check the images themselves.
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

// Kept are the percentages of unsynced data that images keep.
var Kept = []int{0, 30, 50, 90}

// Image is a disk after a power failure.
type Image struct {
	// Op is the change before which the power failed.
	Op string
	// Kept is the percentage of unsynced blocks and directory entries that survived.
	Kept int
	FS   *vfs.MemFS
	// Known is the value that the function known of NewDisk returned before the failure.
	// Equal images are merged and have the Known of the last, which must hold everything
	// that the earlier ones must.
	Known int
	// Number counts distinct images.
	Number int
}

// Disk is a disk in memory that records images of one directory.
type Disk struct {
	mem    *vfs.MemFS
	dir    string
	seed   maphash.Seed
	known  func() int
	images chan Image

	mu     sync.Mutex
	paused bool
	rng    *rand.Rand
	held   map[uint64]*Image // of the last change, not sent yet
	tally  Tally
}

// Tally counts images.
type Tally struct {
	// Taken are all images. Alike are those equal to another one of the same or the last
	// change: they are checked together.
	Taken, Alike int
	// Before counts the changes that were recorded, by kind of file.
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

// Distinct is the number of distinct images.
func (t Tally) Distinct() int { return t.Taken - t.Alike }

func (t Tally) String() string {
	return fmt.Sprintf("%d images (%d of them like another) before %v", t.Taken, t.Alike, t.Before)
}

// NewDisk records images of mem, on which dir exists or will exist. known counts
// what clients have been promised; it is called before each image.
func NewDisk(mem *vfs.MemFS, dir string, seed uint64, known func() int) *Disk {
	return &Disk{
		mem: mem, dir: dir, seed: maphash.MakeSeed(), known: known, images: make(chan Image, 64),
		rng: rand.New(rand.NewPCG(seed, 1)), held: map[uint64]*Image{}, tally: Tally{Before: map[string]int{}},
	}
}

// FS is the file system to write to.
func (d *Disk) FS() vfs.FS { return errorfs.Wrap(reusing{d.mem}, (*recorder)(d)) }

// Record starts or pauses recording.
func (d *Disk) Record(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paused = !on
}

// Images returns the images, until Stop. Writers wait for the receiver.
func (d *Disk) Images() <-chan Image { return d.images }

// Stop sends the last images and closes the channel. The disk must not be written after
// it.
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

// Lose returns the disk after a power failure, to continue with.
func (d *Disk) Lose(kept int) *vfs.MemFS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: d.rng})
}

// Mem returns the disk itself, to continue with.
func (d *Disk) Mem() *vfs.MemFS { return d.mem }

// takeImage records the current state.
func (d *Disk) takeImage() {
	_ = (*recorder)(d).MaybeError(errorfs.Op{Kind: errorfs.OpFileSync, Path: "the end"})
}

// syncTakes is the duration of a sync. Clients continue meanwhile, which reveals a store
// that answers before the sync.
const syncTakes = 300 * time.Microsecond

// recorder is the Disk in its role as an injector of errorfs.
type recorder Disk

func (c *recorder) String() string { return "recorder" }

// MaybeError records images before a change of the disk.
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

// sum hashes all names and bytes in the directory.
func (d *Disk) sum(mem *vfs.MemFS) (sum uint64) {
	return d.sumOf(mem, d.dir)
}

func (d *Disk) sumOf(mem *vfs.MemFS, dir string) (sum uint64) {
	names, err := mem.List(dir)
	if err != nil {
		return 0 // the directory does not exist yet
	}
	for _, name := range names {
		name := mem.PathJoin(dir, name)
		if info, err := mem.Stat(name); err == nil && info.IsDir() {
			sum += d.sumOf(mem, name)
			continue
		}
		data, _ := mem.UnsafeGetFileDataBuffer(name)
		h := maphash.Hash{}
		h.SetSeed(d.seed)
		_, _ = h.WriteString(name)
		_ = h.WriteByte(0)
		_, _ = h.Write(data)
		sum += h.Sum64() | 1 // independent of the order of names
	}
	return sum
}

// changing are the operations that change what a power failure leaves.
var changing = map[errorfs.OpKind]string{
	errorfs.OpCreate: "creating", errorfs.OpLink: "linking", errorfs.OpRemove: "removing", errorfs.OpRemoveAll: "removing",
	errorfs.OpRename: "renaming", errorfs.OpReuseForWrite: "reusing", errorfs.OpMkdirAll: "making",
	errorfs.OpFileWrite: "writing", errorfs.OpFileWriteAt: "writing in", errorfs.OpFileSync: "syncing", errorfs.OpFileSyncData: "syncing",
}

// kindOf returns the kind of a file, from its name; that of the keyring's files is their
// directory.
func kindOf(path string) string {
	if strings.Contains(path, "/keyring/") {
		return "keyring"
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	if dot := strings.LastIndexByte(name, '.'); dot > 0 && !strings.HasPrefix(name, "marker.") {
		return name[dot+1:]
	}
	if end := strings.IndexAny(name, "-."); end > 0 {
		return name[:end]
	}
	return name
}

// reusing replaces ReuseForWrite of the disk in memory. The original acquires the clone
// lock twice, and deadlocks if a clone is made in between.
type reusing struct{ *vfs.MemFS }

func (d reusing) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return d.OpenReadWrite(newname, category)
}
