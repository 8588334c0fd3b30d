package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"parley/client/parley"
	"parley/cluster/consensus"
	"parley/cluster/raftlog"
	"parley/journal"
	"parley/persistence"
)

// Keys are the encryption keys of organizations, which each node keeps outside its store so
// that they can be destroyed. All nodes carry out the same changes in the same order.
type Keys interface {
	// Creation returns the change that gives an organization a new key, or ErrKeysFull,
	// Destruction the one that destroys it at an instant.
	Creation(org parley.OrgID) ([]byte, error)
	Destruction(org parley.OrgID, at time.Time) []byte
	// Carry carries out changes in their order. A new key can be used when it returns, and is
	// durable after Sync. A destruction is durable when it returns. A change that was carried out
	// before changes nothing.
	Carry(changes [][]byte) error
	// Sync makes durable what was carried out before.
	Sync() error
	// WriteTo writes all keys for another node, whose ReadFrom adds them to its own,
	// durably, and reads no further.
	io.WriterTo
	io.ReaderFrom
}

// keyEntry is the first byte of a change of a key. A batch begins with its sequence number
// in little endian, which is 0 until it is applied.
const keyEntry = 0xff

// ErrKeysFull means that there is no room for the key of another organization.
var ErrKeysFull = errors.New("the keyrings of the cluster are full")

var errNoKeys = errors.New("cluster: this member keeps no keys")

// carriedKeys are the keys of a member that carries out what its group has decided; without Keys
// it keeps none.
type carriedKeys struct{ Keys }

// carry carries out changes of keys.
func (k carriedKeys) carry(changes [][]byte) error {
	if len(changes) == 0 {
		return nil
	}
	if k.Keys == nil {
		return errNoKeys
	}
	if err := k.Keys.Carry(changes); err != nil {
		return fmt.Errorf("cluster: changes of keys: %w", err)
	}
	return nil
}

// sync makes durable what was carried out before.
func (k carriedKeys) sync() error {
	if k.Keys == nil {
		return nil
	}
	if err := k.Keys.Sync(); err != nil {
		return fmt.Errorf("cluster: the keys cannot be written: %w", err)
	}
	return nil
}

// receive adds the keys of another member. They do no harm if the content that follows
// does not arrive.
func (k carriedKeys) receive(from io.Reader) error {
	var follow [1]byte
	if _, err := io.ReadFull(from, follow[:]); err != nil {
		return err
	}
	switch {
	case follow[0] == 0 && k.Keys == nil:
		return nil
	case follow[0] != 1 || k.Keys == nil:
		return errNoKeys
	}
	_, err := k.Keys.ReadFrom(from)
	return err
}

// changeKey has all members change the key of an organization. It returns when this one has.
func (m *Member) changeKey(ctx context.Context, r changeKey) error {
	term := m.term()
	if term == 0 {
		return journal.ErrNotLeader
	}
	if m.keys.Keys == nil {
		return errNoKeys
	}
	change := m.keys.Destruction(r.Org, r.At)
	if !r.Destroy {
		var err error
		if change, err = m.keys.Creation(r.Org); err != nil {
			return err
		}
	}
	made := make(chan error, 1)
	entry := append([]byte{keyEntry}, change...)
	err := m.runner.Load().Propose(term, entry, func(_ uint64, err error) { made <- err })
	if err == nil {
		select {
		case err = <-made:
		case <-ctx.Done():
			err = consensus.ErrOutcomeUnknown
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, consensus.ErrFull):
		return parley.ErrOverloaded
	case errors.Is(err, consensus.ErrOutcomeUnknown):
		return parley.ErrOutcomeUnknown
	}
	return journal.ErrNotLeader
}

// carryAgain carries out the changes of keys that the replica has applied already: what its store
// has flushed may be ahead of the files of the keys after a crash. The log still has all that are
// not in the files, see followFlushes.
func (m *Member) carryAgain() error {
	changes, err := appliedKeys(m.log.Visit, m.replica.Applied())
	if err == nil {
		err = m.keys.carry(changes)
	}
	return err
}

// AppliedKeys returns the changes of keys in the log of a stopped node that its replica, which is
// at a position, has applied.
func AppliedKeys(log raftlog.Options, at persistence.GroupPosition) ([][]byte, error) {
	return appliedKeys(func(visit func(*raftpb.Entry) error) error {
		_, err := raftlog.Entries(log, 0, visit)
		return err
	}, at)
}

// appliedKeys returns the changes of keys in a log that a replica at a position has applied, in
// their order. If the log has no entry at the position, because it was cut there, or the content
// came from another member or a backup, all keys were durable before: there is nothing to repeat.
func appliedKeys(entries func(func(*raftpb.Entry) error) error, at persistence.GroupPosition) (changes [][]byte, err error) {
	leads := false
	err = entries(func(e *raftpb.Entry) error {
		if e.GetIndex() > at.Number {
			return nil
		}
		leads = e.GetIndex() == at.Number && e.GetTerm() == at.Term
		payload, err := consensus.Payload(e)
		if err == nil && len(payload) > 0 && payload[0] == keyEntry {
			changes = append(changes, bytes.Clone(payload[1:])) // it lies in a record
		}
		return err
	})
	if err != nil || !leads {
		return nil, err
	}
	return changes, nil
}
