package server

import (
	"fmt"
	"log/slog"
	"time"

	"parley"
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

// destroy adds an organization to the list and destroys its key, durably.
func (k *orgKeys) destroy(org parley.OrgID, at time.Time) error {
	if _, state := k.keyring.Key(org); state == keyring.Live {
		if err := k.list.Add(org, at); err != nil {
			return fmt.Errorf("the list of erasures: %w", err)
		}
		if err := k.keyring.Destroy(org, at); err != nil {
			return err
		}
	}
	k.sealer.Forget(org)
	return nil
}

// resumeErasures goes on with erasures that a stop has interrupted, and erases again what
// a restored backup brought back: organizations in the list, and those whose keys
// were destroyed after the backup.
func (h *running) resumeErasures(keys *orgKeys) error {
	listed, err := keys.list.Read()
	if err != nil {
		return err
	}
	for _, e := range listed {
		if _, state := h.keyring.Key(e.OrgID); state != keyring.Live {
			continue
		}
		slog.Warn("an organization is erased again: the backup that was restored still had it", "org", e.OrgID.String(), "erased_at", e.ErasedAt)
		if err := h.keyring.Destroy(e.OrgID, e.ErasedAt); err != nil {
			return err
		}
		keys.sealer.Forget(e.OrgID)
	}
	return h.node.Erasures.Resume(h.keyring.Erased())
}
