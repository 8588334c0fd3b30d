package keyring

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/persistence/disk"
)

// Errors of keyrings. A keyring with a lost shard is disk.ErrDamaged.
var (
	// ErrWrappingKey: the keyring was sealed under another wrapping key. Nothing is
	// known about its keys.
	ErrWrappingKey = errors.New("the keyring is sealed under another key")
	// ErrErased: the organization's key was destroyed, and it never gets another.
	ErrErased = errors.New("the organization's key was destroyed")
	// ErrFull: a shard has as many records as it can hold.
	ErrFull = errors.New("the keyring is full")
	// ErrForeign: the directory of a backup holds the keyring of another data directory.
	ErrForeign = errors.New("the backup directory holds the keyring of another data directory")
	// ErrDiverged: the directory of a backup holds a newer state of this keyring, or
	// another one, as after two servers were started from one backup.
	ErrDiverged = errors.New("the backup directory holds keys that this keyring does not have")
)

// Options of Open. The zero value is valid.
type Options struct {
	// Random is the source of new keys; nil is the system's generator.
	Random io.Reader
	// Witnessed is what the durability witness records about the keyring, zero if it
	// records nothing. A keyring that lacks a part of it is not opened.
	Witnessed disk.KeyringState
}

// Keyring is an open keyring. Its methods may be called from any goroutine. Only one
// process may have a keyring open; that is for the caller to ensure.
type Keyring struct {
	shards
	fs       vfs.FS
	dir      string
	wrapper  wrapper
	header   header // of all files, but for shard and generation
	server   Key
	random   io.Reader
	repaired []Finding

	following sync.Mutex
	witness   *disk.Witness // nil until Follow
}

// shards are the shards of an open keyring, as readers of single keys see them.
type shards [Shards]shard

// Make creates a keyring without any organization: all shards, a new server key and a
// new identity. Either the whole directory is made, or none. If dir exists the error
// wraps fs.ErrExist. The wrapping key has WrappingKeyBytes. A nil random is the system's
// generator, a nil fsys the operating system's.
func Make(fsys vfs.FS, dir string, wrapping []byte, random io.Reader) error {
	var server Key
	if err := fill(server[:], orSystem(random)); err != nil {
		return err
	}
	return MakeAlike(fsys, dir, wrapping, server, random)
}

// MakeAlike is Make for a node that joins a cluster, with the cluster's server key.
func MakeAlike(fsys vfs.FS, dir string, wrapping []byte, server Key, random io.Reader) error {
	w, err := newWrapper(wrapping)
	if err != nil {
		return err
	}
	h := header{generation: 1}
	fsys, random = orDefault(fsys), orSystem(random)
	if err := fill(h.keyring[:], random); err != nil {
		return err
	}
	if h.wrapped, err = w.id(h.keyring); err != nil {
		return err
	}
	return writeDirectory(fsys, dir, func(shard byte) ([]byte, error) {
		h := h
		h.shard = shard
		return w.seal(h, server, nil)
	})
}

// fill fills b with random bytes. Zeros mean that there is no generator: the zero key and
// the zero identity stand for none.
func fill(b []byte, random io.Reader) error {
	_, err := io.ReadFull(random, b)
	if err == nil && zero(b) {
		err = errors.New("it returns zeros")
	}
	if err != nil {
		return fmt.Errorf("the source of random keys: %w", err)
	}
	return nil
}

func orDefault(fsys vfs.FS) vfs.FS {
	if fsys == nil {
		return vfs.Default
	}
	return fsys
}

func orSystem(random io.Reader) io.Reader {
	if random == nil {
		return rand.Reader
	}
	return random
}

// Open opens a keyring and repairs what one sound copy of each shard permits, which
// finishes interrupted rewrites. Repaired lists what it found.
//
// The error is disk.ErrDamaged, and names the shard, if a shard has no sound copy or is
// older than the witness records, if a file belongs to another keyring, or if there is
// no keyring in dir. It is ErrWrappingKey if the keyring was sealed under another key.
// After these errors the directory is as it was. A nil fsys is the operating system's.
func Open(fsys vfs.FS, dir string, wrapping []byte, o Options) (*Keyring, error) {
	fsys = orDefault(fsys)
	w, err := newWrapper(wrapping)
	if err != nil {
		return nil, err
	}
	x, err := examine(fsys, dir, &w)
	if err != nil {
		return nil, err
	}
	if err := x.fatal(); err != nil {
		return nil, err
	}
	if err := o.Witnessed.Check(x.state); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if err := x.repair(); err != nil {
		return nil, fmt.Errorf("repairing the keyring %s: %w", dir, err)
	}
	k := &Keyring{
		fs: fsys, dir: dir, wrapper: w, random: orSystem(o.Random), server: x.server,
		header: header{keyring: x.keyring, wrapped: x.wrapped}, repaired: x.findings,
	}
	for i := range k.shards {
		k.shards[i].open(byte(i), x.tables[i], x.state.Generations[i])
	}
	return k, nil
}

// Repaired lists what Open found and repaired: copies that were damaged or missing, and
// those that a crash left.
func (k *Keyring) Repaired() []Finding { return k.repaired }

// ServerKey returns a secret that belongs to no organization. It was made with the
// keyring and never changes.
func (k *Keyring) ServerKey() Key { return k.server }

// Key returns an organization's key and state. The key is zero unless the state is Live.
// A state is shown once it is durable, and a key of CarryUnsynced at once.
func (all *shards) Key(org parley.OrgID) (key Key, state State) {
	s := all.shard(org)
	s.mu.RLock()
	defer s.mu.RUnlock()
	state, value := s.seen.state(org)
	if state == Live {
		key = Key(value)
	}
	return key, state
}

// ErasedAt returns the instant at which an organization's key was destroyed, in UTC, in
// whole milliseconds, or false if it was not.
func (all *shards) ErasedAt(org parley.OrgID) (time.Time, bool) {
	s := all.shard(org)
	s.mu.RLock()
	defer s.mu.RUnlock()
	state, value := s.seen.state(org)
	if state != Erased {
		return time.Time{}, false
	}
	return instant(value), true
}

// Erased returns the organizations whose keys were destroyed, in no order.
func (all *shards) Erased() (erased []parley.OrgID) {
	for i := range all {
		s := &all[i]
		s.mu.RLock()
		erased = s.seen.erased(erased)
		s.mu.RUnlock()
	}
	return erased
}

// Create makes a key for an organization, which is durable when Create returns. If the
// organization has a key, Create returns that one. The error is ErrErased if its key was
// destroyed, ErrFull, or that of the file system: then the key may exist or not, and
// Create can be repeated.
func (k *Keyring) Create(org parley.OrgID) (Key, error) {
	key, state := k.Key(org)
	if state == Unknown {
		if err := k.change(change{org: org}); err != nil {
			return Key{}, err
		}
		key, state = k.Key(org)
	}
	switch state {
	case Erased:
		return Key{}, ErrErased
	case Unknown:
		return Key{}, ErrFull
	}
	return key, nil
}

// Destroy replaces an organization's key by a tombstone with an instant. When it returns
// nil, no file of the directory contains the key. An organization without a key gets the
// tombstone too; one that is erased keeps its first. After an error, which is ErrFull or
// that of the file system, the key may be destroyed or not, and Destroy can be repeated.
//
// Blocks that files occupied on the medium are the file system's: it may keep their
// bytes until it uses them again. They are sealed under the wrapping key.
func (k *Keyring) Destroy(org parley.OrgID, at time.Time) error {
	if _, state := k.Key(org); state == Erased {
		return nil
	}
	err := k.change(change{org: org, destroy: true, at: at})
	if _, state := k.Key(org); err == nil && state != Erased {
		return ErrFull
	}
	return err
}

// State is what is durable now.
func (k *Keyring) State() disk.KeyringState {
	state := disk.KeyringState{Identity: k.header.keyring}
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.RLock()
		state.Generations[i] = s.generation
		s.mu.RUnlock()
	}
	return state
}

// Follow has a witness record what is durable: all of it now, and later changes before
// Create and Destroy return. The witness is written later, so its file may say less than
// is durable, never more. A later call replaces w.
func (k *Keyring) Follow(w *disk.Witness) {
	k.following.Lock()
	defer k.following.Unlock()
	k.witness = w
	w.NoteKeyring(k.State())
}

// note notifies the witness about a shard whose new generation State returns already.
func (k *Keyring) note(shard byte, generation uint64) {
	k.following.Lock()
	defer k.following.Unlock()
	if k.witness != nil {
		k.witness.NoteShard(shard, generation)
	}
}

func (all *shards) shard(org parley.OrgID) *shard { return &all[shardOf(org)] }
