package cluster

import (
	"context"
	"errors"
	"io"
	"time"

	"parley"
	"parley/cluster/consensus"
	"parley/journal"
)

// Keys are the encryption keys of organizations, which each node keeps outside its store so
// that they can be destroyed. All nodes carry out the same changes in the same order.
type Keys interface {
	// Creation returns the change that gives an organization a new key, or ErrKeysFull,
	// Destruction the one that destroys it at an instant.
	Creation(org parley.OrgID) ([]byte, error)
	Destruction(org parley.OrgID, at time.Time) []byte
	// Carry carries out changes in their order, durably. One that was carried out before
	// changes nothing.
	Carry(changes [][]byte) error
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

// changeKey has all members change the key of an organization. It returns when this one has.
func (m *Member) changeKey(ctx context.Context, r changeKey) error {
	term := m.term()
	if term == 0 {
		return journal.ErrNotLeader
	}
	if m.keys == nil {
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

// receiveKeys adds the keys of another member. They do no harm if the content that follows
// does not arrive.
func (m *Member) receiveKeys(from io.Reader) error {
	var follow [1]byte
	if _, err := io.ReadFull(from, follow[:]); err != nil {
		return err
	}
	switch {
	case follow[0] == 0 && m.keys == nil:
		return nil
	case follow[0] != 1 || m.keys == nil:
		return errNoKeys
	}
	_, err := m.keys.ReadFrom(from)
	return err
}
