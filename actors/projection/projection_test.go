package projection

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/directory"
	"parley/actors/directory/embed"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/registration"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/seal"
	"parley/persistence/seal/sealtest"
	"parley/persistence/sealed"
)

// flaky is a provider that can fail.
type flaky struct {
	embed.Embedder
	fails atomic.Bool
	id    string
	texts atomic.Int64 // how many it got
}

func (f *flaky) ID() string { return f.Embedder.ID() + f.id }

func (f *flaky) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	f.texts.Add(int64(len(texts)))
	if f.fails.Load() {
		return nil, errors.New("the provider is away")
	}
	return f.Embedder.Embed(ctx, texts)
}

// scene is a node with a directory.
type scene struct {
	t        *testing.T
	fs       *vfs.MemFS
	entropy  parley.Entropy
	embedder *flaky
	sealer   *seal.Sealer
	store    *persistence.Store
	node     *actors.Node
	journal  journal.Journal
	d        *Directory
	// checkpoint: there is one, and log has what the directory logs; plain: it is not
	// sealed; sameVersions: all versions are equal. The last two are controls.
	checkpoint, plain, sameVersions bool
	log                             *logged
}

// blindJournal has views in which all versions are equal.
type blindJournal struct{ journal.Journal }

func (j blindJournal) View() journal.View { return journal.ViewOf(blindView{j.Journal.View()}) }

type blindView struct{ journal.View }

func (blindView) Version(journal.Stream) (uint64, error) { return 1, nil }

func newScene(t *testing.T) *scene {
	s := &scene{t: t, fs: vfs.NewCrashableMem(), entropy: parley.CountingEntropy(), embedder: &flaky{Embedder: embed.NewConcepts()}, sealer: sealtest.Sealer()}
	s.open()
	t.Cleanup(func() { s.close() })
	return s
}

func (s *scene) open() {
	s.t.Helper()
	logger := slog.New(slog.DiscardHandler)
	var err error
	if s.store, err = persistence.Open("data", persistence.Options{FS: s.fs, Journals: 2, Clock: time.Now, Logger: logger, CacheBytes: 8 << 20, MemTableBytes: 8 << 20}); err != nil {
		s.t.Fatal(err)
	}
	s.journal = sealed.New(s.store.Journal, s.sealer)
	if s.sameVersions {
		s.journal = journal.Of(blindJournal{s.journal})
	}
	s.node = actors.New(actors.Options{Journal: s.journal, Clock: time.Now, Entropy: s.entropy, Logger: logger})
	if err := s.node.Start(); err != nil {
		s.t.Fatal(err)
	}
	o := Options{Journal: s.journal, Embedder: s.embedder, Clock: time.Now, Entropy: s.entropy, Logger: logger, Domain: "home.example"}
	if s.checkpoint {
		file := sealed.NewFile(s.fs, "directory.checkpoint", s.sealer)
		o.Checkpoint = file
		if s.plain {
			o.Checkpoint = plainFile{file}
		}
		o.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	}
	s.d = Open(o)
}

func (s *scene) close() {
	s.d.Close()
	s.node.Close()
	if err := s.store.Close(); err != nil {
		s.t.Error(err)
	}
}

// org registers an organization of tier 0.
func (s *scene) org(slug string) parley.OrgID {
	s.t.Helper()
	made, err := s.node.Orgs.Register(s.t.Context(), actors.Solution{
		Nonce: "n", SecretHash: []byte("hash"),
		Challenge: &registration.Challenge{Text: slug, Email: slug + "@a.example", Slug: slug, OrgName: slug, ExpiresMs: time.Now().Add(time.Hour).UnixMilli()},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return made.Org.OrgID()
}

func (s *scene) agent(owner parley.OrgID, name string) parley.AgentID {
	s.t.Helper()
	key := func(n byte) []byte {
		return append(append(make([]byte, 0, 32), n), []byte(name + "0123456789abcdef0123456789abcdef")[:31]...)
	}
	made, err := s.node.Agents.Create(s.t.Context(), actors.NewAgent{Create: agent.Create{OrgID: owner, Name: name, SigningKey: key(1), EncryptionKey: key(2), PollTokenHash: key(3)}})
	if err != nil {
		s.t.Fatal(err)
	}
	return made.AgentID()
}

func (s *scene) publish(id parley.AgentID, public bool, name, description string) {
	s.t.Helper()
	if _, err := s.node.Agents.PublishCard(s.t.Context(), id, agent.PublishCard{Public: public}, &record.Card{Name: name, Description: description}); err != nil {
		s.t.Fatal(err)
	}
}

// change applies a command to an agent.
func (s *scene) change(id parley.AgentID, c agent.Command) {
	s.t.Helper()
	if _, err := s.node.Agents.Change(s.t.Context(), id, c); err != nil {
		s.t.Fatal(err)
	}
}

// found returns the agents that a query finds.
func (s *scene) found(q directory.Query) (ids []parley.AgentID) {
	s.t.Helper()
	q.Limit = 100
	r, err := s.d.Agents(q)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, row := range r.Rows {
		ids = append(ids, parley.AgentID(row.ID))
	}
	return ids
}

// finds waits until a query finds these agents and no others. Their order is not compared:
// cards of the same millisecond are in the order of their ids.
func (s *scene) finds(what string, q directory.Query, want ...parley.AgentID) {
	s.t.Helper()
	inOrder := func(a, b parley.AgentID) int { return bytes.Compare(a[:], b[:]) }
	slices.SortFunc(want, inOrder)
	var got []parley.AgentID
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(2 * time.Millisecond) {
		got = s.found(q)
		if slices.SortFunc(got, inOrder); slices.Equal(got, want) {
			return
		}
	}
	s.t.Errorf("%s: found %v, want %v", what, got, want)
}

// TestDirectoryFollowsTheJournal: what the directory may show is found, and nothing else is.
func TestDirectoryFollowsTheJournal(t *testing.T) {
	s := newScene(t)
	owner := s.org("acme")
	clerk, scribe := s.agent(owner, "clerk"), s.agent(owner, "scribe")
	all, unverified, verified := directory.Query{}, directory.Query{Verified: new(false)}, directory.Query{Verified: new(true)}
	s.publish(clerk, true, "Invoice clerk", "Writes bills.")
	s.finds("a published card", directory.Query{Text: "invoice"}, clerk)
	s.publish(scribe, false, "Hidden scribe", "Writes letters.")
	s.publish(clerk, true, "Invoice clerk", "Writes receipts.")
	s.finds("a changed card", directory.Query{Text: "receipts"}, clerk)
	s.finds("a card that is not public", directory.Query{Text: "letters"})
	s.publish(scribe, true, "Shown scribe", "Writes letters.")
	s.finds("a card that is public now", directory.Query{Text: "letters"}, scribe)
	s.change(scribe, agent.Change{Unlisted: new(true)})
	s.finds("an unlisted agent's card", all, clerk)
	s.change(scribe, agent.Change{Unlisted: new(false)})
	s.finds("a listed agent's card", directory.Query{Text: "letters"}, scribe)
	s.finds("cards of tier 0", unverified, scribe, clerk)
	if _, err := s.node.Orgs.SetTerms(t.Context(), owner, org.GrantTier{Tier: 1}); err != nil {
		t.Fatal(err)
	}
	s.finds("cards of tier 1", verified, scribe, clerk)
	s.finds("cards of tier 0, of which there are none now", unverified)
	s.change(clerk, agent.WithdrawCard{})
	s.finds("a withdrawn card", all, scribe)
	s.close()
	s.open()
	s.finds("a card after a restart", verified, scribe)
	s.change(scribe, agent.Revoke{})
	s.finds("a revoked agent's card", all)
}

// TestProviderFails: while the provider of vectors fails, words find cards; its vectors
// are made later.
func TestProviderFails(t *testing.T) {
	s := newScene(t)
	s.embedder.fails.Store(true)
	clerk := s.agent(s.org("acme"), "clerk")
	s.publish(clerk, true, "Invoice clerk", "Writes bills for customers.")
	s.finds("by words", directory.Query{Text: "invoice"}, clerk)
	if _, _, err := s.d.Meaning(t.Context(), "accounting"); err == nil {
		t.Error("a query has a vector without a provider")
	}
	s.embedder.fails.Store(false)
	vector, threshold, err := s.d.Meaning(t.Context(), "invoices for customers")
	if err != nil {
		t.Fatal(err)
	}
	q := directory.Query{Vector: vector, Threshold: threshold}
	for began := time.Now(); len(s.found(q)) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the card never got a vector")
		}
	}
}
