package server

import (
	"fmt"
	"log/slog"
	"time"

	"parley/client/parley"
	"parley/cmd/parley/datadir"
	"parley/persistence/keyring"
	"parley/persistence/seal"
)

// orgKeys destroys the keys of organizations.
type orgKeys struct {
	keyring *keyring.Keyring
	sealer  *seal.Sealer
	list    *datadir.ErasureList
}

// keyChanges gives organizations keys and destroys them.
type keyChanges interface {
	Create(org parley.OrgID) error
	Destroy(org parley.OrgID, at time.Time) error
}

// Create gives an organization a key.
func (k *orgKeys) Create(org parley.OrgID) error { _, err := k.keyring.Create(org); return err }

// Destroy adds an organization to the list and destroys its key, durably.
func (k *orgKeys) Destroy(org parley.OrgID, at time.Time) error {
	if _, state := k.keyring.Key(org); state == keyring.Live {
		if err := k.list.Add(datadir.Erased{OrgID: org, ErasedAt: at}); err != nil {
			return fmt.Errorf("the list of erasures: %w", err)
		}
		if err := k.keyring.Destroy(org, at); err != nil {
			return err
		}
	}
	k.sealer.Forget(org)
	return nil
}

// destroyListed destroys the keys of organizations that are in the list and have keys: a
// restored backup brought them back.
func (k *orgKeys) destroyListed() error {
	listed, err := k.list.Read()
	if err != nil {
		return err
	}
	for _, e := range listed {
		if _, state := k.keyring.Key(e.OrgID); state != keyring.Live {
			continue
		}
		slog.Warn("an organization is erased again: the backup that was restored still had it", "org", e.OrgID.String(), "erased_at", e.ErasedAt)
		if err := k.keyring.Destroy(e.OrgID, e.ErasedAt); err != nil {
			return err
		}
		k.sealer.Forget(e.OrgID)
	}
	return nil
}
