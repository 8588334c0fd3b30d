package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/actors/agent"
	"parley/actors/host"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/registration"
	actorsverify "parley/actors/verify"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
	"parley/persistence/layout"
	"parley/persistence/seal"
	"parley/persistence/seal/sealtest"
	"parley/persistence/sealed"
	rowverify "parley/persistence/verify"
)

// manualClock is a clock that moves only when a test advances it.
type manualClock struct{ nanos atomic.Int64 }

func newManualClock(at time.Time) *manualClock {
	h := &manualClock{}
	h.nanos.Store(at.UnixNano())
	return h
}

func (h *manualClock) now() time.Time          { return time.Unix(0, h.nanos.Load()).UTC() }
func (h *manualClock) advance(d time.Duration) { h.nanos.Add(int64(d)) }

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// testSealer seals what test nodes store. Every organization has a key.
var testSealer = sealtest.Sealer()

// testArchive is an archive whose contents are open.
type testArchive interface {
	actorsverify.Entries
	actorsverify.Lists
	actorsverify.Places
	rowverify.Source
	Pairs(fn func(key, value []byte) error) error
	Close() error
}

// clearArchive is an archive of a store in which nothing is sealed.
type clearArchive struct{ *persistence.Archive }

func (clearArchive) HiddenKey(_ journal.Table, key []byte) []byte { return key }
func (clearArchive) HiddenStream(s journal.Stream) journal.Stream { return s }
func (a clearArchive) HiddenRow(slot parley.Slot, table journal.Table, key []byte) ([]byte, bool, error) {
	return a.Row(slot, table, key)
}

// openArchive opens an archive of a test node's store.
func (r *testNode) openArchive(a *persistence.Archive) testArchive {
	if r.clear {
		return clearArchive{a}
	}
	return sealed.NewArchive(a, cmp.Or(r.sealer, testSealer))
}

// archive shows what the store has now.
func (r *testNode) archive() testArchive { return r.openArchive(r.store.Archive()) }

// testNode is a node over a real journal on a disk in memory.
type testNode struct {
	t        testing.TB
	journals int
	clock    parley.Clock
	// journalClock is the journal's own clock. It is the actors' clock, unless that
	// jumps further than a sync may take.
	journalClock parley.Clock
	entropy      parley.Entropy
	tune         func(*Node)
	wrap         func(journal.Journal) journal.Journal
	// tuneStore alters the options of the journal.
	tuneStore func(*persistence.Options)
	// system is the actor system of the node, nil for a system of its own.
	system *host.System

	// clear: nothing is sealed, so that a test can change what is stored.
	clear bool
	// sealer seals what is stored; erasable nodes have keys of their own.
	sealer *seal.Sealer
	keys   *sealtest.Keys
	// erased: an organization was erased, so that a verification cannot read everything.
	erased atomic.Bool

	// replicas, if set, serve in place of one node.
	replicas *testReplicas

	fs vfs.FS
	// dir is the data directory, "data" if it is empty.
	dir   string
	store *persistence.Store
	// contents is the store as the node reads it, before wrap.
	contents journal.Journal
	node     *Node
}

// option changes a test node before it is opened.
type option func(*testNode)

// inTheClear stores contents unsealed, so that a test can change them in the engine.
func inTheClear(r *testNode) { r.clear = true }

func withJournals(n int) option { return func(r *testNode) { r.journals = n } }

func withClock(c parley.Clock) option { return func(r *testNode) { r.clock = c } }
func withWrap(f func(journal.Journal) journal.Journal) option {
	return func(r *testNode) { r.wrap = f }
}

// withTuning changes a node before it starts, after earlier options have changed it.
func withTuning(f func(*Node)) option {
	return func(r *testNode) {
		before := r.tune
		r.tune = func(n *Node) {
			if before != nil {
				before(n)
			}
			f(n)
		}
	}
}

func newTestNode(t testing.TB, options ...option) *testNode {
	r := &testNode{t: t, journals: 1, clock: time.Now, entropy: parley.CountingEntropy(), fs: vfs.NewMem(), sealer: testSealer}
	for _, o := range options {
		o(r)
	}
	if r.journalClock == nil {
		r.journalClock = r.clock
	}
	r.open()
	t.Cleanup(func() {
		r.verify()
		r.close()
	})
	return r
}

// homes says which journal is the home of a slot.
func (r *testNode) homes() layout.Homes { return layout.Homes(r.journals) }

func (r *testNode) open() {
	r.t.Helper()
	if err := r.start(cmp.Or(r.dir, "data")); err != nil {
		r.t.Fatal(err)
	}
}

// start opens the journal in dir and starts a node on it.
func (r *testNode) start(dir string) error {
	if r.sealer == nil {
		r.sealer = testSealer
	}
	logger := slog.New(slog.DiscardHandler)
	options := persistence.Options{
		FS: r.fs, Journals: r.journals, Clock: r.journalClock, Logger: logger, CacheBytes: 8 << 20, MemTableBytes: 8 << 20, StallPatience: time.Minute,
		// A shutdown by Pebble must not end the test process.
		Fatal: func(err error) { panic(err) },
	}
	if r.tuneStore != nil {
		r.tuneStore(&options)
	}
	if r.replicas != nil {
		return r.replicas.start(r, dir, options)
	}
	store, err := persistence.Open(dir, options)
	if err != nil {
		return err
	}
	r.contents = store.Journal
	if !r.clear {
		r.contents = sealed.New(store.Journal, r.sealer)
	}
	j := r.contents
	if r.wrap != nil {
		j = r.wrap(j)
	}
	r.store, r.node = store, New(Options{Journal: j, Clock: r.clock, Entropy: r.entropy, Logger: logger, system: r.system})
	watchAsks(r.t, r.node)
	r.node.engine.GatherMax = 0 // a test with hundreds of restarts would wait for it each time
	if r.tune != nil {
		r.tune(r.node)
	}
	return r.node.Start()
}

func (r *testNode) close() {
	if err := r.stop(); err != nil {
		r.t.Error(err)
	}
}

// stop closes the node, if it is open, and its journal.
func (r *testNode) stop() error {
	if r.node == nil {
		return nil
	}
	if r.replicas != nil {
		r.node = nil
		return r.replicas.stop()
	}
	r.node.Close()
	r.node = nil
	return r.store.Close()
}

// restart closes everything and opens it on the same files.
func (r *testNode) restart() {
	r.t.Helper()
	r.close()
	r.open()
}

// must fails the test on an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// challengeFor returns a new challenge for a slug, or ErrSlugTaken.
func challengeFor(n *Node, slug, text string, difficulty int, life time.Duration) (*registration.Challenge, error) {
	_, err := n.Orgs.BySlug(context.Background(), slug)
	switch {
	case err == nil:
		return nil, registration.ErrSlugTaken
	case !errors.Is(err, parley.ErrNotFound):
		return nil, err
	}
	return &registration.Challenge{
		Text: text, Email: slug + "@example.org", Slug: slug, OrgName: slug, Difficulty: uint32(difficulty), ExpiresMs: n.clock().Add(life).UnixMilli(),
	}, nil
}

// challenge returns a challenge that any nonce solves.
func (r *testNode) challenge(slug string) (*registration.Challenge, error) {
	return challengeFor(r.node, slug, fmt.Sprintf("%x", r.node.entropy()), 0, time.Hour)
}

func (r *testNode) solve(c *registration.Challenge) (Registered, error) {
	return r.node.Orgs.Register(context.Background(), Solution{Challenge: c, Nonce: "n", Tier: 1, SecretHash: []byte("hash")})
}

// org registers an organization.
func (r *testNode) org(slug string) Registered {
	r.t.Helper()
	return must(r.solve(must(r.challenge(slug))(r.t)))(r.t)
}

// key returns a raw key that differs for each number and name.
func key(n byte, name string) []byte {
	k := make([]byte, 32)
	k[0] = n
	copy(k[1:], name)
	return k
}

func (r *testNode) create(owner parley.OrgID, name string) (*agent.State, error) {
	return r.node.Agents.Create(context.Background(), NewAgent{Create: agent.Create{
		OrgID: owner, Name: name, SigningKey: key(1, name), EncryptionKey: key(2, name), PollTokenHash: key(3, name),
	}})
}

// agent creates an agent.
func (r *testNode) agent(owner parley.OrgID, name string) parley.AgentID {
	r.t.Helper()
	return must(r.create(owner, name))(r.t).AgentID()
}

// agents creates an organization with agents a0, a1, …
func (r *testNode) agents(slug string, n int) (parley.OrgID, []parley.AgentID) {
	r.t.Helper()
	owner := r.org(slug).Org.OrgID()
	ids := make([]parley.AgentID, n)
	var making sync.WaitGroup
	atOnce := make(chan struct{}, 100) // fewer than a slow journal admits
	for i := range ids {
		making.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			if a, err := r.create(owner, fmt.Sprintf("a%d", i)); err != nil {
				r.t.Error(err)
			} else {
				ids[i] = a.AgentID()
			}
		})
	}
	making.Wait()
	return owner, ids
}

// direct returns a direct send with the given text.
func direct(owner parley.OrgID, from, to parley.AgentID, text, key string) DirectSend {
	return DirectSend{
		Content: Content{Type: "svc.v1.dm", Body: []byte(text), Key: key, FromOrg: owner, ToOrg: owner},
		From:    from, To: to, ToKnown: true,
	}
}

// answerTo returns a reply to m by its recipient.
func answerTo(owner parley.OrgID, m *record.Message, text, key string) ReplyTo {
	return ReplyTo{
		Content:      Content{Type: "svc.v1.dm", Body: []byte(text), Key: key, FromOrg: owner, ToOrg: owner},
		Conversation: m.Conversation(), From: m.Recipient(), To: m.Sender(), Original: m.MessageID(),
	}
}

func (r *testNode) send(s DirectSend) (Posted, error) {
	return r.node.Messages.Send(context.Background(), s)
}

func (r *testNode) reply(a ReplyTo) (Posted, error) {
	return r.node.Messages.Reply(context.Background(), a)
}

// transcript returns all messages of a conversation in order.
func (r *testNode) transcript(id parley.ConversationID) []query.Message {
	r.t.Helper()
	var all []query.Message
	for from := uint64(0); ; {
		page, next, err := r.node.Messages.Transcript(context.Background(), id, from, 200, false, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		if all = append(all, page...); next == 0 {
			return all
		}
		from = next
	}
}

// inbox returns all messages that an agent received, newest first.
func (r *testNode) inbox(id parley.AgentID) []query.Message {
	r.t.Helper()
	var all []query.Message
	for before := uint64(0); ; {
		page, next, err := r.node.Messages.Inbox(context.Background(), id, before, 100, "", nil)
		if err != nil {
			r.t.Fatal(err)
		}
		if all = append(all, page...); next == 0 {
			return all
		}
		before = next
	}
}

// eventually waits up to 30 s for a condition.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after ten seconds: %s", what)
		}
	}
}
