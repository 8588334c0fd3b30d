package actors

import (
	"context"

	"parley/actors/agent"
	"parley/actors/host"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// KeyPackage is an MLS KeyPackage that an agent keeps for others to claim. The caller has
// verified it.
type KeyPackage struct {
	// Suite is the number of its cipher suite.
	Suite uint16
	// NotAfter is the end of its lifetime, in Unix seconds.
	NotAfter uint64
	Hash     record.KeyPackageHash
	// Data is the KeyPackage as it was uploaded.
	Data []byte
}

// UploadedKeyPackages are the KeyPackages of one request.
type UploadedKeyPackages struct {
	// SigningKey is the raw Ed25519 key that signed them.
	SigningKey []byte
	// Once are to be handed out once each.
	Once []KeyPackage
	// LastResort replaces the present one; nil keeps it.
	LastResort *KeyPackage
}

// StoredKeyPackages is the answer to an upload.
type StoredKeyPackages struct {
	// Stored is how many were stored that had not been uploaded before.
	Stored int
	// Available is how many can be claimed now, that of last resort apart.
	Available int
}

// ClaimedKeyPackage is a KeyPackage that was handed out.
type ClaimedKeyPackage struct {
	Suite uint16
	// Data is the KeyPackage as it was uploaded.
	Data []byte
	// LastResort: it may be handed out again.
	LastResort bool
}

type (
	storeKeyPackages struct{ UploadedKeyPackages }
	claimKeyPackage  struct{ Suite uint16 }
)

// StoreKeyPackages stores KeyPackages for others to claim. One that was uploaded before is
// not stored again, also after it was claimed, so that no repeat of a request makes the
// server hand it out twice. // docs: mls.md
func (as *Agents) StoreKeyPackages(ctx context.Context, id parley.AgentID, up UploadedKeyPackages) (StoredKeyPackages, error) {
	size := 0
	for _, k := range up.Once {
		size += len(k.Data)
	}
	if up.LastResort != nil {
		size += len(up.LastResort.Data)
	}
	return host.Ask[StoredKeyPackages](ctx, as.engine, rules.AgentStream(id), size, storeKeyPackages{up})
}

// ClaimKeyPackage hands out one of an agent's KeyPackages: of a cipher suite, or of any for
// 0. Of several, it is the one that expires first. When none is left, that of last resort
// is the answer, and without that agent.ErrNoKeyPackage. // docs: mls.md
func (as *Agents) ClaimKeyPackage(ctx context.Context, id parley.AgentID, suite uint16) (ClaimedKeyPackage, error) {
	return host.Ask[ClaimedKeyPackage](ctx, as.engine, rules.AgentStream(id), 0, claimKeyPackage{suite})
}

func (k KeyPackage) key(of parley.AgentID, lastResort bool) record.KeyPackageKey {
	return record.KeyPackageKey{Agent: of, LastResort: lastResort, NotAfter: k.NotAfter, Suite: k.Suite, Hash: k.Hash}
}

func (as *Agents) storeKeyPackages(t *agentTurn, r storeKeyPackages) (any, error) {
	self := parley.AgentID(t.Entry.Stream.ID)
	c := agent.StoreKeyPackages{SigningKey: r.SigningKey}
	gone, err := expiredKeyPackages(t, self, &c.Expired)
	if err != nil {
		return nil, err
	}
	handedOut, err := expiredClaims(t, self, &c.Expired)
	if err != nil {
		return nil, err
	}
	fresh, err := freshKeyPackages(t, self, r.Once)
	if err != nil {
		return nil, err
	}
	c.Fresh = uint32(len(fresh))
	if c.LastResort, c.Reused, err = judgeLastResort(t, self, r); err != nil {
		return nil, err
	}
	if err := t.Decide(c); err != nil {
		return nil, err
	}
	if err := deleteKeyPackages(t, gone); err != nil {
		return nil, err
	}
	deleteRows(t, journal.HandedOutTable, handedOut)
	for _, k := range fresh {
		t.Store(t.State.Owner(), journal.RoundStored(len(k.Data)))
		t.PutRow(journal.KeyPackageTable, k.key(self, false).Bytes(), k.Data)
	}
	if c.LastResort {
		former, err := t.FirstKeys(journal.KeyPackageTable, record.KeyPackagesOf(self, true), keyPackageRows)
		if err != nil {
			return nil, err
		}
		if err := deleteKeyPackages(t, former); err != nil {
			return nil, err
		}
		t.Store(t.State.Owner(), journal.RoundStored(len(r.LastResort.Data)))
		t.PutRow(journal.KeyPackageTable, r.LastResort.key(self, true).Bytes(), r.LastResort.Data)
	}
	return StoredKeyPackages{Stored: len(fresh), Available: int(t.State.GetKeyPackages())}, nil
}

// freshKeyPackages returns those of uploaded KeyPackages that were not uploaded before.
func freshKeyPackages(t *agentTurn, self parley.AgentID, uploaded []KeyPackage) (fresh []KeyPackage, err error) {
	seen := map[record.KeyPackageHash]bool{}
	for _, k := range uploaded {
		if seen[k.Hash] {
			continue
		}
		seen[k.Hash] = true
		known, err := keptOrClaimed(t, k.key(self, false))
		if err != nil {
			return nil, err
		}
		if !known {
			fresh = append(fresh, k)
		}
	}
	return fresh, nil
}

// keptOrClaimed reports whether a KeyPackage is kept to be handed out once, or was.
func keptOrClaimed(t *agentTurn, k record.KeyPackageKey) (bool, error) {
	_, kept, err := t.Row(journal.KeyPackageTable, k.Bytes())
	if err != nil || kept {
		return kept, err
	}
	_, claimed, err := t.Row(journal.HandedOutTable, k.HandedOut())
	return claimed, err
}

// judgeLastResort reports whether an upload has another KeyPackage of last resort than the
// present one, and whether one is uploaded for both uses.
func judgeLastResort(t *agentTurn, self parley.AgentID, r storeKeyPackages) (fresh, reused bool, err error) {
	for _, k := range r.Once {
		if _, there, err := t.Row(journal.KeyPackageTable, k.key(self, true).Bytes()); err != nil || there {
			return false, there, err
		}
		if r.LastResort != nil && k.Hash == r.LastResort.Hash {
			return false, true, nil
		}
	}
	if r.LastResort == nil {
		return false, false, nil
	}
	if reused, err = keptOrClaimed(t, r.LastResort.key(self, false)); err != nil || reused {
		return false, reused, err
	}
	_, there, err := t.Row(journal.KeyPackageTable, r.LastResort.key(self, true).Bytes())
	return !there, false, err
}

func (as *Agents) claimKeyPackage(t *agentTurn, r claimKeyPackage) (any, error) {
	self := parley.AgentID(t.Entry.Stream.ID)
	var c agent.ClaimKeyPackage
	gone, err := expiredKeyPackages(t, self, &c.Expired)
	if err != nil {
		return nil, err
	}
	found, err := suitable(t, self, r.Suite)
	if err != nil {
		return nil, err
	}
	if found != nil {
		c.Found, c.LastResort = !found.LastResort, found.LastResort
	}
	refusal := t.Decide(c)
	if err := deleteKeyPackages(t, gone); err != nil {
		return nil, err
	}
	if refusal != nil {
		return nil, refusal
	}
	data, _, err := t.Row(journal.KeyPackageTable, found.Bytes())
	if err != nil {
		return nil, err
	}
	if c.Found {
		t.Store(t.State.Owner(), -journal.RoundStored(len(data)))
		t.DeleteRow(journal.KeyPackageTable, found.Bytes())
		t.PutRow(journal.HandedOutTable, found.HandedOut(), nil)
	}
	return ClaimedKeyPackage{Suite: found.Suite, Data: data, LastResort: found.LastResort}, nil
}

// suitable returns the KeyPackage that answers a claim, nil if there is none.
func suitable(t *agentTurn, self parley.AgentID, suite uint16) (found *record.KeyPackageKey, err error) {
	for _, lastResort := range []bool{false, true} {
		err = eachKeyPackage(t, self, lastResort, func(k record.KeyPackageKey) bool {
			if !expired(t, k.NotAfter) && (suite == 0 || k.Suite == suite) {
				found = &k
			}
			return found == nil
		})
		if err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil
}

// expired reports whether a lifetime is over.
func expired(t *agentTurn, notAfter uint64) bool { return uint64(t.Now.Unix()) > notAfter }

// keyPackageRows bounds how many rows a turn reads of an agent's KeyPackages: all that it
// may have.
const keyPackageRows = parley.KeyPackagesMax + 1

// eachKeyPackage calls fn for each of an agent's KeyPackages, those that expire first
// first, until it returns false. Most callers need few, so it reads few at first.
func eachKeyPackage(t *agentTurn, self parley.AgentID, lastResort bool, fn func(record.KeyPackageKey) bool) error {
	if t.State.GetKeyPackages() == 0 && !lastResort || !t.State.GetLastResort() && lastResort {
		return nil
	}
	for seen, limit := 0, 4; ; limit = min(8*limit, keyPackageRows) {
		keys, err := t.FirstKeys(journal.KeyPackageTable, record.KeyPackagesOf(self, lastResort), limit)
		if err != nil {
			return err
		}
		for _, key := range keys[min(seen, len(keys)):] {
			if k, ok := record.ParseKeyPackageKey(key); ok && !fn(k) {
				return nil
			}
		}
		if seen = len(keys); seen < limit || limit == keyPackageRows {
			return nil
		}
	}
}

// expiredKeyPackages returns the keys of the KeyPackages whose lifetime is over, and counts
// them.
func expiredKeyPackages(t *agentTurn, self parley.AgentID, n *agent.ExpiredKeyPackages) (keys [][]byte, err error) {
	for _, lastResort := range []bool{false, true} {
		err = eachKeyPackage(t, self, lastResort, func(k record.KeyPackageKey) bool {
			over := expired(t, k.NotAfter)
			if over {
				keys = append(keys, k.Bytes())
			}
			return over
		})
		if err != nil {
			return nil, err
		}
		if n.LastResort = lastResort && len(keys) > int(n.Kept); !lastResort {
			n.Kept = uint32(len(keys))
		}
	}
	return keys, nil
}

// expiredClaims returns the keys of rows about claimed KeyPackages whose lifetime is over,
// at most as many as a request may upload twice, and counts them: nobody can upload those
// again.
func expiredClaims(t *agentTurn, self parley.AgentID, n *agent.ExpiredKeyPackages) (over [][]byte, err error) {
	if t.State.GetHandedOut() == 0 {
		return nil, nil
	}
	keys, err := t.FirstKeys(journal.HandedOutTable, self[:], 2*parley.KeyPackagesPerUpload)
	for _, key := range keys {
		if notAfter, ok := record.HandedOutUntil(key); ok && expired(t, notAfter) {
			over = append(over, key)
		}
	}
	n.HandedOut = uint32(len(over))
	return over, err
}

// deleteKeyPackages deletes KeyPackages, and has their owner no longer pay for them.
func deleteKeyPackages(t *agentTurn, keys [][]byte) error {
	for _, key := range keys {
		data, _, err := t.Row(journal.KeyPackageTable, key)
		if err != nil {
			return err
		}
		t.Store(t.State.Owner(), -journal.RoundStored(len(data)))
	}
	deleteRows(t, journal.KeyPackageTable, keys)
	return nil
}

func deleteRows(t *agentTurn, table journal.Table, keys [][]byte) {
	for _, key := range keys {
		t.DeleteRow(table, key)
	}
}

// dropKeyPackages deletes an agent's KeyPackages, and what is known of those that were
// claimed. The latter may be many. Later turns may still see such rows if they are pending,
// which does no harm: KeyPackages by another key have other hashes.
func dropKeyPackages(t *agentTurn, id parley.AgentID) error {
	keys, err := t.FirstKeys(journal.KeyPackageTable, id[:], keyPackageRows)
	if err != nil {
		return err
	}
	if err := deleteKeyPackages(t, keys); err != nil {
		return err
	}
	t.Entry.Rows = append(t.Entry.Rows, journal.Row{Slot: t.Entry.Slot, Table: journal.HandedOutTable, Key: id.Bytes(), Delete: true, Beneath: true})
	return nil
}
