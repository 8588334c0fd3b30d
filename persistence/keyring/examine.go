package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/disk"
)

// Finding is something that is not right in the directory of a keyring.
type Finding struct {
	// File is a file's name, or a shard, such as 3f, if the finding is about both
	// copies.
	File string
	// Reason says what is wrong. It contains no key.
	Reason string
	// Fatal findings keep the keyring from being opened: keys are lost, or a file is not
	// this keyring's.
	Fatal bool
	// Ignored findings are about files that are not a keyring's: nothing touches them. All
	// other findings that are not fatal are repaired when the keyring is opened.
	Ignored bool
}

func (f Finding) String() string { return f.File + ": " + f.Reason }

// reader reads the files of one keyring.
type reader struct {
	fs  vfs.FS
	dir string
	// keyring is the identity that most files have.
	keyring [identityBytes]byte
	// wrapper opens the files; nil if only checksums are compared. wrapped is its id.
	wrapper *wrapper
	wrapped [identityBytes]byte
}

// newReader finds out which keyring a directory holds. The errors are ErrDamaged,
// ErrWrappingKey and those of the file system.
func newReader(fsys vfs.FS, dir string, w *wrapper) (*reader, error) {
	r := &reader{fs: fsys, dir: dir, wrapper: w}
	if _, err := fsys.List(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: the keyring %s is missing", disk.ErrDamaged, dir)
	} else if err != nil {
		return nil, err
	}
	counts, all := map[header]int{}, 0
	for name := range fileNames {
		b, reason, err := readFile(fsys, fsys.PathJoin(dir, name), int64(headerBytes))
		if err != nil {
			return nil, err
		}
		if h, ok := readHeader(b); ok && reason == nil {
			counts[header{keyring: h.keyring, wrapped: h.wrapped}]++
			all++
		}
	}
	if all == 0 {
		return nil, fmt.Errorf("%w: no file of the keyring %s can be read", disk.ErrDamaged, dir)
	}
	keyrings := map[[identityBytes]byte]int{}
	for h, n := range counts {
		if keyrings[h.keyring] += n; keyrings[h.keyring] > all/2 {
			r.keyring = h.keyring
		}
	}
	if keyrings[r.keyring] <= all/2 {
		return nil, fmt.Errorf("%w: the files in %s are of several keyrings", disk.ErrDamaged, dir)
	}
	if w == nil {
		return r, nil
	}
	var err error
	if r.wrapped, err = w.id(r.keyring); err != nil {
		return nil, err
	}
	if counts[header{keyring: r.keyring, wrapped: r.wrapped}] == 0 {
		return nil, fmt.Errorf("the keyring %s: %w", dir, ErrWrappingKey)
	}
	return r, nil
}

// readFile reads a file, or its first bytes up to most. The reason is why the file is of
// no use: it is missing, or the disk cannot read it. All other failures, such as a
// missing permission, say nothing about the file: they are err.
func readFile(fsys vfs.FS, path string, most int64) (b []byte, reason, err error) {
	b, err = func() ([]byte, error) {
		f, err := disk.OpenRegular(fsys, path)
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(io.LimitReader(f, most))
		return b, errors.Join(err, f.Close())
	}()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("it is missing"), nil
	case errors.Is(err, disk.ErrNotRegular):
		return nil, disk.ErrNotRegular, nil
	case errors.Is(err, syscall.EIO):
		return nil, fmt.Errorf("it cannot be read: %w", syscall.EIO), nil
	}
	return b, nil, err
}

// shardCopy is what one file of a shard holds.
type shardCopy struct {
	header
	raw    []byte
	server Key
	table  table
	// reason is why the copy is not used, nil if it can be.
	reason error
	// foreign: it is a sound file of another keyring.
	foreign bool
}

// shardCopies are both files of a shard.
type shardCopies struct {
	copies [2]shardCopy
	// best is the copy with the newest generation, nil if none is sound.
	best *shardCopy
	// conflict: two sound copies of one generation differ in content.
	conflict bool
}

// readShard reads and compares the copies of a shard.
func (r *reader) readShard(shard byte) (*shardCopies, error) {
	s := &shardCopies{}
	for i := range s.copies {
		c := &s.copies[i]
		var err error
		if c.raw, c.reason, err = readFile(r.fs, r.fs.PathJoin(r.dir, fileName(shard, i)), int64(fileBytesMax)+1); err != nil {
			return nil, err
		}
		if c.reason == nil {
			r.judge(c, shard)
		}
	}
	a, b := &s.copies[0], &s.copies[1]
	switch {
	case a.reason != nil && b.reason != nil:
		return s, nil
	case a.reason != nil:
		s.best = b
	case b.reason != nil:
		s.best = a
	case a.generation > b.generation:
		s.best, b.reason = a, outdated(b, a)
	case b.generation > a.generation:
		s.best, a.reason = b, outdated(a, b)
	default:
		s.best = a
		s.conflict = r.wrapper != nil && (a.server != b.server || !bytes.Equal(a.table, b.table))
	}
	return s, nil
}

func outdated(old, current *shardCopy) error {
	return fmt.Errorf("it has generation %d, the other copy %d", old.generation, current.generation)
}

// judge checks a copy by itself.
func (r *reader) judge(c *shardCopy, shard byte) {
	if len(c.raw) > fileBytesMax {
		c.reason = errors.New("it is larger than any shard")
		return
	}
	if c.header, c.reason = parseFile(c.raw); c.reason != nil {
		return
	}
	switch {
	case c.keyring != r.keyring:
		c.foreign, c.reason = true, errors.New("it belongs to another keyring")
	case c.shard != shard:
		c.reason = fmt.Errorf("it is a file of shard %02x", c.shard)
	case r.wrapper != nil && c.wrapped != r.wrapped:
		c.reason = errors.New("it was sealed under another wrapping key")
	case r.wrapper != nil:
		c.server, c.table, c.reason = r.wrapper.open(c.header, c.raw)
	}
}

// examination is what all files of a directory say. Nothing was changed.
type examination struct {
	*reader
	server Key
	tables [Shards]table
	state  disk.KeyringState
	// worn are the shards with a copy to rewrite, unfinished the files to remove.
	worn       []byte
	unfinished []string
	// foreign: there are sound files of another keyring.
	foreign  bool
	findings []Finding
}

// examine reads a keyring's directory. Without a wrapper it compares checksums only.
func examine(fsys vfs.FS, dir string, w *wrapper) (*examination, error) {
	r, err := newReader(fsys, dir, w)
	if err != nil {
		return nil, err
	}
	x := &examination{reader: r, state: disk.KeyringState{Identity: r.keyring}}
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	if hasUnfinished(fsys, dir) {
		x.found(fsys.PathBase(beside(fsys, dir)), false, errors.New("the making of a directory was interrupted"))
	}
	for _, name := range names {
		if isUnfinished(name) {
			x.unfinished = append(x.unfinished, name)
			x.found(name, false, errors.New("its writing was interrupted"))
		}
	}
	served := false
	for i := range Shards {
		shard := byte(i)
		s, err := r.readShard(shard)
		if err != nil {
			return nil, err
		}
		x.note(shard, s)
		if s.best == nil {
			continue
		}
		if served && s.best.server != x.server {
			x.found(fmt.Sprintf("%02x", shard), true, errors.New("its server key is not that of the other shards"))
			x.worn = append(x.worn, shard)
		}
		x.server, served = s.best.server, true
		x.tables[i], x.state.Generations[i] = s.best.table, s.best.generation
	}
	return x, nil
}

// note adds what is wrong with a shard to the findings.
func (x *examination) note(shard byte, s *shardCopies) {
	bad := 0
	for i := range s.copies {
		if c := &s.copies[i]; c.reason != nil {
			bad++
			x.foreign = x.foreign || c.foreign
			x.found(fileName(shard, i), c.foreign, c.reason)
		}
	}
	switch {
	case s.conflict:
		x.found(fmt.Sprintf("%02x", shard), true, fmt.Errorf("its copies have generation %d and different content", s.best.generation))
		x.worn = append(x.worn, shard)
	case s.best == nil:
		x.found(fmt.Sprintf("%02x", shard), true, errors.New(lostShard))
	case bad > 0:
		x.worn = append(x.worn, shard)
	}
}

func (x *examination) found(file string, fatal bool, reason error) {
	x.findings = append(x.findings, Finding{File: file, Reason: reason.Error(), Fatal: fatal})
}

// reasonsMax is how many findings an error quotes.
const reasonsMax = 8

// lostShard is the reason of the finding about a shard without a sound copy.
const lostShard = "both copies are unusable; the keys of its organizations are lost"

// fatal returns an ErrDamaged that names what keeps the keyring from being opened, nil
// if nothing does. For a lost shard it includes what is wrong with either copy.
func (x *examination) fatal() error {
	var shards, reasons []string
	for _, f := range x.findings {
		if f.Fatal && !slices.Contains(shards, f.File[:2]) {
			shards = append(shards, f.File[:2])
		}
	}
	if len(shards) == 0 {
		return nil
	}
	for _, shard := range shards {
		reasons = append(reasons, x.reasonsOf(shard)...)
	}
	more := ""
	if n := len(reasons) - reasonsMax; n > 0 {
		reasons, more = reasons[:reasonsMax], fmt.Sprintf("; and %d more", n)
	}
	named := "shard " + shards[0]
	if len(shards) > 1 {
		named = fmt.Sprintf("%s and %d more", named, len(shards)-1)
	}
	return fmt.Errorf("%w: %s of the keyring %s: %s%s", disk.ErrDamaged, named, x.dir, strings.Join(reasons, "; "), more)
}

// reasonsOf returns what an error says about a shard: one reason if both copies are
// unusable, otherwise one for each finding.
func (x *examination) reasonsOf(shard string) []string {
	var reasons []string
	lost := false
	for _, f := range x.findings {
		switch {
		case f.File[:2] != shard:
		case f.Reason == lostShard:
			lost = true
		default:
			reasons = append(reasons, f.String())
		}
	}
	if lost {
		return []string{"both copies are unusable (" + strings.Join(reasons, "; ") + "); the keys of its organizations are lost"}
	}
	return reasons
}

// repair rewrites the copies that are missing, damaged or older than the other one, and
// removes unfinished files. Then no file holds what a newer generation has destroyed.
func (x *examination) repair() error {
	if err := removeUnfinished(x.fs, x.dir, x.unfinished); err != nil {
		return err
	}
	for _, shard := range x.worn {
		s, err := x.readShard(shard)
		if err != nil {
			return err
		}
		if s.best == nil || s.conflict || s.best.generation != x.state.Generations[shard] {
			return fmt.Errorf("shard %02x of the keyring %s changes while it is read", shard, x.dir)
		}
		for i := range s.copies {
			if s.copies[i].reason == nil {
				continue
			}
			if err := replaceFile(x.fs, x.dir, fileName(shard, i), s.best.raw); err != nil {
				return err
			}
		}
	}
	if len(x.worn) == 0 {
		return nil
	}
	return disk.SyncDirectory(x.fs, x.dir)
}
