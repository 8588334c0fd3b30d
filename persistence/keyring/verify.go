package keyring

import (
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/persistence/disk"
)

// Report is what Verify found.
type Report struct {
	// State is what the sound copies hold; the generation of a lost shard is 0. Compare
	// it with the durability witness.
	State disk.KeyringState
	// Files counts the files that were read, Live the keys and Erased the tombstones.
	Files, Live, Erased int
	// Findings are everything that is not right, by file.
	Findings []Finding

	tables  [Shards]table
	server  Key
	wrapper *wrapper // nil if the keyring was verified without a key
}

// KeyState returns whether an organization has a key. It is Unknown for all if the
// keyring was verified without a key.
func (r *Report) KeyState(org parley.OrgID) State {
	_, state := r.Key(org)
	return state
}

// Key returns an organization's key and state. The key is zero unless the state is Live.
func (r *Report) Key(org parley.OrgID) (key Key, state State) {
	state, value := r.tables[shardOf(org)].state(org)
	if state == Live {
		key = Key(value)
	}
	return key, state
}

// Carry adds the keys of changes that a keyring may not have written before a crash. Destructions
// are passed over: they are written at once.
func (r *Report) Carry(changes [][]byte) error {
	if r.wrapper == nil {
		return nil
	}
	for _, b := range changes {
		c, err := r.wrapper.decodeChange(b)
		if err != nil {
			return err
		}
		t := &r.tables[shardOf(c.org)]
		if state, _ := t.state(c.org); c.destroy || state != Unknown || t.records() == recordsMax {
			continue
		}
		*t = t.set(c.org, Live, c.key)
		r.Live++
	}
	return nil
}

// ServerKey is Keyring.ServerKey; zero if the keyring was verified without a key.
func (r *Report) ServerKey() Key { return r.server }

// Verify reads every file of the keyring in dir and changes nothing. The directory must
// not be open. What is wrong with single files or shards is in the report, for every one
// of them. The error is ErrWrappingKey, disk.ErrDamaged if there is nothing to report
// about, such as a missing directory, or that of the file system. With a nil wrapping it
// compares checksums only, and counts no keys. A nil fsys is the
// operating system's.
func Verify(fsys vfs.FS, dir string, wrapping []byte) (*Report, error) {
	fsys = orDefault(fsys)
	var w *wrapper
	if wrapping != nil {
		made, err := newWrapper(wrapping)
		if err != nil {
			return nil, err
		}
		w = &made
	}
	x, err := examine(disk.ReadOnlyFS{FS: fsys}, dir, w)
	if err != nil {
		return nil, err
	}
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	r := &Report{State: x.state, tables: x.tables, server: x.server, wrapper: w}
	for _, name := range names {
		switch {
		case fileNames[name]:
			r.Files++
		case !isUnfinished(name):
			x.findings = append(x.findings, Finding{File: name, Reason: "it is not a file of a keyring, and is left alone", Ignored: true})
		}
	}
	for _, t := range x.tables {
		r.Live += t.count(Live)
		r.Erased += t.count(Erased)
	}
	r.Findings = x.findings
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return strings.Compare(a.File, b.File) })
	return r, nil
}
