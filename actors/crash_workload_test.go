package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/host"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/registration"
	"parley/client/parley"
	"parley/journal"
	"parley/persistence"
)

// crashDir is two levels below an existing directory, as a data directory may be.
const crashDir = "data/journal"

// workload runs clients on real actors and records their answers.
type workload struct {
	t        testing.TB
	journals int
	clock    parley.Clock
	entropy  parley.Entropy
	system   *host.System
	// patience is how long the checks wait for pending effects.
	patience time.Duration
	running  *testNode // of the current life

	mu     sync.Mutex
	claims []claim
	// claimedBefore holds claims that need not be recorded again.
	claimedBefore map[any]bool
	// answers counts answers by the code of the refusal; "" means success.
	answers map[string]int
	// What was requested, acknowledged or not. It is recorded before the request.
	slugs      []string
	challenges []*registration.Challenge
	names      []fullName
	attempts   []attempt
	// What was acknowledged.
	orgs   []parley.OrgID
	agents map[parley.AgentID]*crashAgent
	active []*crashAgent
	pool   []*record.Message
	serial int
	workloadGroups
	crashMLS
}

// crashAgent is an agent whose creation was acknowledged. versions are the
// fingerprints of its states, each recorded before the change is requested.
type crashAgent struct {
	id       parley.AgentID
	owner    parley.OrgID
	name     string
	versions []string
	// lost is set if the outcome of a change is unknown; no more changes follow.
	lost bool
}

// attemptKey is an idempotency key in its scope: the sender, and the conversation
// unless it is a new one.
type attemptKey struct {
	from parley.AgentID
	in   parley.ConversationID
	key  string
}

// attempt is a send or a reply under a key.
type attempt struct {
	attemptKey
	send  DirectSend
	reply ReplyTo
}

func newWorkload(t testing.TB, journals int) *workload {
	began := time.Now()
	return &workload{
		t: t, journals: journals, entropy: parley.CountingEntropy(), agents: map[parley.AgentID]*crashAgent{}, claimedBefore: map[any]bool{}, answers: map[string]int{},
		patience: 10 * time.Second,
		clock:    func() time.Time { return noon.Add(time.Since(began)) },
		system:   host.NewSystem(slog.New(slog.DiscardHandler)),
	}
}

// claim records what an answer showed.
func (w *workload) claim(c ...claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims = append(w.claims, c...)
}

// claimOnce records what an answer showed, unless it is already recorded.
func (w *workload) claimOnce(what any, c claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.claimedBefore[what] {
		w.claimedBefore[what] = true
		w.claims = append(w.claims, c)
	}
}

// claimed returns the number of claims.
func (w *workload) claimed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.claims)
}

// knownAt returns what the first n claims say.
func (w *workload) knownAt(n int) *knownFacts {
	w.mu.Lock()
	claims := w.claims[:n:n]
	w.mu.Unlock()
	k := newKnownFacts()
	for _, c := range claims {
		c(k)
	}
	return k
}

// smallFiles makes files small, so that little work causes flushes, compactions and
// new logs, and opening is cheap.
func smallFiles(o *persistence.Options) {
	o.CacheBytes, o.MemTableBytes = 1<<20, 48<<10
}

// unopenedNode returns a test node of this workload that is not open yet.
func (w *workload) unopenedNode() *testNode {
	return &testNode{t: w.t, journals: w.journals, clock: w.clock, journalClock: w.clock, entropy: w.entropy, tuneStore: smallFiles, system: w.system}
}

func (w *workload) agentOf(id parley.AgentID) *crashAgent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.agents[id]
}

// next returns a new serial number.
func (w *workload) next() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serial++
	return w.serial
}

// answered reports whether err is an answer: nil, or one of the given refusals. Errors
// that leave the outcome open are not.
func (w *workload) answered(err error, refusals ...error) bool {
	w.t.Helper()
	refusal := (*parley.Refusal)(nil)
	code := ""
	if errors.As(err, &refusal) {
		code = refusal.Code
	}
	w.mu.Lock()
	w.answers[code]++
	w.mu.Unlock()
	switch {
	case err == nil:
		return true
	case errors.Is(err, parley.ErrOverloaded), errors.Is(err, parley.ErrOutcomeUnknown):
		return false
	}
	for _, r := range refusals {
		if errors.Is(err, r) {
			return true
		}
	}
	w.t.Errorf("unexpected answer: %v", err)
	return false
}

// fingerprint identifies one version of an agent.
func fingerprint(s *agent.State) string {
	return fmt.Sprintf("%x %x %v %v %v %v", s.GetSigningKey(), s.GetPollTokenHash(), s.GetHumanOversight(), s.GetUnlisted(), s.GetIncomingPolicy(), s.Revoked())
}

// version returns the index of a state that was shown.
func (a *crashAgent) version(s *agent.State) int { return slices.Index(a.versions, fingerprint(s)) }

// sawAgent records a state that was shown.
func (w *workload) sawAgent(s *agent.State) {
	id := s.AgentID()
	a := w.agentOf(id)
	if a == nil {
		return // its creation is not acknowledged yet
	}
	w.mu.Lock()
	version := a.version(s)
	w.mu.Unlock()
	if version < 0 {
		w.t.Errorf("agent %s has a state that no client requested: %s", a.name, fingerprint(s))
		return
	}
	w.claimOnce(shownAgent{id, version}, func(k *knownFacts) { k.agent(id, version) })
}

// shownOnce identifies a message as a client was shown it.
type shownOnce struct {
	id       parley.MessageID
	position uint64
	marks    journal.Receipts
	sent     bool
}

// sawMessages records messages that were shown.
func (w *workload) sawMessages(shown ...query.Message) {
	for _, m := range shown {
		w.claimOnce(shownOnce{m.Record.MessageID(), m.Position, m.Receipts, false}, func(k *knownFacts) { k.message(m) })
	}
}

// shownAgent is a version of an agent that was shown.
type shownAgent struct {
	id      parley.AgentID
	version int
}

// work runs writers for a number of rounds, concurrently, beside readers.
func (w *workload) work(rounds int, seed uint64) {
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	started := slices.Clone(w.active)
	for i, do := range []func(*client){
		(*client).administer, (*client).administer, (*client).converse, (*client).converse, (*client).converse,
		(*client).useGroups, (*client).useGroups, (*client).useMLS, (*client).useMLS, nil, nil, nil,
	} {
		c := &client{workload: w, rng: rand.New(rand.NewPCG(seed, uint64(i))), number: i}
		if do == nil {
			reading.Go(func() { c.readOn(done) })
			continue
		}
		writing.Go(func() {
			for range rounds {
				do(c)
			}
		})
	}
	for i, a := range started {
		if i%2 == 0 {
			reading.Go(func() { w.follow(a.id, done) })
		}
	}
	writing.Wait()
	close(done)
	reading.Wait()
}

// follow records an agent's whole feed as a stream shows it, and sets receipts of the
// messages shown.
func (w *workload) follow(id parley.AgentID, done chan struct{}) {
	news := make(chan struct{}, 1)
	sub := w.running.node.Feeds.Follow(id, 0, func() {
		select {
		case news <- struct{}{}:
		default:
		}
	})
	defer sub.Close()
	for {
		entries, err := sub.Next(3)
		if err != nil {
			w.t.Error(err)
		}
		if len(entries) > 0 {
			w.claim(func(k *knownFacts) {
				for _, e := range entries {
					k.entry(id, e)
				}
			})
			w.stream(id, entries)
			continue
		}
		select {
		case <-news:
		case <-done:
			return
		}
	}
}

// stream records the messages of entries and sets their receipts.
func (w *workload) stream(id parley.AgentID, entries []journal.FeedEntry) {
	err := w.running.node.Feeds.Entries(context.Background(), id, entries, func(e journal.FeedEntry, m query.Message) error {
		if e.Kind.BringsMessage() {
			w.sawMessages(m)
			w.running.node.Receipts.RecordSoon(journal.RecordReceipt{
				Recipient: id, Message: m.Record.MessageID(), Position: e.Position, Copy: m.Record.Copied(),
				Receipts: journal.Receipts{TransferredAt: w.clock().UnixMilli()},
			})
		}
		return nil
	})
	w.answered(err)
}
