package erasure

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"parley/actors/record"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// Host is what an erasure needs of the node whose organizations it erases.
type Host interface {
	// Begin has the organization begin its erasure, and stores a row of
	// journal.ErasureTable in the same entry. It does nothing if it has begun before.
	Begin(org parley.OrgID, row []byte) error
	// GroupExists reports whether a group that was created still exists.
	GroupExists(parley.GroupID) (bool, error)
	// AwaitLoss waits for a while until an agent has no seat in a group.
	AwaitLoss(parley.GroupID, parley.AgentID)
	// DestroyKey destroys an organization's key, durably. It may be repeated.
	DestroyKey(org parley.OrgID, at time.Time) error
	// Forget drops from memory what belongs to an organization with these agents, and ends
	// its streams.
	Forget(org parley.OrgID, agents []parley.AgentID)
	// Drop drops a stream's actor from memory.
	Drop(journal.Stream)
	// ForgetWebhooks drops webhooks, and agents to which they belong, from memory. Attempts
	// that have not begun are not made.
	ForgetWebhooks(map[webhook.ID]parley.AgentID)
}

// Options of New. All but Elsewhere are required.
type Options struct {
	Journal journal.Journal
	Clock   parley.Clock
	Logger  *slog.Logger
	Host    Host
	// Elsewhere, if set, reports that another node of the cluster works on erasures: the one
	// that leads.
	Elsewhere func() bool
}

// Result is what was erased. // spec: Erasure result
type Result struct {
	Org      parley.OrgID
	ErasedAt time.Time
	// Agents counts revoked ones too, Groups those that existed, Messages every message
	// that an agent of the organization sent or received, Conversations those with such an
	// agent, unless a group of others hosts them.
	Messages, Agents, Conversations, Groups int64
}

// Erasures erases organizations.
type Erasures struct {
	Options
	ctx  context.Context
	stop context.CancelFunc
	step func(string) error // see OnStep

	// slots bounds the erasures that work at once.
	slots chan struct{}

	mu sync.Mutex
	// leads is that of the last Lead. It has ended before the first one and after Interrupt:
	// nothing begins then.
	leads *leadership
}

// leadership is what erasures remember beside the journal while this node leads. Interrupt ends
// its jobs.
type leadership struct {
	ctx     context.Context
	end     context.CancelFunc
	jobs    sync.WaitGroup
	running map[parley.OrgID]*job
	// fenced are the agents of organizations whose erasure is past its fence and not
	// complete. Other erasures drop nothing from their feeds: nobody reads those, and what
	// is in them counts.
	fenced map[parley.AgentID]bool
}

func newLeadership(within context.Context) *leadership {
	l := &leadership{running: map[parley.OrgID]*job{}, fenced: map[parley.AgentID]bool{}}
	l.ctx, l.end = context.WithCancel(within)
	return l
}

// job is an erasure under way. attempted is closed after the first attempt, done at the
// end; result is set before.
type job struct {
	ctx             context.Context
	attempted, done chan struct{}
	result          Result
}

// atOnce is how many erasures work at once.
const atOnce = 4

// New returns Erasures. Nothing begins before Lead.
func New(o Options) *Erasures {
	e := &Erasures{Options: o, slots: make(chan struct{}, atOnce)}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.leads = newLeadership(e.ctx)
	e.leads.end()
	return e
}

// OnStep has fn called after each step, whose name it gets. An error interrupts the
// erasure. Only tests need it.
func (e *Erasures) OnStep(fn func(step string) error) { e.step = fn }

// Close interrupts what is under way. It goes on at the next Resume.
func (e *Erasures) Close() {
	e.mu.Lock()
	e.stop()
	last := e.leads
	e.mu.Unlock()
	last.jobs.Wait()
}

// Erase erases an organization and returns when that is complete. token is the SHA-256 of
// the access token that asks for it. An organization that was erased before gives the
// same result. The error is parley.ErrOutcomeUnknown if ctx ends first; the erasure goes
// on. // spec: Compliance and infrastructure
func (e *Erasures) Erase(ctx context.Context, org parley.OrgID, token [32]byte) (Result, error) {
	_, found, err := e.row(ctx, org)
	if err != nil {
		return Result{}, err
	}
	if !found {
		row := &record.Erasure{BegunMs: e.Clock().UnixMilli(), Token: token[:]}
		stored, err := row.MarshalVT()
		if err != nil {
			return Result{}, err
		}
		if err := e.Host.Begin(org, stored); err != nil && !errors.Is(err, journal.ErrErased) {
			return Result{}, err
		}
	}
	if e.elsewhere() {
		return e.await(ctx, org)
	}
	j := e.begin(org)
	select {
	case <-j.done:
		return j.result, nil
	case <-ctx.Done():
	case <-j.ctx.Done():
		if e.ctx.Err() == nil {
			return e.await(ctx, org)
		}
	}
	return Result{}, parley.ErrOutcomeUnknown
}

func (e *Erasures) elsewhere() bool { return e.Elsewhere != nil && e.Elsewhere() }

// awaitEvery is the interval at which a node looks whether another one has completed an
// erasure.
const awaitEvery = 50 * time.Millisecond

// await waits until another node has completed an erasure.
func (e *Erasures) await(ctx context.Context, org parley.OrgID) (Result, error) {
	tick := time.NewTicker(awaitEvery)
	defer tick.Stop()
	for {
		row, found, err := e.row(ctx, org)
		switch {
		case err != nil && ctx.Err() == nil:
			return Result{}, err
		case found && row.GetFinishedMs() != 0:
			return resultOf(org, row), nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return Result{}, parley.ErrOutcomeUnknown
		case <-e.ctx.Done():
			return Result{}, parley.ErrOutcomeUnknown
		}
	}
}

// BegunBy reports whether an organization's erasure was begun with the access token whose
// SHA-256 is token.
func (e *Erasures) BegunBy(ctx context.Context, org parley.OrgID, token [32]byte) (bool, error) {
	row, found, err := e.row(ctx, org)
	return found && bytes.Equal(row.GetToken(), token[:]), err
}

// Resume goes on with the erasures that are not complete, and erases the given
// organizations if the journal still has something of them: their keys were destroyed,
// and a backup brought them back. It returns after the first attempt at each; one that
// failed is repeated.
func (e *Erasures) Resume(erased []parley.OrgID) error {
	var open []parley.OrgID
	err := journal.Durably(e.ctx, e.Journal.View(), func(v journal.View) error {
		known := map[parley.OrgID]bool{}
		err := v.Table(journal.ErasureTable, func(key, value []byte) bool {
			row, org := &record.Erasure{}, parley.IDFromBytes[parley.OrgID](key)
			known[org] = true
			if row.UnmarshalVT(value) != nil || row.GetFinishedMs() == 0 {
				open = append(open, org)
			}
			return true
		})
		for _, org := range erased {
			if err != nil || known[org] {
				continue
			}
			var left bool
			if left, err = hasRoster(v, org); left {
				open = append(open, org)
			}
		}
		return err
	})
	var jobs []*job
	for _, org := range open {
		e.Logger.Info("an organization's erasure goes on", "org", org.String())
		jobs = append(jobs, e.begin(org))
	}
	for _, j := range jobs {
		select {
		case <-j.attempted:
		case <-j.ctx.Done():
		}
	}
	return err
}

// Lead lets erasures work on this node, which leads, until Interrupt.
func (e *Erasures) Lead() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leads.ctx.Err() != nil {
		e.leads = newLeadership(e.ctx)
	}
}

// Interrupt ends what is under way on a node that does not lead any more. It returns when
// nothing is.
func (e *Erasures) Interrupt() {
	e.mu.Lock()
	former := e.leads
	former.end() // while mu is held, so that begin adds nothing after it
	e.mu.Unlock()
	former.jobs.Wait()
}

// Begin starts the erasure of an organization of which the row says that it has begun.
func (e *Erasures) Begin(org parley.OrgID) { e.begin(org) }

// begin starts the erasure of an organization, unless it is under way. Nothing begins on a node
// that does not lead, or after Close.
func (e *Erasures) begin(org parley.OrgID) *job {
	e.mu.Lock()
	defer e.mu.Unlock()
	if j := e.leads.running[org]; j != nil {
		return j
	}
	j := &job{ctx: e.leads.ctx, attempted: make(chan struct{}), done: make(chan struct{})}
	if j.ctx.Err() != nil {
		return j
	}
	e.leads.running[org] = j
	e.leads.jobs.Go(func() { e.work(org, j) })
	return j
}

// retryAfter is the pause after a failed attempt.
const retryAfter = time.Second

// work erases an organization, again after each failure, until that succeeds or
// Close is called.
func (e *Erasures) work(org parley.OrgID, j *job) {
	defer func() {
		e.mu.Lock()
		delete(e.leads.running, org)
		e.mu.Unlock()
	}()
	for first := true; ; first = false {
		e.slots <- struct{}{}
		result, err := e.run(j.ctx, org)
		<-e.slots
		if err == nil {
			j.result = result
			close(j.done)
		}
		if first {
			close(j.attempted)
		}
		if err == nil || j.ctx.Err() != nil {
			return
		}
		e.Logger.Error("an organization's erasure failed and is tried again", "org", org.String(), "error", err)
		select {
		case <-time.After(retryAfter):
		case <-j.ctx.Done():
			return
		}
	}
}

// fence adds agents to those that are fenced, or removes them.
func (e *Erasures) fence(agents []parley.AgentID, fenced bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range agents {
		if fenced {
			e.leads.fenced[id] = true
		} else {
			delete(e.leads.fenced, id)
		}
	}
}

func (e *Erasures) isFenced(id parley.AgentID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leads.fenced[id]
}

// row reads how far the erasure of an organization has come.
func (e *Erasures) row(ctx context.Context, org parley.OrgID) (row *record.Erasure, found bool, err error) {
	row = &record.Erasure{}
	err = journal.Durably(ctx, e.Journal.Latest(), func(v journal.View) error {
		value, has, err := v.Row(org.Slot(), journal.ErasureTable, org[:])
		if err == nil && has {
			found, err = true, row.UnmarshalVT(value)
		}
		return err
	})
	return row, found, err
}
