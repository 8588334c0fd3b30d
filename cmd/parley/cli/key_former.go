package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/cmd/parley/program"
)

// formerKeysShown bounds how many former keys `key show --former` requests from the
// server, one by one. A server of the profile public answers 120 such reads a minute.
const formerKeysShown = 50

// formerKey is a replaced key in the output of `key show --former --json`.
type formerKey struct {
	Kid string `json:"kid"`
	// Use is signing or encryption.
	Use       string   `json:"use"`
	ValidFrom api.Time `json:"valid_from"`
	// ValidUntil is when another key replaced it.
	ValidUntil *api.Time `json:"valid_until"`
	RetiredAt  *api.Time `json:"retired_at"`
}

func (k *formerKey) String() string {
	line := fmt.Sprintf("%-10s  %s  %s to %s", k.Use, k.Kid, program.Clock(k.ValidFrom), program.Clock(*k.ValidUntil))
	if k.RetiredAt != nil {
		line += ", retired " + program.Clock(*k.RetiredAt)
	}
	return line
}

// formerKids returns the ids of an agent's former keys, newest first, from its bindings
// and from the profile's key ring and pin of the agent. The server does not list keys
// that were never bound.
func formerKids(ctx context.Context, from *client.Session, out *shownKeys, ring *e2ee.KeyRing) ([]string, error) {
	bindings, err := from.Keys.Bindings(ctx, out.AgentID.String())
	if err != nil {
		return nil, err
	}
	var kids []string
	for _, b := range slices.Backward(bindings) {
		kids = append(kids, b.SigningKid, b.EncryptionKid)
	}
	if ring != nil {
		kids = append(kids, ring.FormerKids()...)
	}
	if out.Pinned != nil {
		kids = append(kids, out.Pinned.SigningKid, out.Pinned.EncryptionKid)
		for _, k := range slices.Backward(out.Pinned.Former) {
			kids = append(kids, k.SigningKid)
		}
	}
	seen := map[string]bool{out.SigningKid: true, out.EncryptionKid: true}
	return slices.DeleteFunc(kids, func(kid string) bool {
		known := seen[kid]
		seen[kid] = true
		return known
	}), nil
}

// former returns the server's records of an agent's former keys, newest first, and the
// number of older ones that it left out. It skips keys that the server does not know for
// the agent.
func former(ctx context.Context, from *client.Session, out *shownKeys, ring *e2ee.KeyRing) (found []formerKey, older int, err error) {
	kids, err := formerKids(ctx, from, out, ring)
	if err != nil {
		return nil, 0, err
	}
	found = []formerKey{}
	for _, kid := range kids[:min(len(kids), formerKeysShown)] {
		record, err := from.Keys.Record(ctx, out.AgentID.String(), kid)
		if errors.Is(err, client.NotFound) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if record.ValidUntil == nil { // in use again
			continue
		}
		key := formerKey{Kid: kid, Use: "encryption", ValidFrom: record.ValidFrom, ValidUntil: record.ValidUntil, RetiredAt: record.RetiredAt}
		if _, signing, err := describe(record.SigningPublicKey); err == nil && signing == kid {
			key.Use = "signing"
		}
		found = append(found, key)
	}
	slices.SortStableFunc(found, func(a, b formerKey) int {
		return cmp.Or(b.ValidUntil.Compare(a.ValidUntil.Time), cmp.Compare(b.Use, a.Use))
	})
	return found, len(kids) - min(len(kids), formerKeysShown), nil
}
