package delivery

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
	"parley/actors/host"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

type (
	webhookTurn = host.Turn[*webhookState, webhook.Command, webhook.Event]
	agentTurn   = host.Turn[*agent.State, agent.Command, agent.Event]
)

// webhookState is the state of a webhook's actor.
type webhookState struct {
	*webhook.State
	// due is the earliest timer known to be set, zero if none is. Earlier activations
	// may have set others; each is cancelled when it fires.
	due time.Time
	// readUpTo is a position after the cursor up to which the feed has nothing for the
	// webhook.
	readUpTo uint64
	// collected is set once this activation has read what its webhook follows, and was not
	// paused since. Then it reads only when the dispatcher says that there is something new.
	collected bool
}

// webhookStateEvery is after how many events a webhook's state is stored.
const webhookStateEvery = 64

var webhookRules = rules.Aggregate[*webhookState, webhook.Command, webhook.Event]{
	Decide: func(h *webhookState, c webhook.Command, now time.Time) ([]webhook.Event, error) {
		return webhook.Decide(h.State, c, now)
	},
	Evolve: func(h *webhookState, e webhook.Event) { webhook.Evolve(h.State, e) },
	Tag:    webhook.Tag, New: webhook.New,
	Owners: func(h *webhookState) journal.Owners { return rules.Webhook.OwnersOf(h.State) },
}

// CreateWebhook is the request for a new webhook. The caller draws the id with NewID
// before, because the secret is sealed with it.
type CreateWebhook struct {
	ID    webhook.ID
	Agent parley.AgentID
	Org   parley.OrgID
	// URL is requested; SentURL is the text that the client sent.
	URL, SentURL string
	Events       []webhook.What
	Description  string
	SealedSecret []byte
	// Limit is how many webhooks an agent of the organization may have; nil means any
	// number.
	Limit *int
	// Task, ConfigID and After are those of a PushConfig; zero for any other webhook.
	Task     parley.ConversationID
	ConfigID string
	After    uint64
}

// jobRequest is a command that is answered with a job.
type jobRequest struct {
	Command webhook.Command
	// Job is the job of a webhook.Retry.
	Job webhook.JobID
}

// attemptedJob is the answer to a jobRequest.
type attemptedJob struct {
	Webhook *webhook.State
	Job     *webhook.Job
}

// NewID returns a new id for a webhook of an agent, in the agent's slot.
func (hooks *Webhooks) NewID(of parley.AgentID) webhook.ID {
	return parley.NewID[webhook.ID](of.Slot(), hooks.clock(), hooks.entropy())
}

// Create creates a webhook. It follows its agent's feed from now on. Errors include
// webhook.ErrDuplicate, parley.ErrQuotaExceeded and, for a revoked agent,
// parley.ErrGone. // spec: Webhooks
func (hooks *Webhooks) Create(ctx context.Context, c CreateWebhook) (*webhook.State, error) {
	return host.Ask[*webhook.State](ctx, hooks.engine, rules.AgentStream(c.Agent), len(c.URL)+len(c.SentURL)+len(c.Description), c)
}

// CreateFor creates a webhook in a turn of its agent, the only actor that knows all of
// the agent's webhooks.
func (hooks *Webhooks) CreateFor(t *agentTurn, c CreateWebhook) (any, error) {
	switch {
	case !t.State.Exists():
		return nil, parley.ErrNotFound
	case t.State.Revoked():
		return nil, parley.ErrGone
	}
	if !c.Task.Zero() {
		return hooks.createPush(t, c)
	}
	taken, count := false, 0
	err := t.Rows(journal.WebhookTable, c.Agent[:], func(_, value []byte) {
		if !record.DecodeEventFilter(value).Task.Zero() {
			return
		}
		count++
		taken = taken || string(value[record.EventFilterBytes:]) == c.URL
	})
	if err != nil {
		return nil, err
	}
	t.DependOnJournal() // a refusal depends on rows that webhooks write too
	made := &webhook.State{}
	events, err := webhook.Decide(made, webhook.Create{
		ID: c.ID, Agent: c.Agent, Org: c.Org, URL: c.URL, SentURL: c.SentURL, Events: c.Events, Description: c.Description,
		SealedSecret: c.SealedSecret, Edge: hooks.journal.DurablePosition(c.Agent), Taken: taken,
	}, t.Now)
	if err != nil {
		return nil, err
	}
	if c.Limit != nil && count >= *c.Limit {
		return nil, parley.ErrQuotaExceeded.OverQuota("webhooks_per_agent", *c.Limit, count, nil)
	}
	return hooks.store(t, made, events)
}

// store stores a new webhook in a turn of its agent.
func (hooks *Webhooks) store(t *agentTurn, made *webhook.State, events []webhook.Event) (any, error) {
	for _, e := range events {
		webhook.Evolve(made, e)
	}
	stored, err := rules.Webhook.Encode(events)
	if err != nil {
		return nil, err
	}
	t.AddEffects(journal.CreateStream{Stream: rules.WebhookStream(made.WebhookID()), Fresh: true, Events: stored, Owners: t.Owners()})
	t.PutRow(journal.WebhookTable, record.WebhookKey(made), record.WebhookRow(made))
	d := hooks.dispatch()
	t.OnDurable(func() { d.set(made) })
	return made, nil
}

// Retire notifies an agent's webhooks, in a turn of the agent, that it was revoked.
func (hooks *Webhooks) Retire(t *agentTurn, self parley.AgentID) error {
	return t.Rows(journal.WebhookTable, self[:], func(key, _ []byte) {
		t.Enqueue(rules.WebhookStream(parley.IDFromBytes[webhook.ID](key[16:])), &record.SagaMessage{Kind: record.SagaMessage_forget, Agent: self.Bytes()})
	})
}

// Change applies webhook.Toggle, Rotate or Delete and returns the new state.
// // spec: Webhooks
func (hooks *Webhooks) Change(ctx context.Context, id webhook.ID, c webhook.Command) (*webhook.State, error) {
	return host.Ask[*webhook.State](ctx, hooks.engine, rules.WebhookStream(id), 0, c)
}

// releaseTarget ends the courier's hold on the target of the turn's webhook, so that the
// attempts that the turn begins are accepted. It is called before they are handed over. Only
// the node that decides delivers.
func (hooks *Webhooks) releaseTarget(t *webhookTurn) {
	id := t.State.WebhookID()
	t.OnDurable(func() { hooks.Courier.Reset(id) })
}

// Test creates a delivery of a test event.
func (hooks *Webhooks) Test(ctx context.Context, id webhook.ID, by parley.OrgID) (query.WebhookJob, error) {
	return hooks.attemptNow(ctx, id, jobRequest{Command: webhook.Test{By: by}})
}

// RetryJob begins an attempt of a job now. The job may wait for its next attempt, or be
// dead; a dead job gets all its attempts again.
func (hooks *Webhooks) RetryJob(ctx context.Context, id webhook.ID, by parley.OrgID, job webhook.JobID) (query.WebhookJob, error) {
	return hooks.attemptNow(ctx, id, jobRequest{Command: webhook.Retry{By: by}, Job: job})
}

func (hooks *Webhooks) attemptNow(ctx context.Context, id webhook.ID, r jobRequest) (query.WebhookJob, error) {
	a, err := host.Ask[attemptedJob](ctx, hooks.engine, rules.WebhookStream(id), 0, r)
	if err != nil {
		return query.WebhookJob{}, err
	}
	return query.WebhookJob{ID: a.Webhook.JobID(a.Job.GetNumber()), Webhook: a.Webhook, Job: a.Job}, nil
}

func (hooks *Webhooks) kind() *host.Kind[*webhookState, webhook.Command, webhook.Event] {
	return &host.Kind[*webhookState, webhook.Command, webhook.Event]{
		Stream: journal.WebhookStream, Rules: webhookRules, StateEvery: webhookStateEvery,
		Blank: func() *webhookState { return &webhookState{State: &webhook.State{}} },
		Handle: func(t *webhookTurn, request any) (any, error) {
			switch r := request.(type) {
			case host.GetState:
				return proto.CloneOf(t.State.State), nil
			case host.TimerDue:
				if t.Now.Before(r.Due) {
					return nil, nil // it fires again
				}
				t.Entry.Timers = append(t.Entry.Timers, journal.Timer{Due: r.Due, Stream: t.Entry.Stream, Cancel: true})
				if t.State.due.Equal(r.Due) {
					t.State.due = time.Time{}
				}
				return nil, hooks.work(t)
			case jobRequest:
				return hooks.do(t, r)
			case webhook.Command:
				return hooks.change(t, r)
			}
			panic("webhook: unknown request")
		},
		HandleQueued: func(t *webhookTurn, _ *record.SagaMessage) error { // its agent was revoked
			if err := t.Decide(webhook.Retire{}); err != nil {
				return host.IgnoreRefusal(err)
			}
			if t.State.Deleted() && len(t.Events) > 0 { // a configuration of push notifications
				hooks.deleteRows(t)
				return nil
			}
			hooks.putRow(t)
			return nil
		},
		Work: hooks.work,
	}
}

// change applies a client's command. Before a webhook is switched off, the entries that
// the feed has so far become jobs.
func (hooks *Webhooks) change(t *webhookTurn, c webhook.Command) (any, error) {
	if toggle, ok := c.(webhook.Toggle); ok {
		toggle.Edge = hooks.journal.DurablePosition(t.State.Watched())
		c = toggle
		for more := !toggle.Active && toggle.By == t.State.Owner(); more; {
			var err error
			if more, err = hooks.collect(t); err != nil {
				return nil, err
			}
		}
	}
	if err := t.Decide(c); err != nil {
		return nil, err
	}
	changed := proto.CloneOf(t.State.State)
	if t.State.Deleted() {
		hooks.deleteRows(t)
		return changed, nil
	}
	_, redirected := c.(webhook.Redirect)
	if redirected {
		t.OnDurable(func() { hooks.Courier.Drop(changed.WebhookID()) }) // what waits has the former URL
	}
	if toggle, is := c.(webhook.Toggle); redirected || is && toggle.Active {
		hooks.releaseTarget(t)
	}
	hooks.putRow(t)
	_, err := hooks.attempt(t, AttemptsAtOnce)
	return changed, err
}

// deleteRows deletes all rows of a deleted webhook.
func (hooks *Webhooks) deleteRows(t *webhookTurn) {
	id := t.State.WebhookID()
	for _, table := range []journal.Table{journal.DeliveryTable, journal.RetryTable} {
		t.Entry.Rows = append(t.Entry.Rows, journal.Row{Slot: t.Entry.Slot, Table: table, Key: id.Bytes(), Delete: true, Beneath: true})
	}
	t.AddEffects(journal.PutRow{Row: journal.Row{Slot: t.Entry.Slot, Table: journal.WebhookTable, Key: record.WebhookKey(t.State.State), Delete: true}})
	if !t.State.due.IsZero() {
		t.Entry.Timers = append(t.Entry.Timers, journal.Timer{Due: t.State.due, Stream: t.Entry.Stream, Cancel: true})
		t.State.due = time.Time{}
	}
	d, gone := hooks.dispatch(), proto.CloneOf(t.State.State)
	t.OnDurable(func() { d.set(gone) })
}

// putRow updates the row by which the dispatcher knows the webhook, and notifies the
// dispatcher when it is durable.
func (hooks *Webhooks) putRow(t *webhookTurn) {
	s := t.State
	if !s.Exists() || s.Deleted() {
		return
	}
	t.AddEffects(journal.PutRow{Row: journal.Row{
		Slot: t.Entry.Slot, Table: journal.WebhookTable, Key: record.WebhookKey(s.State), Value: record.WebhookRow(s.State), Owners: t.Owners(),
	}})
	d, now := hooks.dispatch(), proto.CloneOf(s.State)
	t.OnDurable(func() { d.set(now) })
}

// do applies a test or a retry and answers with its job.
func (hooks *Webhooks) do(t *webhookTurn, d jobRequest) (any, error) {
	s := t.State
	number := s.GetLastJob() + 1
	command := d.Command
	if retry, ok := command.(webhook.Retry); ok {
		if s.Exists() && !s.Deleted() {
			at, known := s.JobNumber(d.Job)
			if number = at; known {
				j, err := jobOf(t, at)
				if err != nil {
					return nil, err
				}
				retry.Job = j
			}
		}
		command = retry
	}
	if err := t.Decide(command); err != nil {
		return nil, err
	}
	hooks.releaseTarget(t)
	rows, err := hooks.attempt(t, AttemptsAtOnce)
	if err != nil {
		return nil, err
	}
	j := rows[number]
	if j == nil {
		if j, err = jobOf(t, number); err != nil {
			return nil, err
		}
	}
	if j == nil {
		return nil, fmt.Errorf("job %d of webhook %s has no row", number, s.WebhookID())
	}
	return attemptedJob{proto.CloneOf(s.State), j}, nil
}

// Disabled returns an agent's webhooks that the server has disabled.
func (hooks *Webhooks) Disabled(ctx context.Context, a *agent.State) ([]*webhook.State, error) {
	if d := hooks.dispatch(); a.Revoked() || d.registry.known.Load() && !d.registry.has(parley.AnyID(a.AgentID())) {
		return nil, nil
	}
	id, anyDisabled := a.AgentID(), false
	err := journal.Durably(ctx, hooks.journal.View(), func(v journal.View) error {
		return v.Rows(id.Slot(), journal.WebhookTable, id[:], nil, false, func(_, value []byte) bool {
			anyDisabled = record.DecodeEventFilter(value).Disabled
			return !anyDisabled
		})
	})
	if err != nil || !anyDisabled {
		return nil, err
	}
	all, err := hooks.Of(ctx, id)
	return slices.DeleteFunc(all, func(s *webhook.State) bool { return s.GetDisabledMs() == 0 }), err
}
