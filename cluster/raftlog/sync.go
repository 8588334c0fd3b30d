package raftlog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/disk"
)

const (
	// syncsMax is how many syncs are in flight. Each has a handle of its own on the
	// segment: the kernel reports an error of writing back once per handle, so each of
	// several syncs at the same time gets it.
	syncsMax = 4
	// aheadMax is how much of a segment is written with zeros at a time, at most one part
	// in aheadShare of it. One part in aheadLeast of that is left when the next is written.
	aheadMax   = 256 << 10
	aheadShare = 16
	aheadLeast = 4
	// pointBytes is the distance of two points, so what is read in vain to find an entry.
	pointBytes = 64 << 10
	// witnessEvery is the minimum pause between two writes of the witness.
	witnessEvery = 50 * time.Millisecond

	segmentSuffix = ".raftlog"
)

var zeros [aheadMax]byte

// segment is a file of the log.
type segment struct {
	number uint64
	path   string
	last   uint64 // index when the segment began
	until  uint64 // number of its last record, 0 for the last segment
	bytes  int64  // size of its file, 0 for the last segment
}

// point says that the entries from first on lie at or behind an offset of a segment,
// until another point says otherwise.
type point struct {
	first, segment uint64
	at             int64
}

// tail is the segment that is being written.
type tail struct {
	segment
	files  [syncsMax]vfs.File
	seed   uint32
	head   disk.Head // of its last record
	end    int64     // where the next record goes
	zeroed int64     // up to where the file has been written
}

func segmentName(number uint64) string { return fmt.Sprintf("%016x%s", number, segmentSuffix) }

// Sync returns once a turn and all before it are durable. Up to four syncs are in flight;
// further callers share the next ones.
func (l *Log) Sync(turn uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	turn = min(turn, l.appended)
	for l.err == nil && l.durable < turn {
		handle := slices.Index(l.inUse[:], false)
		if turn <= l.claimed || handle < 0 {
			l.changed.Wait()
			continue
		}
		l.sync(handle)
	}
	return l.err
}

// sync writes and syncs what is pending. mu is held, but not while the disk works.
func (l *Log) sync(handle int) {
	l.inUse[handle], l.claimed = true, l.appended
	l.mu.Unlock()
	l.writing.Lock()
	err := writer{l}.write()
	l.mu.Lock()
	turn, cut, head, file := l.written, l.before.cut.Index, l.tail.head, l.tail.files[handle]
	needless := err != nil || turn == l.started // another sync has begun that includes it
	if !needless {
		l.started = turn
		l.claimed = max(l.claimed, turn)
		l.syncing++
	}
	l.mu.Unlock()
	l.writing.Unlock()

	var remove bool
	if !needless {
		err = file.SyncData()
	}
	l.mu.Lock()
	l.inUse[handle] = false
	if !needless {
		l.syncing--
		l.stats.Syncs++
		remove = l.syncedTo(turn, head, cut, err)
	}
	l.changed.Broadcast()
	if remove {
		l.removeSegments()
	}
}

// syncedTo notes the outcome of a sync and reports whether segments can be removed. mu is
// held.
func (l *Log) syncedTo(turn uint64, head disk.Head, cut uint64, err error) (remove bool) {
	if err != nil {
		_ = l.fail(fmt.Errorf("%s cannot be synced: %w", l.segments[len(l.segments)-1].path, err))
		return false
	}
	if turn <= l.durable {
		return false
	}
	l.durable, l.synced, l.syncedCut = turn, head, max(l.syncedCut, cut)
	l.witness.Note(head)
	if !l.keeping && l.err == nil {
		l.keeping = true
		l.keeper.Go(l.keepWitness)
	}
	return !l.removing && l.removable() > 0
}

// writer writes records to segments. Its callers hold writing.
type writer struct{ *Log }

// write writes what is pending.
func (l writer) write() error {
	l.mu.Lock()
	p, synced, err := l.pending, l.synced.Number, l.err
	l.pending = batch{b: l.spare.b[:0], starts: l.spare.starts[:0]}
	l.spare = batch{}
	turn := l.appended
	l.writingLast = l.state.last
	l.mu.Unlock()
	if err == nil && len(p.starts) > 0 {
		err = l.writeBatch(p, synced)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		return l.fail(err)
	}
	l.written, l.writtenLast = turn, l.writingLast
	l.cache.shrink(l.o.CacheBytes, l.writtenLast)
	if int64(cap(p.b)) <= 2*l.o.PendingBytes { // a huge record does not keep its memory
		l.spare = p
	}
	return nil
}

func (l writer) writeBatch(p batch, synced uint64) error {
	if l.tail.end >= l.o.SegmentBytes {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	t := &l.tail
	for i, s := range p.starts {
		end := len(p.b)
		if i+1 < len(p.starts) {
			end = p.starts[i+1].at
		}
		t.head = frame(p.b[s.at:end], t.head, synced, t.seed)
	}
	at := t.end
	if err := t.write(p.b); err != nil {
		return err
	}
	t.writeAhead(l.o.SegmentBytes)
	l.before = p.after
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats.Writes++
	l.stats.Bytes += uint64(len(p.b))
	l.tailBytes = t.zeroed
	for _, s := range p.starts {
		l.addPoint(point{s.first, t.number, at + int64(s.at)})
	}
	return nil
}

func (t *tail) write(b []byte) error {
	if _, err := t.files[0].WriteAt(b, t.end); err != nil {
		return fmt.Errorf("%s cannot be written: %w", t.path, err)
	}
	t.end += int64(len(b))
	t.zeroed = max(t.zeroed, t.end)
	return nil
}

// writeAhead writes zeros behind the last record if little space is left that was written
// before. It may fail: then the segment grows as records are written.
func (t *tail) writeAhead(segmentBytes int64) {
	chunk := min(aheadMax, segmentBytes/aheadShare)
	if t.zeroed-t.end >= chunk/aheadLeast {
		return
	}
	if more := min(chunk, segmentBytes-t.zeroed); more > 0 {
		n, _ := t.files[0].WriteAt(zeros[:more], t.zeroed)
		t.zeroed += int64(n)
	}
}

func (t *tail) close() error {
	var errs []error
	for _, f := range t.files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	t.files = [syncsMax]vfs.File{}
	return errors.Join(errs...)
}

// addPoint notes where a record with entries was written. mu is held.
func (l writer) addPoint(p point) {
	if p.first == 0 {
		return
	}
	n := len(l.points)
	for n > 0 && l.points[n-1].first >= p.first {
		n--
	}
	l.points = l.points[:n]
	if n == 0 || l.points[n-1].segment != p.segment || p.at-l.points[n-1].at >= pointBytes {
		l.points = append(l.points, p)
	}
}

// rotate begins the next segment when the present one is durable.
func (l writer) rotate() error {
	l.mu.Lock()
	for l.syncing > 0 && l.err == nil {
		l.changed.Wait()
	}
	err := l.err
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if err := l.tail.files[0].SyncData(); err != nil {
		return fmt.Errorf("%s cannot be synced: %w", l.tail.path, err)
	}
	if err := l.tail.close(); err != nil {
		return err
	}
	return l.begin(l.tail.number+1, l.tail.head)
}

// begin makes a segment and writes its base.
func (l writer) begin(number uint64, head disk.Head) error {
	s := segment{number: number, path: l.o.FS.PathJoin(l.o.Dir, segmentName(number)), last: l.before.last}
	l.tail = tail{segment: s, seed: seedOf(l.o.ID, number)}
	for i := range l.tail.files {
		f, err := l.o.FS.OpenReadWrite(s.path, disk.RaftLog)
		if err != nil {
			return errors.Join(err, l.tail.close())
		}
		l.tail.files[i] = f
	}
	err := disk.SyncDirectory(l.o.FS, l.o.Dir)
	if err == nil {
		b := l.before.append(make([]byte, headerBytes))
		l.tail.head = frame(b, head, head.Number, l.tail.seed)
		err = l.tail.write(b)
	}
	if err != nil {
		return errors.Join(err, l.tail.close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.segments); n > 0 {
		l.segments = slices.Clone(l.segments) // readers use the former one
		l.segments[n-1].until = head.Number
		if l.tailBytes > 0 { // else it was there when the log was opened
			l.segments[n-1].bytes = l.tailBytes
		}
	}
	l.segments = append(l.segments, s)
	l.stats.Bytes += uint64(l.tail.end)
	l.tailBytes = l.tail.zeroed
	return nil
}

// removable is how many segments hold nothing but cut entries, durably. mu is held.
func (l *Log) removable() int {
	n := 0
	for n+1 < len(l.segments) && l.segments[n+1].last <= l.syncedCut {
		n++
	}
	return n
}

// removeSegments removes them, oldest first, so that no crash leaves a gap. mu is held, but
// not while the disk works.
func (l *Log) removeSegments() {
	n := l.removable()
	gone := l.segments[:n]
	l.segments = slices.Clone(l.segments[n:])
	kept := slices.IndexFunc(l.points, func(p point) bool { return p.segment >= l.segments[0].number })
	if kept < 0 {
		kept = len(l.points)
	}
	l.points = slices.Clone(l.points[kept:])
	l.removing = true
	l.mu.Unlock()
	var err error
	for _, s := range gone {
		if err = l.o.FS.Remove(s.path); err == nil {
			err = disk.SyncDirectory(l.o.FS, l.o.Dir)
		}
		if err != nil {
			break
		}
	}
	l.mu.Lock()
	l.removing = false
	if err != nil {
		_ = l.fail(err)
	}
}

// keepWitness writes the witness until it is up to date.
func (l *Log) keepWitness() {
	for {
		noted := l.witness.Latest()
		err := l.witness.Write()
		pause := time.NewTimer(witnessEvery)
		select {
		case <-l.closing:
		case <-pause.C:
		}
		pause.Stop()
		l.mu.Lock()
		if err != nil {
			_ = l.fail(fmt.Errorf("the witness cannot be written: %w", err))
		}
		if l.err != nil || noted == l.witness.Latest() {
			l.keeping = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

// isSegment returns the number in the name of a segment.
func isSegment(name string) (number uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	_, err := fmt.Sscanf(digits, "%x", &number)
	return number, ok && err == nil && name == segmentName(number)
}
