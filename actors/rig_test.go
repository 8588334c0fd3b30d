package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley"
	"parley/actors/agent"
	"parley/actors/host"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/registration"
	"parley/journal"
	"parley/persistence"
)

// hand is a clock that is turned by hand.
type hand struct{ nanos atomic.Int64 }

func newHand(at time.Time) *hand {
	h := &hand{}
	h.nanos.Store(at.UnixNano())
	return h
}

func (h *hand) now() time.Time          { return time.Unix(0, h.nanos.Load()).UTC() }
func (h *hand) advance(d time.Duration) { h.nanos.Add(int64(d)) }

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// rig is a node over a journal in memory.
type rig struct {
	t        testing.TB
	journals int
	clock    parley.Clock
	// wheel is the journal's own clock: the actors', unless that leaps further
	// than a sync may take.
	wheel   parley.Clock
	entropy parley.Entropy
	tune    func(*Node)
	wrap    func(journal.Journal) journal.Journal
	// keep alters how the journal keeps things.
	keep func(*persistence.Options)
	// system is the actor system to live in, nil for one of its own.
	system *host.System

	fs    vfs.FS
	store *persistence.Store
	node  *Node
}

// option alters a rig before it is opened.
type option func(*rig)

func withJournals(n int) option { return func(r *rig) { r.journals = n } }

func withClock(c parley.Clock) option                         { return func(r *rig) { r.clock = c } }
func withWrap(f func(journal.Journal) journal.Journal) option { return func(r *rig) { r.wrap = f } }

// withTuning changes a node before it starts, as those given before it do.
func withTuning(f func(*Node)) option {
	return func(r *rig) {
		before := r.tune
		r.tune = func(n *Node) {
			if before != nil {
				before(n)
			}
			f(n)
		}
	}
}

func newRig(t testing.TB, options ...option) *rig {
	r := &rig{t: t, journals: 1, clock: time.Now, entropy: parley.CountingEntropy(), fs: vfs.NewMem()}
	for _, o := range options {
		o(r)
	}
	if r.wheel == nil {
		r.wheel = r.clock
	}
	r.open()
	t.Cleanup(func() {
		r.audit()
		r.close()
	})
	return r
}

func (r *rig) open() {
	r.t.Helper()
	if err := r.begin("data"); err != nil {
		r.t.Fatal(err)
	}
}

// begin opens the journal in dir and brings a node to life over it.
func (r *rig) begin(dir string) error {
	logger := slog.New(slog.DiscardHandler)
	options := persistence.Options{
		FS: r.fs, Journals: r.journals, Clock: r.wheel, Logger: logger, CacheBytes: 8 << 20, MemTableBytes: 8 << 20,
		// Pebble's own shutdown must not take the test process along.
		Fatal: func(err error) { panic(err) },
	}
	if r.keep != nil {
		r.keep(&options)
	}
	store, err := persistence.Open(dir, options)
	if err != nil {
		return err
	}
	j := journal.Journal(store)
	if r.wrap != nil {
		j = r.wrap(j)
	}
	r.store, r.node = store, New(Options{Journal: j, Clock: r.clock, Entropy: r.entropy, Logger: logger, system: r.system})
	if r.tune != nil {
		r.tune(r.node)
	}
	return r.node.Start()
}

func (r *rig) close() {
	if err := r.end(); err != nil {
		r.t.Error(err)
	}
}

// end closes the node, if it is open, and its journal.
func (r *rig) end() error {
	if r.node == nil {
		return nil
	}
	r.node.Close()
	r.node = nil
	return r.store.Close()
}

// restart closes everything and opens it on the same files.
func (r *rig) restart() {
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

// challengeFor is a challenge of its own for a slug, unless that is taken.
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

// challenge asks for a challenge that any nonce solves.
func (r *rig) challenge(slug string) (*registration.Challenge, error) {
	return challengeFor(r.node, slug, fmt.Sprintf("%x", r.node.entropy()), 0, time.Hour)
}

func (r *rig) solve(c *registration.Challenge) (Registered, error) {
	return r.node.Orgs.Register(context.Background(), Solution{Challenge: c, Nonce: "n", Tier: 1, SecretHash: []byte("hash")})
}

// org registers an organization.
func (r *rig) org(slug string) Registered {
	r.t.Helper()
	return must(r.solve(must(r.challenge(slug))(r.t)))(r.t)
}

// key is a raw key that no other number gives.
func key(n byte, name string) []byte {
	k := make([]byte, 32)
	k[0] = n
	copy(k[1:], name)
	return k
}

func (r *rig) create(owner parley.OrgID, name string) (*agent.State, error) {
	return r.node.Agents.Create(context.Background(), NewAgent{Create: agent.Create{
		OrgID: owner, Name: name, SigningKey: key(1, name), EncryptionKey: key(2, name), PollTokenHash: key(3, name),
	}})
}

// agent creates an agent.
func (r *rig) agent(owner parley.OrgID, name string) parley.AgentID {
	r.t.Helper()
	return must(r.create(owner, name))(r.t).AgentID()
}

// agents creates an organization with agents a0, a1, …
func (r *rig) agents(slug string, n int) (parley.OrgID, []parley.AgentID) {
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

// direct is a send whose content is text.
func direct(owner parley.OrgID, from, to parley.AgentID, text, key string) DirectSend {
	return DirectSend{
		Content: Content{Type: "svc.v1.dm", Rendered: []byte(text), Key: key, FromOrg: owner, ToOrg: owner},
		From:    from, To: to, ToKnown: true,
	}
}

// answerTo is a reply to a message by the agent that it was sent to.
func answerTo(owner parley.OrgID, m *record.Message, text, key string) ReplyTo {
	return ReplyTo{
		Content:      Content{Type: "svc.v1.dm", Rendered: []byte(text), Key: key, FromOrg: owner, ToOrg: owner},
		Conversation: m.Conversation(), From: m.Recipient(), To: m.Sender(), Original: m.MessageID(),
	}
}

func (r *rig) send(s DirectSend) (Posted, error) {
	return r.node.Messages.Send(context.Background(), s)
}

func (r *rig) reply(a ReplyTo) (Posted, error) { return r.node.Messages.Reply(context.Background(), a) }

// transcript is all of a conversation, in its order.
func (r *rig) transcript(id parley.ConversationID) []query.Message {
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

// inbox is all that an agent received, newest first.
func (r *rig) inbox(id parley.AgentID) []query.Message {
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

// eventually waits for a condition that follows by itself.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after ten seconds still not: %s", what)
		}
	}
}
