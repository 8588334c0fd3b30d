package membership

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"parley/client/parley"
	"parley/cluster"
	"parley/cmd/parley/datadir"
	"parley/persistence"
	"parley/persistence/keyring"
	"parley/persistence/seal"
)

// Keys are the keys of organizations on this node. What is destroyed is listed, and forgotten
// by everything that has it in memory.
type Keys struct {
	keyring *keyring.Keyring
	sealer  *seal.Sealer
	list    *datadir.ErasureList
	// unforgotten are organizations whose keys a received content destroys, until this node's
	// caches have forgotten them.
	mu          sync.Mutex
	unforgotten map[parley.OrgID]bool
	// node and store are nil while no server runs.
	node  forgetter
	store *persistence.Store
}

// forgetter is an actors.Node.
type forgetter interface{ Forget(parley.OrgID) error }

// NewKeys returns the keys of a node.
func NewKeys(k *keyring.Keyring, s *seal.Sealer, list *datadir.ErasureList) *Keys {
	return &Keys{keyring: k, sealer: s, list: list, unforgotten: map[parley.OrgID]bool{}}
}

// Creation implements cluster.Keys.
func (k *Keys) Creation(org parley.OrgID) ([]byte, error) {
	change, err := k.keyring.Creation(org)
	if errors.Is(err, keyring.ErrFull) {
		err = cluster.ErrKeysFull
	}
	return change, err
}

// Destruction implements cluster.Keys.
func (k *Keys) Destruction(org parley.OrgID, at time.Time) []byte {
	return keyring.Destruction(org, at)
}

// Carry implements cluster.Keys.
func (k *Keys) Carry(changes [][]byte) error {
	isDestruction := func(change []byte) bool { _, _, destroys := keyring.Destroyed(change); return destroys }
	for len(changes) > 0 {
		created := slices.IndexFunc(changes, isDestruction)
		if created < 0 {
			created = len(changes)
		}
		if err := k.keyring.CarryUnsynced(changes[:created]); err != nil {
			return err
		}
		if changes = changes[created:]; len(changes) == 0 {
			return nil
		}
		if err := k.destroy(changes[0]); err != nil {
			return err
		}
		changes = changes[1:]
	}
	return nil
}

// Sync implements cluster.Keys. It also forgets organizations whose destruction ReadFrom could not
// make durable; what cannot be forgotten is tried again by the next Sync.
func (k *Keys) Sync() error {
	if err := k.awaitSpace("the keyring", k.keyring.Sync); err != nil {
		return err
	}
	if err := k.forgetDestroyed(); err != nil {
		slog.Error("an organization whose key was destroyed is still in memory; it is tried again", "error", err)
	}
	return nil
}

// forgetDestroyed forgets what is unforgotten and whose keys are destroyed by now.
func (k *Keys) forgetDestroyed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var errs []error
	for org := range k.unforgotten {
		if _, state := k.keyring.Key(org); state != keyring.Erased {
			continue
		}
		if err := k.forget(org); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(k.unforgotten, org)
	}
	return errors.Join(errs...)
}

// destroy carries out a destruction.
func (k *Keys) destroy(change []byte) error {
	org, at, _ := keyring.Destroyed(change)
	if _, state := k.keyring.Key(org); state == keyring.Live {
		if err := k.awaitSpace("the list of erasures", func() error { return k.record(keyring.Tombstone{Org: org, At: at}) }); err != nil {
			return err
		}
	}
	if err := k.awaitSpace("the keyring", func() error { return k.keyring.Carry(change) }); err != nil {
		return err
	}
	return k.forget(org)
}

// awaitSpace calls do, which writes a file and may be repeated. A server waits for room on the
// disk, as its log does.
func (k *Keys) awaitSpace(file string, do func() error) error {
	if k.store == nil {
		return do()
	}
	return k.store.AwaitSpace(file, do)
}

// record adds organizations to the list before their keys are destroyed.
func (k *Keys) record(destroyed ...keyring.Tombstone) error {
	all := make([]datadir.Erased, len(destroyed))
	for i, d := range destroyed {
		all[i] = datadir.Erased{OrgID: d.Org, ErasedAt: d.At}
	}
	if err := k.list.Add(all...); err != nil {
		return fmt.Errorf("the list of erasures: %w", err)
	}
	return nil
}

// forget drops from memory what belongs to an organization whose key was destroyed.
func (k *Keys) forget(org parley.OrgID) error {
	k.sealer.Forget(org)
	if k.node == nil {
		return nil
	}
	return k.node.Forget(org)
}

// WriteTo implements cluster.Keys.
func (k *Keys) WriteTo(w io.Writer) (int64, error) { return k.keyring.WriteTo(w) }

// ReadFrom implements cluster.Keys. A key that it destroys ends as one that Carry destroys. It
// does not wait for room on the disk: the content is sent again.
func (k *Keys) ReadFrom(r io.Reader) (int64, error) {
	n, err := k.keyring.Receive(r, func(destroyed []keyring.Tombstone) error {
		k.mu.Lock()
		for _, d := range destroyed {
			k.unforgotten[d.Org] = true
		}
		k.mu.Unlock()
		return k.record(destroyed...)
	})
	return n, errors.Join(err, k.forgetDestroyed())
}

// Create gives an organization a key on all nodes.
func (p *Part) Create(org parley.OrgID) error {
	if err := p.node.CreateKey(p.working, org); err != nil {
		return err
	}
	if _, state := p.keys.keyring.Key(org); state == keyring.Unknown {
		return cluster.ErrKeysFull
	}
	return nil
}

// Destroy destroys the key of an organization on all nodes.
func (p *Part) Destroy(org parley.OrgID, at time.Time) error {
	return p.node.DestroyKey(p.working, org, at)
}

// destroyListed destroys the keys of organizations that are in the list and have keys: a
// restored backup brought them back.
func (k *Keys) destroyListed(ctx context.Context, n *cluster.Node) error {
	listed, err := k.list.Read()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range listed {
		if _, state := k.keyring.Key(e.OrgID); state != keyring.Live {
			continue
		}
		slog.Warn("an organization is erased again: the backup that was restored still had it", "org", e.OrgID.String(), "erased_at", e.ErasedAt)
		errs = append(errs, n.DestroyKey(ctx, e.OrgID, e.ErasedAt))
	}
	return errors.Join(errs...)
}
