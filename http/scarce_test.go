package http

import (
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors"
	"parley/client/parley"
	"parley/http/a2a"
	"parley/http/auth"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/seal/sealtest"
	"parley/persistence/sealed"
)

// TestReadsOnFullDisk: with a full disk, every route that reads organizations and
// groups works, those that write are refused, and work again once there is room.
func TestReadsOnFullDisk(t *testing.T) {
	g := newGroupHarness(t)
	id := g.group("ops", `,"enrollment_policy":"open"`)
	g.first.ask("POST", "/groups/"+id+"/join", `{}`, as("art")).want(200)
	g.first.ask("PATCH", "/groups/"+id, `{"enrollment_policy":"majority"}`).want(200)
	g.second.ask("POST", "/groups/"+id+"/join", `{}`).want(200).is(map[string]any{"status": "pending"})
	asked := g.first.ask("GET", "/groups/"+id+"/requests", "").want(200).text("items.0.id")
	private := g.group("closed", "")
	g.first.ask("POST", "/groups/"+private+"/invite", `{"agent_id":"`+g.bob+`"}`, as("ann")).want(200)
	said := `{"to_handle":"#ops@first.home.example","type":"svc.v1.dm","encrypted_payload":"AA"}`
	talk := "/conversations/" + g.first.ask("POST", "/messages", said, as("ann")).want(201).text("conversation_id")

	g.journal.full.Store(true)
	for _, path := range []string{
		"/org", "/org/quotas", "/groups", "/groups?scope=all", "/groups/invites", "/groups/" + id, "/groups/" + id + "/members",
		"/groups/" + id + "/requests", "/groups/" + id + "/requests?status=all", "/directory/groups", "/directory/groups/" + id,
		talk, talk + "/participants", talk + "/messages",
	} {
		g.first.ask("GET", path, "").want(200)
	}
	if invited := g.second.ask("GET", "/groups/invites", "").want(200); invited.len("") != 1 {
		t.Errorf("the invitations are %s", invited.raw)
	}
	writes := []struct{ method, path, body, by string }{
		{"PATCH", "/org", `{"name":"Second"}`, "ann"},
		{"POST", "/org/credentials", "", "ann"},
		{"POST", "/groups", `{"name":"late"}`, "ann"},
		{"PATCH", "/groups/" + id, `{"description":"new"}`, "ann"},
		{"POST", "/groups/" + id + "/requests/" + asked + "/vote", `{"vote":"approve"}`, "ann"},
		{"POST", "/groups/" + id + "/requests/" + asked + "/vote", `{"vote":"approve"}`, "art"},
		{"POST", "/messages", said, "ann"},
	}
	for _, w := range writes {
		a := g.first.ask(w.method, w.path, w.body, as(w.by)).want(503, "overloaded")
		if s, err := strconv.Atoi(a.head.Get("Retry-After")); err != nil || s < 1 {
			t.Errorf("%s: Retry-After is %q", a.what, a.head.Get("Retry-After"))
		}
	}
	g.first.ask("GET", "/groups/"+id, "").want(200).is(map[string]any{"description": nil, "member_count": 2})
	g.journal.full.Store(false)
	for _, w := range writes {
		if a := g.first.ask(w.method, w.path, w.body, as(w.by)); a.status/100 != 2 {
			t.Errorf("%s: once there is room again it is answered %d %s", a.what, a.status, a.raw)
		}
	}
	g.first.ask("GET", "/groups/"+id, "").want(200).is(map[string]any{"description": "new", "member_count": 3})
}

// TestSigningKeysOnFullDisk: the first keys need room on the disk, existing keys do
// not. A rotation without room leaves the keys in force and is repeated later.
func TestSigningKeysOnFullDisk(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	clock := func() time.Time { return time.Unix(0, now.Load()) }
	entropy, logger := parley.CountingEntropy(), slog.New(slog.DiscardHandler)
	store, err := persistence.Open("data", persistence.Options{FS: vfs.NewMem(), Clock: time.Now, Logger: logger, CacheBytes: 8 << 20, MemTableBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	j := &harnessJournal{Journal: sealed.New(store.Journal, sealtest.Sealer())}
	n := actors.New(actors.Options{Journal: journal.Of(j), Clock: clock, Entropy: entropy, Logger: logger})
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close(); _ = store.Close() })
	master, err := auth.NewMasterKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	keys := func() (auth.KeySet, error) { return SigningKeys(t.Context(), n.Keys, master, 0, clock, entropy) }

	j.full.Store(true)
	if _, err := keys(); !errors.Is(err, parley.ErrOverloaded) {
		t.Fatalf("without room, creating the first keys gives %v", err)
	}
	j.full.Store(false)
	first, err := keys()
	if err != nil {
		t.Fatal(err)
	}
	j.full.Store(true)
	if held, err := keys(); err != nil || !sameKeys(held, first) {
		t.Errorf("without room, loading the existing keys gives %v, %v", held.Current.Kid, err)
	}
	now.Add(int64(parley.SigningKeyLifetime))
	if held, err := keys(); err != nil || !sameKeys(held, first) {
		t.Errorf("without room, loading keys that are due for replacement gives %v, %v", held.Current.Kid, err)
	}
	s := &Service{core: &core{
		ServiceOptions: ServiceOptions{Node: n, Clock: clock, Entropy: entropy, Issuer: auth.NewIssuer("a", "a", first, clock, entropy)},
		bridgeCards:    a2a.NewCards(a2a.CardOptions{Clock: clock}), receiptKeys: newReceiptKeys(n.ReceiptKeys, auth.KeySet{}),
	}}
	if err := s.RenewKeys(t.Context(), master); !errors.Is(err, parley.ErrOverloaded) || !sameKeys(s.Issuer.Keys(), first) {
		t.Errorf("without room, a renewal gives %v and signs with %v", err, s.Issuer.Keys().Current.Kid)
	}
	j.full.Store(false)
	for range 2 {
		if err := s.RenewKeys(t.Context(), master); err != nil {
			t.Errorf("with room again, a renewal gives %v", err)
		}
		if held := s.Issuer.Keys(); held.Current.Kid != first.Current.Kid || len(held.Others) != 1 {
			t.Errorf("with room again, %d keys besides the signing key are published", len(held.Others))
		}
		now.Add(int64(time.Minute))
	}
	now.Add(int64(parley.SigningKeyPublication))
	if err := s.RenewKeys(t.Context(), master); err != nil || s.Issuer.Keys().Current.Kid == first.Current.Kid {
		t.Errorf("after the other nodes have learnt the new key, it does not sign: %v", err)
	}
}

// TestStaleRenewalKeepsNewKeys: a renewal that read the keys before another rotation
// does not put the older keys back into use.
func TestStaleRenewalKeepsNewKeys(t *testing.T) {
	entropy, logger := parley.CountingEntropy(), slog.New(slog.DiscardHandler)
	store, err := persistence.Open("data", persistence.Options{FS: vfs.NewMem(), Clock: time.Now, Logger: logger, CacheBytes: 8 << 20, MemTableBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	n := actors.New(actors.Options{Journal: journal.Of(&harnessJournal{Journal: sealed.New(store.Journal, sealtest.Sealer())}), Clock: time.Now, Entropy: entropy, Logger: logger})
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close(); _ = store.Close() })
	master, err := auth.NewMasterKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	first, err := SigningKeys(t.Context(), n.Keys, master, 0, time.Now, entropy)
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{core: &core{
		ServiceOptions: ServiceOptions{Node: n, Entropy: entropy, Issuer: auth.NewIssuer("a", "a", first, time.Now, entropy)},
		bridgeCards:    a2a.NewCards(a2a.CardOptions{Clock: time.Now}), receiptKeys: newReceiptKeys(n.ReceiptKeys, auth.KeySet{}),
	}}
	rotated, asked := make(chan string, 1), atomic.Bool{}
	s.Clock = func() time.Time { // a renewal reads the time after it has read the keys
		if !asked.Swap(true) {
			go func() {
				one, err := s.RotateKeys(t.Context(), master, true)
				if err != nil {
					t.Error(err)
				}
				rotated <- one.Kid
			}()
			select { // a rotation that does not wait for the renewal ends meanwhile
			case kid := <-rotated:
				rotated <- kid
			case <-time.After(time.Second):
			}
		}
		return time.Now()
	}
	if err := s.RenewKeys(t.Context(), master); err != nil {
		t.Fatal(err)
	}
	if kid := <-rotated; s.Issuer.Keys().Current.Kid != kid {
		t.Errorf("the key %s that was rotated to does not sign", kid)
	}
}
