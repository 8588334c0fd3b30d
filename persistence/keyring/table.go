package keyring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/client/parley"
)

// KeyBytes is the size of every key.
const KeyBytes = 32

const (
	idBytes     = len(parley.OrgID{})
	recordBytes = idBytes + 1 + KeyBytes
	// recordsMax bounds a shard, and with it the size of a file that is read: 16
	// million organizations in all.
	recordsMax = 1 << 16
)

// State says whether an organization has a key.
type State uint8

const (
	// Unknown is the state of an organization that has no key and no tombstone.
	Unknown State = iota
	// Live is the state of an organization with a key.
	Live
	// Erased is the state of an organization whose key was destroyed. It is final.
	Erased
)

// Key is the key of an organization, or the server key. It prints as "[key]", in every
// format, so that no log or error shows it.
type Key [KeyBytes]byte

// Format writes "[key]".
func (Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[key]")) }

// MarshalText returns "[key]". It never fails.
func (Key) MarshalText() ([]byte, error) { return []byte("[key]"), nil }

// table is the content of a shard: records sorted by id, each of them
//
//	id (16) | state (1) | key (32), or instant of the tombstone in ms (8) and zeros (24)
//
// All have the same size, so that a key is found without decoding the others.
type table []byte

func (t table) records() int { return len(t) / recordBytes }

func (t table) record(i int) []byte { return t[i*recordBytes:][:recordBytes] }

// find returns the place of an organization's record, or where it belongs. It compares
// ids as two numbers: it is called for everything that is encrypted or decrypted.
func (t table) find(org parley.OrgID) (at int, found bool) {
	high, low := binary.BigEndian.Uint64(org[:]), binary.BigEndian.Uint64(org[8:])
	end := t.records()
	for at < end {
		middle := int(uint(at+end) / 2)
		r := t[middle*recordBytes:]
		switch h, l := binary.BigEndian.Uint64(r), binary.BigEndian.Uint64(r[8:]); {
		case h < high || h == high && l < low:
			at = middle + 1
		case h == high && l == low:
			return middle, true
		default:
			end = middle
		}
	}
	return at, false
}

// state returns an organization's state and the value of its record, nil if it has none.
func (t table) state(org parley.OrgID) (State, []byte) {
	at, found := t.find(org)
	if !found {
		return Unknown, nil
	}
	r := t.record(at)
	return State(r[idBytes]), r[idBytes+1:]
}

// count returns how many records are in a state.
func (t table) count(state State) (n int) {
	for i := range t.records() {
		if State(t.record(i)[idBytes]) == state {
			n++
		}
	}
	return n
}

// erased appends the organizations whose keys were destroyed.
func (t table) erased(all []parley.OrgID) []parley.OrgID {
	for i := range t.records() {
		if r := t.record(i); State(r[idBytes]) == Erased {
			all = append(all, parley.OrgID(r[:idBytes]))
		}
	}
	return all
}

// set returns the table with a record set. It changes t, and may move it.
func (t table) set(org parley.OrgID, state State, value Key) table {
	at, found := t.find(org)
	if !found {
		t = slices.Insert(t, at*recordBytes, make([]byte, recordBytes)...)
	}
	r := t.record(at)
	copy(r, org[:])
	r[idBytes] = byte(state)
	copy(r[idBytes+1:], value[:])
	return t
}

// tombstone is the value of an erased record.
func tombstone(at time.Time) (value Key) {
	binary.BigEndian.PutUint64(value[:], uint64(at.UnixMilli()))
	return value
}

func instant(value []byte) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(value))).UTC()
}

// check reports why t is not the content of a shard.
func (t table) check(shard byte) error {
	if len(t)%recordBytes != 0 || t.records() > recordsMax {
		return errors.New("its content has a wrong length")
	}
	for i := range t.records() {
		r := t.record(i)
		value := r[idBytes+1:]
		switch {
		case shardOf(parley.OrgID(r[:idBytes])) != shard:
			return fmt.Errorf("record %d belongs to another shard", i)
		case i > 0 && bytes.Compare(t.record(i - 1)[:idBytes], r[:idBytes]) >= 0:
			return fmt.Errorf("record %d is out of order", i)
		case State(r[idBytes]) != Live && State(r[idBytes]) != Erased,
			State(r[idBytes]) == Erased && !zero(value[8:]),
			State(r[idBytes]) == Live && zero(value):
			return fmt.Errorf("record %d is malformed", i)
		}
	}
	return nil
}

func zero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// shardOf returns the shard of an organization: the last byte of its id, which is
// random. Other bytes are not: they hold the time, the version, the slot, the variant
// and a counter.
func shardOf(org parley.OrgID) byte { return org[idBytes-1] }
