package actors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// testUpload are KeyPackages by an agent's current key. Nobody in this package reads what
// is in them.
type testUpload struct{ UploadedKeyPackages }

// keyPackageDays is the lifetime of KeyPackages in tests, counted from noon.
const keyPackageDays = 30

func keyPackageOf(text string, suite uint16, days int) KeyPackage {
	data := []byte("KeyPackage " + text)
	until := uint64(noon.Add(time.Duration(days) * 24 * time.Hour).Unix())
	return KeyPackage{Suite: suite, NotAfter: until, Hash: record.HashKeyPackage(data), Data: data}
}

func uploadOf(t testing.TB, node *Node, id parley.AgentID, texts ...string) testUpload {
	t.Helper()
	up := testUpload{UploadedKeyPackages{SigningKey: must(node.Agents.Get(context.Background(), id))(t).GetSigningKey()}}
	for _, text := range texts {
		up.Once = append(up.Once, keyPackageOf(text, 1, keyPackageDays))
	}
	return up
}

func (u testUpload) lastResort(text string) UploadedKeyPackages {
	u.LastResort = new(keyPackageOf(text, 1, keyPackageDays))
	return u.UploadedKeyPackages
}

// upload stores KeyPackages and checks the answer.
func (r *testNode) upload(id parley.AgentID, up UploadedKeyPackages, want StoredKeyPackages) {
	r.t.Helper()
	if got := must(r.node.Agents.StoreKeyPackages(context.Background(), id, up))(r.t); got != want {
		r.t.Errorf("uploading: %+v, want %+v", got, want)
	}
}

// claimed claims a KeyPackage and returns its text and whether it is that of last resort;
// "none" if there is none.
func (r *testNode) claimed(id parley.AgentID, suite uint16) string {
	r.t.Helper()
	got, err := r.node.Agents.ClaimKeyPackage(context.Background(), id, suite)
	switch {
	case errors.Is(err, agent.ErrNoKeyPackage):
		return "none"
	case err != nil:
		r.t.Fatal(err)
	}
	text := string(bytes.TrimPrefix(got.Data, []byte("KeyPackage ")))
	if got.LastResort {
		return text + " again"
	}
	return text
}

func (r *testNode) counted(id parley.AgentID) string {
	r.t.Helper()
	available, lastResort, err := r.node.Agents.KeyPackages(context.Background(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return fmt.Sprint(available, lastResort)
}

// Each KeyPackage is handed out once, whatever is repeated and restarted, and that of last
// resort when none is left.
func TestKeyPackagesAreHandedOutOnce(t *testing.T) {
	at := newManualClock(noon)
	r := newTestNode(t, withClock(at.now))
	_, ids := r.agents("acme", 2)
	id := ids[0]
	expect(t, "before all", r.claimed(id, 0), "none")
	expect(t, "before all", r.counted(id), "0 false")
	up := uploadOf(t, r.node, id, "a", "b", "a")
	r.upload(id, up.lastResort("z"), StoredKeyPackages{Stored: 2, Available: 2})
	r.upload(id, up.lastResort("z"), StoredKeyPackages{Stored: 0, Available: 2})
	expect(t, "stored", r.counted(id), "2 true")
	expect(t, "of another suite", r.claimed(id, 3), "none")
	first := r.claimed(id, 0)
	r.upload(id, up.UploadedKeyPackages, StoredKeyPackages{Stored: 0, Available: 1})
	r.restart()
	second := r.claimed(id, 1)
	got := []string{first, second}
	slices.Sort(got)
	expect(t, "claimed", fmt.Sprint(got), "[a b]")
	r.upload(id, up.UploadedKeyPackages, StoredKeyPackages{Stored: 0, Available: 0})
	for range 2 {
		expect(t, "when none is left", r.claimed(id, 0), "z again")
	}
	r.upload(id, uploadOf(t, r.node, id).lastResort("y"), StoredKeyPackages{})
	expect(t, "with another last resort", r.claimed(id, 1), "y again")
	expect(t, "of another suite", r.claimed(id, 3), "none")
	expect(t, "another agent", r.claimed(ids[1], 0), "none")
	r.verify()
}

// No KeyPackage serves both uses, and none is stored that a former key signed.
func TestKeyPackagesRefused(t *testing.T) {
	r := newTestNode(t, withClock(newManualClock(noon).now))
	ctx := context.Background()
	_, ids := r.agents("acme", 1)
	id := ids[0]
	r.upload(id, uploadOf(t, r.node, id, "a", "b").lastResort("z"), StoredKeyPackages{Stored: 2, Available: 2})
	r.claimed(id, 0)
	for name, c := range map[string]struct {
		up   UploadedKeyPackages
		want error
	}{
		"one in both places":         {uploadOf(t, r.node, id, "c").lastResort("c"), agent.ErrKeyPackageReused},
		"the last resort":            {uploadOf(t, r.node, id, "z").UploadedKeyPackages, agent.ErrKeyPackageReused},
		"one that was uploaded":      {uploadOf(t, r.node, id).lastResort("a"), agent.ErrKeyPackageReused},
		"one that was uploaded, too": {uploadOf(t, r.node, id).lastResort("b"), agent.ErrKeyPackageReused},
		"by another key":             {UploadedKeyPackages{SigningKey: key(7, "x"), Once: []KeyPackage{keyPackageOf("c", 1, 1)}}, agent.ErrKeyPackageKey},
	} {
		if _, err := r.node.Agents.StoreKeyPackages(ctx, id, c.up); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	expect(t, "afterwards", r.counted(id), "1 true")
	full := uploadOf(t, r.node, id)
	for n := range parley.KeyPackagesMax {
		full.Once = append(full.Once, keyPackageOf(fmt.Sprint("n", n), 1, keyPackageDays))
	}
	var refusal *parley.Refusal
	if _, err := r.node.Agents.StoreKeyPackages(ctx, id, full.UploadedKeyPackages); !errors.As(err, &refusal) || refusal.Code != "quota_exceeded" {
		t.Errorf("1,001 KeyPackages: %v", err)
	}
	full.Once = full.Once[1:]
	r.upload(id, full.UploadedKeyPackages, StoredKeyPackages{Stored: 999, Available: 1000})
	must(r.node.Agents.Change(ctx, id, agent.Revoke{}))(t)
	expect(t, "revoked", r.claimed(id, 0), "none")
	expect(t, "revoked", r.counted(id), "0 false")
	if _, err := r.node.Agents.StoreKeyPackages(ctx, id, full.UploadedKeyPackages); !errors.Is(err, agent.ErrRevoked) {
		t.Errorf("a revoked agent: %v", err)
	}
	r.verify()
}

// Expired KeyPackages are not handed out, not counted, and removed by the next upload or
// claim; so is what is known of those that were claimed.
func TestKeyPackagesExpire(t *testing.T) {
	at := newManualClock(noon)
	r := newTestNode(t, withClock(at.now))
	_, ids := r.agents("acme", 1)
	id := ids[0]
	up := uploadOf(t, r.node, id)
	for n := range 12 { // more than a claim reads at once
		up.Once = append(up.Once, keyPackageOf(fmt.Sprint("short ", n), 1, 2))
	}
	up.Once = append(up.Once, keyPackageOf("long", 3, 9), keyPackageOf("longer", 1, 10), keyPackageOf("shortest", 1, 1))
	up.LastResort = new(keyPackageOf("last", 1, 3))
	r.upload(id, up.UploadedKeyPackages, StoredKeyPackages{Stored: 15, Available: 15})
	expect(t, "the first to expire", r.claimed(id, 1), "shortest")
	at.advance(2*24*time.Hour - time.Second)
	expect(t, "in the last second but one", r.counted(id), "14 true")
	at.advance(2 * time.Second)
	expect(t, "two days later", r.counted(id), "2 true")
	expect(t, "of a suite", r.claimed(id, 1), "longer")
	expect(t, "of any suite", r.claimed(id, 0), "long")
	expect(t, "none is left", r.claimed(id, 0), "last again")
	at.advance(24 * time.Hour)
	expect(t, "the last resort has expired", r.counted(id), "0 false")
	expect(t, "the last resort has expired", r.claimed(id, 0), "none")
	at.advance(30 * 24 * time.Hour)
	r.upload(id, UploadedKeyPackages{SigningKey: up.SigningKey, Once: []KeyPackage{keyPackageOf("new", 1, 99)}}, StoredKeyPackages{Stored: 1, Available: 1})
	if s := must(r.node.Agents.Get(context.Background(), id))(t); s.GetHandedOut() != 0 || s.GetKeyPackages() != 1 || s.GetLastResort() {
		t.Errorf("what has expired is still counted: %v", s)
	}
	expect(t, "rows that are left", r.keyPackageRows(), 1)
	r.verify()
}

// keyPackageRows counts the rows about KeyPackages of all agents.
func (r *testNode) keyPackageRows() (n int) {
	r.t.Helper()
	v := r.store.View()
	defer v.Close()
	for _, table := range []journal.Table{journal.KeyPackageTable, journal.HandedOutTable} {
		if err := v.Keys(table, func([]byte) bool { n++; return true }); err != nil {
			r.t.Fatal(err)
		}
	}
	return n
}

// A new signing key, revocation and erasure remove all KeyPackages, a new encryption key
// none.
func TestKeyPackagesEndWithTheirKey(t *testing.T) {
	r := newTestNode(t, withClock(newManualClock(noon).now))
	ctx := context.Background()
	_, ids := r.agents("acme", 2)
	id := ids[0]
	store := func(texts ...string) {
		t.Helper()
		r.upload(id, uploadOf(t, r.node, id, texts...).lastResort("last of "+texts[0]), StoredKeyPackages{Stored: len(texts), Available: len(texts)})
	}
	store("a", "b", "c")
	r.claimed(id, 0)
	must(r.node.Agents.Change(ctx, id, agent.RotateKeys{Encryption: key(8, "next")}))(t)
	expect(t, "with another encryption key", r.counted(id), "2 true")
	must(r.node.Agents.Change(ctx, id, agent.RotateKeys{Signing: key(9, "next")}))(t)
	expect(t, "with another signing key", r.counted(id), "0 false")
	expect(t, "with another signing key", r.claimed(id, 0), "none")
	expect(t, "rows that are left", r.keyPackageRows(), 0)
	store("d", "e")
	r.claimed(id, 0)
	must(r.node.Agents.Change(ctx, id, agent.Revoke{}))(t)
	expect(t, "rows of a revoked agent", r.keyPackageRows(), 0)
	id = ids[1]
	store("f", "g")
	r.verify()
}

func TestKeyPackagesAreErased(t *testing.T) {
	x := newErasure(t, 1, destroysKeys, withClock(newManualClock(noon).now))
	for _, id := range []parley.AgentID{x.g, x.k} {
		x.upload(id, uploadOf(t, x.node, id, "a", "b").lastResort("c"), StoredKeyPackages{Stored: 2, Available: 2})
		x.claimed(id, 0)
	}
	expect(t, "rows before the erasure", x.keyPackageRows(), 6)
	must(x.node.Erasures.Erase(x.ctx, x.gone, [32]byte{1}))(t)
	expect(t, "rows after the erasure", x.keyPackageRows(), 3)
	expect(t, "of another organization", x.counted(x.k), "1 true")
}

// Claims that come at once, and an upload and a rotation between them, hand out nothing
// twice and nothing by a former key.
func TestKeyPackagesClaimedAtOnce(t *testing.T) {
	r := newTestNode(t, withClock(newManualClock(noon).now))
	ctx := context.Background()
	_, ids := r.agents("acme", 1)
	id := ids[0]
	up := uploadOf(t, r.node, id)
	for n := range 40 {
		up.Once = append(up.Once, keyPackageOf(fmt.Sprint(n), 1, keyPackageDays))
	}
	var all sync.WaitGroup
	var lock sync.Mutex
	got := map[string]int{}
	claim := func() {
		c, err := r.node.Agents.ClaimKeyPackage(ctx, id, 0)
		if err != nil && !errors.Is(err, agent.ErrNoKeyPackage) {
			t.Error(err)
		}
		lock.Lock()
		defer lock.Unlock()
		got[string(c.Data)]++
	}
	for round := range 5 {
		for n := range 10 {
			all.Go(claim)
			if n == 5 {
				all.Go(func() {
					if _, err := r.node.Agents.StoreKeyPackages(ctx, id, UploadedKeyPackages{SigningKey: up.SigningKey, Once: up.Once[8*round : 8*round+8]}); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
	all.Wait()
	delete(got, "")
	for data, times := range got {
		if times > 1 {
			t.Errorf("%s was handed out %d times", data, times)
		}
	}
	left, _, err := r.node.Agents.KeyPackages(ctx, id)
	if err != nil || len(got)+left != 40 {
		t.Errorf("of 40, %d were handed out and %d are left, %v", len(got), left, err)
	}
	all.Go(func() { must(r.node.Agents.Change(ctx, id, agent.RotateKeys{Signing: key(9, "next")}))(t) })
	for range 20 {
		all.Go(func() { claim() })
	}
	all.Wait()
	expect(t, "after the rotation", r.claimed(id, 0), "none")
	expect(t, "rows that are left", r.keyPackageRows(), 0)
	r.verify()
}

// keyPackageControls plant faults in what is stored about KeyPackages.
var keyPackageControls = map[string]tamperCase{
	"a KeyPackage is gone":              {func(x *tamperer) { x.dropFirst('R', ofTable(journal.KeyPackageTable)) }, []string{"key-packages"}, false},
	"a claimed KeyPackage is forgotten": {func(x *tamperer) { x.dropFirst('R', ofTable(journal.HandedOutTable)) }, []string{"key-packages"}, false},
	"a KeyPackage is another":           {func(x *tamperer) { x.alter('R', ofTable(journal.KeyPackageTable), flipLast) }, []string{"key-package-content"}, false},
	"a KeyPackage in another slot": {func(x *tamperer) {
		x.move('R', ofTable(journal.KeyPackageTable), func(k []byte) []byte { k[1] ^= 1; return k })
	}, []string{"key-package-content"}, false},
	"a claimed KeyPackage in another slot": {func(x *tamperer) {
		x.move('R', ofTable(journal.HandedOutTable), func(k []byte) []byte { k[1] ^= 1; return k })
	}, []string{"key-package-content"}, false},
	"a KeyPackage became one of last resort": {func(x *tamperer) {
		x.move('R', ofTable(journal.KeyPackageTable), func(k []byte) []byte { k[20] = 1; return k })
	}, []string{"key-packages"}, false},
	"a KeyPackage under a key that nobody writes": {func(x *tamperer) {
		x.move('R', ofTable(journal.KeyPackageTable), func(k []byte) []byte { return k[:40] })
	}, []string{"key-packages", "tables"}, false},
}
