package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/disk"
)

// copiedAtOnce is how many shards CopyTo writes between two syncs of the directory. It
// bounds the memory that it takes.
const copiedAtOnce = 32

// CopyTo makes dir, a directory of a backup, hold what is durable in this keyring. It first
// writes the shards of this keyring that have unsynced keys, including changes that failed
// before. A backup directory has one keyring for all of its snapshots: keys that were destroyed
// vanish from all of them. Shards that are up to date are not written. A crash leaves
// one sound copy of every shard, the former or the new one; the next CopyTo does the
// rest, and Open does too.
//
// Call CopyTo after the checkpoint of the store was made and before its snapshot is
// listed: then the keyring has the keys of every organization in the snapshot. The
// caller holds the lock of the backup directory.
//
// The error is ErrForeign if dir holds another keyring, and ErrDiverged if a shard there
// is newer, or the same and different. It is ErrWrappingKey, or disk.ErrDamaged if not
// one file there can be read. After these dir is as it was. Damaged and missing files of
// single shards are replaced.
func (k *Keyring) CopyTo(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return writeDirectory(fsys, dir, k.sealed)
	}
	r, err := newReader(fsys, dir, nil)
	if err != nil {
		return err
	}
	if r.keyring != k.header.keyring {
		return fmt.Errorf("%s: %w", dir, ErrForeign)
	}
	x, err := examine(fsys, dir, &k.wrapper)
	if err != nil {
		return err
	}
	if x.foreign {
		return fmt.Errorf("%w: %w", ErrForeign, x.fatal())
	}
	stale, err := k.stale(x)
	if err != nil {
		return err
	}
	if err := removeUnfinished(fsys, dir, x.unfinished); err != nil {
		return err
	}
	for len(stale) > 0 {
		n := min(len(stale), copiedAtOnce)
		contents := map[byte][]byte{}
		for _, shard := range stale[:n] {
			if contents[shard], err = k.sealed(shard); err != nil {
				return err
			}
		}
		if err := replaceShards(fsys, dir, contents); err != nil {
			return err
		}
		stale = stale[n:]
	}
	return nil
}

// sealed returns the file of a shard.
func (k *Keyring) sealed(shard byte) ([]byte, error) {
	t, generation, err := k.stored(&k.shards[shard])
	defer clear(t)
	if err != nil {
		return nil, err
	}
	h := k.header
	h.shard, h.generation = shard, generation
	return k.wrapper.seal(h, k.server, t)
}

// stored returns what is durable in both copies of a shard. It writes unsynced keys first.
func (k *Keyring) stored(s *shard) (t table, generation uint64, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.RLock()
	t, unsynced := bytes.Clone(s.seen), s.unsynced
	s.mu.RUnlock()
	if unsynced {
		clear(t)
		t, err = k.store(s)
	}
	return t, s.generation, err
}

// stale returns the shards of a backup that are not as this keyring is, and refuses a
// backup that has more.
func (k *Keyring) stale(x *examination) (stale []byte, err error) {
	worn := map[byte]bool{}
	for _, shard := range x.worn {
		worn[shard] = true
	}
	for i := range Shards {
		shard := byte(i)
		t, generation, err := k.stored(&k.shards[i])
		same := bytes.Equal(t, x.tables[i])
		clear(t)
		if err != nil {
			return nil, err
		}
		switch there := x.state.Generations[i]; {
		case there > generation || there == generation && !same:
			return nil, fmt.Errorf("%s: %w: shard %02x has generation %d there and %d here", x.dir, ErrDiverged, shard, there, generation)
		case there < generation || worn[shard]: // 0 if no copy is sound
			stale = append(stale, shard)
		}
	}
	return stale, nil
}

// CheckBackup reads every file of the keyring in dir, a directory of a backup, and
// changes nothing. It needs no wrapping key. The error is disk.ErrDamaged, and names the
// shard, if a shard has no sound copy: then Restore fails too.
func CheckBackup(fsys vfs.FS, dir string) (disk.KeyringState, error) {
	x, err := examine(disk.ReadOnlyFS{FS: fsys}, dir, nil)
	if err == nil {
		err = x.fatal()
	}
	if err != nil {
		return disk.KeyringState{}, err
	}
	return x.state, nil
}

// Restore makes the directory to from the keyring in from, a directory of a backup, and
// returns what it holds, for the durability witness of the restored data directory. It
// needs no wrapping key. Either all of the directory is made, or none. The error is
// disk.ErrDamaged, and names the shard, if a shard has no sound copy in the backup; it
// wraps fs.ErrExist if to exists.
func Restore(fsys vfs.FS, from, to string) (disk.KeyringState, error) {
	x, err := examine(fsys, from, nil)
	if err == nil {
		err = x.fatal()
	}
	if err == nil {
		err = writeDirectory(fsys, to, func(shard byte) ([]byte, error) {
			s, err := x.readShard(shard)
			if err == nil && (s.best == nil || s.best.generation != x.state.Generations[shard]) {
				err = fmt.Errorf("shard %02x of the keyring %s changes while it is read", shard, from)
			}
			if err != nil {
				return nil, err
			}
			return s.best.raw, nil
		})
	}
	if err != nil {
		return disk.KeyringState{}, err
	}
	return x.state, nil
}
