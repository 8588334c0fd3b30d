package membership

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"parley/cluster"
	"parley/cluster/identity"
	"parley/cluster/raftlog"
	"parley/cmd/parley/datadir"
	"parley/persistence"
	"parley/persistence/keyring"
)

// LogEnd is the newest place of the order that a node has, committed or not.
type LogEnd struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

// A StoreOpener opens the store of a node whose server is stopped.
type StoreOpener func(persistence.Sequencer) (*persistence.Store, *keyring.Keyring, error)

// Ends returns how far a stopped node has the order.
func Ends(o Options, open StoreOpener) (end LogEnd, err error) {
	id, err := identity.ReadNode(o.Data)
	if err != nil {
		return end, err
	}
	err = offline(id.ID, o, open, func(s *persistence.Store, _ *keyring.Keyring, log *raftlog.Log, _ *cluster.Member) error {
		replica, err := s.Replica()
		if err != nil {
			return err
		}
		at := replica.Applied()
		end = LogEnd{at.Number, at.Term}
		last, err := log.LastIndex()
		if err != nil || last <= end.Index {
			return err
		}
		term, err := log.Term(last)
		end = LogEnd{last, term}
		return err
	})
	return end, err
}

// Recover makes a stopped node the only one of a new cluster, with all that it has.
func Recover(o Options, open StoreOpener) (id *identity.Identity, end LogEnd, err error) {
	was, err := identity.ReadNode(o.Data)
	if err != nil {
		return nil, end, err
	}
	if !was.Joined {
		return nil, end, errors.New("the node has not had the content of its cluster yet")
	}
	err = offline(was.ID, o, open, func(s *persistence.Store, keys *keyring.Keyring, log *raftlog.Log, m *cluster.Member) error {
		replica, err := s.Replica()
		if err != nil {
			return err
		}
		// The former members must not reach it any more before it counts without them.
		if id, err = identity.CreateAgain(o.Data, o.Clock()); err != nil {
			return err
		}
		if err := os.Remove(divergenceFile(o.Data)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		node := uint64(id.ID)
		end.Index, end.Term, err = m.Recover(cluster.MemberOptions{
			ID: node, Voters: []uint64{node}, Described: map[uint64]string{node: cluster.Description{Name: id.Name, Address: id.Address}.Encode()},
			Replica: replica, Keys: NewKeys(keys, datadir.Sealer(keys), datadir.NewErasureList(o.ErasureList, o.Data)),
			Log: log, Logger: o.Logger, Fatal: o.Fatal,
		})
		return err
	})
	return id, end, err
}

// offline calls do with the store and the log of a node whose server is stopped.
func offline(id identity.NodeID, o Options, open StoreOpener, do func(*persistence.Store, *keyring.Keyring, *raftlog.Log, *cluster.Member) error) error {
	member := cluster.NewMember()
	s, keys, err := open(member)
	if err != nil {
		return err
	}
	log, err := raftlog.Open(raftlog.Options{FS: s.RetryingFS(), Dir: filepath.Join(o.Data, logDirectory), ID: uint64(id)})
	if err != nil {
		return errors.Join(fmt.Errorf("the log of the cluster: %w", err), s.Close())
	}
	return errors.Join(do(s, keys, log, member), log.Close(), s.Close())
}
