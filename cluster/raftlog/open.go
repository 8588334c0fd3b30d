package raftlog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"go.etcd.io/raft/v3/raftpb"

	"parley/persistence/disk"
)

// Open opens a log, or makes one. It reads all segments, drops what was not synced when
// the process or the power failed, and begins a new segment. If something that was synced
// is missing the error wraps disk.ErrDamaged and names the file.
func Open(o Options) (*Log, error) {
	r, err := read(o)
	if err != nil {
		return nil, err
	}
	l := r.log
	if n := len(l.segments); n > 0 {
		if err := syncFile(l.o, l.segments[n-1].path); err != nil {
			return nil, err
		}
		if l.witness, err = disk.OpenWitness(l.o.FS, o.Dir, r.record); err != nil {
			return nil, err
		}
	} else if err := l.make(); err != nil {
		return nil, err
	}
	if err := l.start(r); err != nil {
		return nil, errors.Join(err, l.tail.close(), l.witness.Close())
	}
	return l, nil
}

// Contents is what a log holds.
type Contents struct {
	// Records are those that Open would keep.
	Records uint64
	// Cut is the entry up to which the log was cut, Last the newest one.
	Cut, Last Position
}

// Verify finds what Open would keep, changes nothing, and fails as Open does. Nothing else
// may have the log open.
func Verify(o Options) (c Contents, err error) {
	o.setDefaults()
	o.FS, o.New = disk.ReadOnlyFS{FS: o.FS}, false
	r, err := read(o)
	if err != nil {
		return c, err
	}
	last := r.log.state.last
	return Contents{r.records, r.log.state.cut(), Position{last, r.log.state.term(last)}}, nil
}

// Entries calls visit with the entries behind an index of a log that nothing has open, in order,
// and returns the first index that the log holds. It changes nothing.
func Entries(o Options, after uint64, visit func(*raftpb.Entry) error) (first uint64, err error) {
	o.setDefaults()
	o.FS, o.New = disk.ReadOnlyFS{FS: o.FS}, false
	r, err := read(o)
	if err != nil {
		return 0, err
	}
	return r.log.visit(after, visit)
}

// read reads all segments of a log. It has none, if it is new.
func read(o Options) (*replay, error) {
	o.setDefaults()
	segments, err := list(o)
	if err != nil {
		return nil, err
	}
	l := &Log{o: o, closing: make(chan struct{})}
	l.changed.L = &l.mu
	r := &replay{log: l, next: 1}
	if r.record, err = l.readWitness(len(segments) > 0); err != nil {
		return nil, err
	}
	r.witnessed = r.record.Head
	if n := len(segments); n > 0 {
		r.next = segments[n-1].number + 1
		if err := r.run(segments); err != nil {
			return nil, err
		}
	}
	if len(l.segments) > 0 {
		return r, nil
	}
	// No opening was ever completed: the log has given no promise.
	if r.witnessed.Number > 0 {
		return nil, fmt.Errorf("%w: %s: there are no segments, record %d was acknowledged", disk.ErrDamaged, o.Dir, r.witnessed.Number)
	}
	if !o.New {
		return nil, fmt.Errorf("%w in %s", ErrNone, o.Dir)
	}
	return r, nil
}

// list returns the segments in the directory, in order.
func list(o Options) ([]segment, error) {
	names, err := o.FS.List(o.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var segments []segment
	for _, name := range names {
		if number, ok := isSegment(name); ok {
			segments = append(segments, segment{number: number, path: o.FS.PathJoin(o.Dir, name)})
		}
	}
	slices.SortFunc(segments, func(a, b segment) int { return cmp.Compare(a.number, b.number) })
	return segments, nil
}

// readWitness reads the witness. It is made before the first segment, so it may only be
// missing without any.
func (l *Log) readWitness(required bool) (*disk.WitnessRecord, error) {
	record, err := disk.ReadWitness(l.o.FS, l.o.Dir)
	if err != nil && !required {
		return &disk.WitnessRecord{}, nil
	}
	return record, err
}

// make makes the directory and the witness of a new log.
func (l *Log) make() (err error) {
	if err := disk.MakeDirectory(l.o.FS, l.o.Dir); err != nil {
		return err
	}
	l.state = newState(summary{})
	l.cache.first = 1
	l.witness, err = disk.MakeWitness(l.o.FS, l.o.Dir, disk.Head{})
	return err
}

// start removes a segment that was never completed, and begins one that is durable
// before anything is appended.
func (l *Log) start(r *replay) error {
	for _, s := range r.unborn {
		if err := l.o.FS.Remove(s.path); err != nil {
			return err
		}
	}
	l.before, l.synced, l.syncedCut = l.state.summary(), r.head, l.state.cut().Index
	l.writtenLast = l.state.last
	if err := (writer{l}).begin(r.next, r.head); err != nil {
		return err
	}
	if err := l.tail.files[0].SyncData(); err != nil {
		return err
	}
	l.synced = l.tail.head
	l.witness.Note(l.synced)
	if err := l.witness.Write(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removeSegments()
	return l.err
}

// replay reads a log.
type replay struct {
	log       *Log
	record    *disk.WitnessRecord
	witnessed disk.Head // in the record
	head      disk.Head // of the last record
	records   uint64
	// next is the number for a new segment.
	next uint64
	// unborn is the last segment if its base never became durable.
	unborn []segment
}

// run reads all segments.
func (r *replay) run(segments []segment) error {
	bases := make([]stored, len(segments))
	summaries := make([]summary, len(segments))
	for i, s := range segments {
		file, err := openReader(r.log.o.FS, s, r.log.o.ID)
		if err != nil {
			return err
		}
		base, begun, ok, err := file.base()
		if err = errors.Join(err, file.close()); err == nil && !ok && i < len(segments)-1 {
			err = file.damaged("the first record cannot be read")
		}
		switch {
		case err != nil:
			return err
		case !ok:
			r.unborn = segments[i:]
			segments = segments[:i]
		default:
			bases[i], summaries[i] = base, begun
			segments[i].last, segments[i].bytes = begun.last, file.size
			if i > 0 {
				segments[i-1].until = base.prior.Number
			}
		}
	}
	r.log.segments = segments
	for i := range segments {
		if err := r.segment(i, bases[i], summaries[i]); err != nil {
			return err
		}
	}
	for _, s := range r.unborn {
		if err := r.check(s, 0); err != nil {
			return err
		}
	}
	if len(segments) == 0 {
		return nil
	}
	st := &r.log.state
	if r.head.Number < r.witnessed.Number {
		return fmt.Errorf("%w: %s ends at record %d, record %d was acknowledged", disk.ErrDamaged, segments[len(segments)-1].path, r.head.Number, r.witnessed.Number)
	}
	if st.cut().Index+1 < st.have {
		return fmt.Errorf("%w: %s: the segments before it are missing, with entries from %d to %d", disk.ErrDamaged, segments[0].path, st.cut().Index+1, st.have-1)
	}
	return nil
}

// segment reads one segment with a known base.
func (r *replay) segment(i int, base stored, begun summary) error {
	l := r.log
	s := l.segments[i]
	if i == 0 {
		l.state, l.cache.first, r.head = newState(begun), begun.last+1, base.prior
	} else if base.prior != r.head || begun != l.state.summary() {
		return fmt.Errorf("%w: %s does not follow record %d of %s", disk.ErrDamaged, s.path, r.head.Number, l.segments[i-1].path)
	}
	file, err := openReader(l.o.FS, s, l.o.ID)
	if err != nil {
		return err
	}
	for err == nil && (s.until == 0 || r.head.Number < s.until) {
		at := file.at
		rec, ok, failed := file.next()
		if err = failed; err != nil {
			break
		}
		if !ok || rec.prior != r.head {
			file.at = at
			if s.until > 0 {
				err = file.damaged(fmt.Sprintf("record %d cannot be read, record %d was synced", r.head.Number+1, s.until))
			}
			break
		}
		if err = r.apply(rec, s, at); err != nil {
			file.at = at
			err = file.damaged(err.Error())
		}
	}
	at := file.at
	err = errors.Join(err, file.close())
	if err == nil && i == len(l.segments)-1 {
		err = r.check(s, at)
	}
	return err
}

// apply takes a record at an offset of a segment into account.
func (r *replay) apply(rec stored, s segment, at int64) error {
	l := r.log
	r.head = rec.head
	r.records++
	if r.head.Number == r.witnessed.Number && r.head != r.witnessed {
		return fmt.Errorf("record %d is not the one that was acknowledged", r.head.Number)
	}
	if at == 0 {
		return nil // the base
	}
	t, err := decodeTurn(rec.payload)
	if err == nil {
		err = l.state.apply(t)
	}
	if err != nil {
		return err
	}
	l.cache.add(t)
	l.cache.shrink(l.o.CacheBytes, l.state.last)
	writer{l}.addPoint(point{t.first, s.number, at})
	return nil
}

// check finds out whether a record that cannot be read, or is missing, at an offset of the
// last segment was synced.
func (r *replay) check(s segment, at int64) error {
	file, err := openReader(r.log.o.FS, s, r.log.o.ID)
	if err != nil {
		return err
	}
	file.at = at
	synced, err := file.proven(r.head.Number)
	if err == nil && max(synced, r.witnessed.Number) > r.head.Number {
		err = file.damaged(fmt.Sprintf("record %d cannot be read, record %d was acknowledged", r.head.Number+1, max(synced, r.witnessed.Number)))
	}
	return errors.Join(err, file.close())
}

// syncFile makes durable what was read from a file: after a crash of the process it may
// be in the memory of the kernel only.
func syncFile(o Options, path string) error {
	f, err := o.FS.OpenReadWrite(path, disk.RaftLog)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
