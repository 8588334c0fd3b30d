package keyring

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"parley/client/parley"
)

// The keyrings of a cluster's nodes have the same wrapping key and the same server key, and
// make the same changes in the same order. A change is
//
//	kind (1) | organization (16) | nonce (12) | new key, sealed | tag (16)
//	kind (1) | organization (16) | instant of the destruction in ms (8)
//
// The key is sealed with AES-256-GCM under a key that is derived from the wrapping key; the
// additional data is what precedes the nonce.
const (
	creation    = 1
	destruction = 2

	changeHead       = 1 + idBytes
	creationBytes    = changeHead + nonceBytes + KeyBytes + tagBytes
	destructionBytes = changeHead + 8

	changePurpose  = "parley keyring: changes"
	contentPurpose = "parley keyring: content"
)

// errChange means that something is no change of this keyring's cluster, or is damaged.
var errChange = errors.New("a change of the keyring cannot be read")

// Creation returns the change that gives an organization a new key. It makes no change by
// itself: Carry does, on every node. The error is ErrFull if there is no room for a key now.
func (k *Keyring) Creation(org parley.OrgID) ([]byte, error) {
	if k.full(org) {
		return nil, ErrFull
	}
	var key Key
	defer clear(key[:])
	if err := fill(key[:], k.random); err != nil {
		return nil, err
	}
	aead, err := k.wrapper.transport(changePurpose)
	if err != nil {
		return nil, err
	}
	head := append([]byte{creation}, org[:]...)
	return aead.Seal(head, nil, key[:], head), nil
}

// Destruction returns the change that replaces an organization's key by a tombstone.
func Destruction(org parley.OrgID, at time.Time) []byte {
	return binary.BigEndian.AppendUint64(append([]byte{destruction}, org[:]...), uint64(at.UnixMilli()))
}

// full reports whether the record of an organization would find no room.
func (all *shards) full(org parley.OrgID) bool {
	s := all.shard(org)
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, found := s.seen.find(org)
	return !found && s.seen.records() >= recordsMax
}

// Carry makes a change that Creation or Destruction returned, here or on another node, and
// returns when it is durable. A change that was made before changes nothing. A key or a
// tombstone that finds no room is not made, on any node: the organization has no key then, and
// never gets one.
func (k *Keyring) Carry(b []byte) error {
	c, err := k.wrapper.decodeChange(b)
	if err != nil {
		return err
	}
	defer clear(c.key[:])
	if !c.destroy {
		return k.change(c)
	}
	if err := k.Destroy(c.org, c.at); !errors.Is(err, ErrFull) {
		return err
	}
	return nil
}

// CarryUnsynced makes changes that Creation returned, as Carry does with one after the other, but
// does not wait for the disk: Sync does. The caller can repeat them after a crash before that.
// Destructions are refused: they have to be durable at once, and caches of keys must be told about
// each one. After an error some changes are made.
func (k *Keyring) CarryUnsynced(all [][]byte) error {
	shards := map[byte][]change{}
	defer func() {
		for _, changes := range shards {
			clear(changes)
		}
	}()
	for _, b := range all {
		c, err := k.wrapper.decodeChange(b)
		if err != nil {
			return err
		}
		if c.destroy {
			return errChange
		}
		shards[shardOf(c.org)] = append(shards[shardOf(c.org)], c)
	}
	for shard, changes := range shards {
		if err := k.add(&k.shards[shard], changes); err != nil {
			return err
		}
	}
	return nil
}

// Sync makes durable what CarryUnsynced made before, and with it what failed before in the same
// shards. They are written many at a time: files that are synced together share the work of the
// file system.
func (k *Keyring) Sync() error {
	var writing errgroup.Group
	writing.SetLimit(writers)
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.RLock()
		unsynced := s.unsynced
		s.mu.RUnlock()
		if !unsynced {
			continue
		}
		writing.Go(func() error {
			t, _, err := k.stored(s)
			clear(t)
			return err
		})
	}
	return writing.Wait()
}

// Destroyed returns whose key a change destroys and when, false if it is another change.
func Destroyed(change []byte) (org parley.OrgID, at time.Time, ok bool) {
	if len(change) != destructionBytes || change[0] != destruction {
		return org, at, false
	}
	return parley.OrgID(change[1:changeHead]), instant(change[changeHead:]), true
}

func (w wrapper) decodeChange(b []byte) (c change, err error) {
	if len(b) < changeHead {
		return c, errChange
	}
	c.org = parley.OrgID(b[1:changeHead])
	switch {
	case b[0] == destruction && len(b) == destructionBytes:
		c.destroy, c.at = true, instant(b[changeHead:])
		return c, nil
	case b[0] != creation || len(b) != creationBytes:
		return c, errChange
	}
	aead, err := w.transport(changePurpose)
	if err != nil {
		return c, err
	}
	key, err := aead.Open(nil, nil, b[changeHead:], b[:changeHead])
	if err != nil {
		return c, fmt.Errorf("%w: it was not sealed under this keyring's key", errChange)
	}
	c.key = Key(key)
	clear(key)
	return c, nil
}

// transport returns the cipher for what crosses between nodes for one purpose.
func (w wrapper) transport(purpose string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, w.key, nil, purpose, 32)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// WriteTo writes all keys and tombstones, sealed under the wrapping key, for Receive on
// another node: for each shard the length (4) of what follows, and its table, sealed.
func (k *Keyring) WriteTo(w io.Writer) (n int64, err error) {
	aead, err := k.wrapper.transport(contentPurpose)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriter(w)
	for i := range Shards {
		t := k.shards[i].snapshot()
		sealed := aead.Seal(nil, nil, t, []byte{byte(i)})
		clear(t)
		head := binary.BigEndian.AppendUint32(nil, uint32(len(sealed)))
		if _, err := out.Write(append(head, sealed...)); err != nil {
			return n, err
		}
		n += int64(len(head) + len(sealed))
	}
	return n, out.Flush()
}

// Tombstone says whose key was destroyed and when.
type Tombstone struct {
	Org parley.OrgID
	At  time.Time
}

// Receive adds the keys and tombstones that WriteTo wrote on another node. It returns when
// they are durable. It reads no further than that. Before tombstones that this keyring lacks
// are added, and destroy what keys there are, destroys is called with them.
func (k *Keyring) Receive(r io.Reader, destroys func([]Tombstone) error) (n int64, err error) {
	aead, err := k.wrapper.transport(contentPurpose)
	if err != nil {
		return 0, err
	}
	for i := range Shards {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return n, err
		}
		size := int(binary.BigEndian.Uint32(head[:]))
		if size > recordsMax*recordBytes+nonceBytes+tagBytes {
			return n, errChange
		}
		sealed := make([]byte, size)
		if _, err := io.ReadFull(r, sealed); err != nil {
			return n, err
		}
		n += int64(len(head)) + int64(size)
		t, err := aead.Open(nil, nil, sealed, []byte{byte(i)})
		if err != nil {
			return n, fmt.Errorf("%w: a shard was not sealed under this keyring's key", errChange)
		}
		if err := k.merge(byte(i), table(t), destroys); err != nil {
			return n, err
		}
	}
	return n, nil
}

// merge makes the changes of one shard that lead to a table of another node.
func (k *Keyring) merge(shard byte, t table, destroys func([]Tombstone) error) error {
	defer clear(t)
	if err := t.check(shard); err != nil {
		return fmt.Errorf("%w: shard %02x: %w", errChange, shard, err)
	}
	changes := make([]change, 0, t.records())
	defer func() { clear(changes) }()
	var destroyed []Tombstone
	for i := range t.records() {
		r := t.record(i)
		c := change{org: parley.OrgID(r[:idBytes])}
		if State(r[idBytes]) == Erased {
			c.destroy, c.at = true, instant(r[idBytes+1:])
			if _, state := k.Key(c.org); state != Erased {
				destroyed = append(destroyed, Tombstone{c.org, c.at})
			}
		} else {
			c.key = Key(r[idBytes+1:])
		}
		changes = append(changes, c)
	}
	if len(changes) == 0 {
		return nil
	}
	if len(destroyed) > 0 {
		if err := destroys(destroyed); err != nil {
			return err
		}
	}
	s := &k.shards[shard]
	s.turn.Lock()
	defer s.turn.Unlock()
	return k.rewrite(s, changes)
}
