package actors

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley"
	"parley/actors/agent"
	"parley/actors/host"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/journal"
)

type webhookTurn = host.Turn[*hook, webhook.Command, webhook.Event]

// hook is a webhook as its actor holds it.
type hook struct {
	*webhook.State
	// due is the timer that is set, zero where none is known of. There may be
	// others, of a former life: each is cancelled when it fires.
	due time.Time
	// looked is the position up to which the feed has nothing for it, beyond the
	// cursor.
	looked uint64
}

// webhookStateEvery is after how many events a webhook's state is stored.
const webhookStateEvery = 64

var webhookRules = rules.Aggregate[*hook, webhook.Command, webhook.Event]{
	Decide: func(h *hook, c webhook.Command, now time.Time) ([]webhook.Event, error) {
		return webhook.Decide(h.State, c, now)
	},
	Evolve: func(h *hook, e webhook.Event) { webhook.Evolve(h.State, e) },
	Tag:    webhook.Tag, New: webhook.New,
}

// CreateWebhook asks for a webhook of an agent. The id is drawn before, because
// its secret is sealed with it.
type CreateWebhook struct {
	ID    webhook.ID
	Agent parley.AgentID
	Org   parley.OrgID
	// URL is dialled; SentURL is the text that it was read from.
	URL, SentURL string
	Events       []webhook.What
	Description  string
	SealedSecret []byte
	// Limit is how many webhooks an agent of the organization may have; nil is any
	// number.
	Limit *int
}

// WebhookJob is a delivery job of a webhook.
type WebhookJob struct {
	ID      webhook.JobID
	Webhook *webhook.State
	*webhook.Job
}

// webhookDeed is a command with what it is to be answered with.
type webhookDeed struct {
	command webhook.Command
	// job is the one that a Retry names.
	job webhook.JobID
}

// NewWebhookID draws the id of a webhook of an agent, in whose slot it lives.
func (n *Node) NewWebhookID(of parley.AgentID) webhook.ID {
	return parley.NewID[webhook.ID](of.Slot(), n.clock(), n.entropy())
}

// CreateWebhook makes a webhook, which follows its agent's feed from now on. It
// refuses with webhook.ErrDuplicate, ErrQuotaExceeded and, of a revoked agent,
// parley.ErrGone. // spec: Webhooks
func (n *Node) CreateWebhook(_ context.Context, c CreateWebhook) (*webhook.State, error) {
	return host.Ask[*webhook.State](n.engine, rules.AgentStream(c.Agent), len(c.URL)+len(c.SentURL)+len(c.Description), c)
}

// createWebhook is judged by the agent: it alone knows all of its webhooks.
func (n *Node) createWebhook(t *agentTurn, c CreateWebhook) (any, error) {
	switch {
	case !t.State.Exists():
		return nil, parley.ErrNotFound
	case t.State.Revoked():
		return nil, parley.ErrGone
	}
	taken, count := false, 0
	err := t.Rows(journal.WebhookTable, c.Agent[:], func(_, value []byte) {
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
		SealedSecret: c.SealedSecret, Edge: n.journal.DurablePosition(c.Agent), Taken: taken,
	}, t.Now)
	if err != nil {
		return nil, err
	}
	if c.Limit != nil && count >= *c.Limit {
		return nil, ErrQuotaExceeded.OverQuota("webhooks_per_agent", *c.Limit, count, nil)
	}
	for _, e := range events {
		webhook.Evolve(made, e)
	}
	facts, err := rules.Webhook.Encode(events)
	if err != nil {
		return nil, err
	}
	t.AddEffects(journal.CreateStream{Stream: rules.WebhookStream(c.ID), Fresh: true, Events: facts})
	t.PutRow(journal.WebhookTable, record.WebhookKey(made), record.EventFilterOf(made).Encode(c.URL))
	t.OnDurable(func() { n.dispatch.set(made) })
	return made, nil
}

// retireWebhooks tells an agent's webhooks that it acts no more.
func (n *Node) retireWebhooks(t *agentTurn, self parley.AgentID) error {
	return t.Rows(journal.WebhookTable, self[:], func(key, _ []byte) {
		t.Enqueue(rules.WebhookStream(parley.IDFromBytes[webhook.ID](key[16:])), &record.SagaMessage{Kind: record.SagaMessage_forget, Agent: self.Bytes()})
	})
}

// Webhook is a webhook as its owner sees it; webhook.ErrUnknown to all others.
func (n *Node) Webhook(ctx context.Context, id webhook.ID, by parley.OrgID) (s *webhook.State, err error) {
	err = n.view(ctx, func(v journal.View) error {
		s, err = webhookOf(v, id, by)
		return err
	})
	return s, err
}

func webhookOf(v journal.View, id webhook.ID, by parley.OrgID) (*webhook.State, error) {
	h := &hook{State: &webhook.State{}}
	_, _, err := webhookRules.Load(v, rules.WebhookStream(id), h)
	if err == nil && (!h.Exists() || h.Deleted() || h.Owner() != by) {
		err = webhook.ErrUnknown
	}
	return h.State, err
}

// WebhooksOf are an agent's webhooks, the oldest first, those that are switched
// off included.
func (n *Node) WebhooksOf(ctx context.Context, of parley.AgentID) (all []*webhook.State, err error) {
	err = n.EachWebhook(ctx, of, func(s *webhook.State) { all = append(all, s) })
	return all, err
}

// EachWebhook calls fn with what WebhooksOf gives, one at a time.
func (n *Node) EachWebhook(ctx context.Context, of parley.AgentID, fn func(*webhook.State)) error {
	return n.view(ctx, func(v journal.View) error {
		var streams []journal.Stream
		err := v.Rows(of.Slot(), journal.WebhookTable, of[:], nil, false, func(key, _ []byte) bool {
			streams = append(streams, rules.WebhookStream(parley.IDFromBytes[webhook.ID](key[16:])))
			return true
		})
		for _, stream := range streams {
			if err != nil {
				return err
			}
			h := &hook{State: &webhook.State{}}
			if _, _, err = webhookRules.Load(v, stream, h); err == nil && h.Exists() {
				fn(h.State)
			}
		}
		return err
	})
}

// ChangeWebhook judges webhook.Toggle, Rotate or Delete. // spec: Webhooks
func (n *Node) ChangeWebhook(ctx context.Context, id webhook.ID, c webhook.Command) (*webhook.State, error) {
	if toggle, ok := c.(webhook.Toggle); ok && toggle.Active {
		if err := n.releaseTarget(ctx, id, toggle.By); err != nil {
			return nil, err
		}
	}
	changed, err := host.Ask[*webhook.State](n.engine, rules.WebhookStream(id), 0, c)
	if err == nil && !changed.GetActive() {
		n.courier.Drop(id)
	}
	return changed, err
}

// releaseTarget lets the next attempt at a webhook's target through, before a
// turn that begins one: it would be held else.
func (n *Node) releaseTarget(ctx context.Context, id webhook.ID, by parley.OrgID) error {
	_, err := n.Webhook(ctx, id, by)
	if err == nil {
		n.courier.Reset(id)
	}
	return err
}

// TestWebhook makes a delivery that tells of nothing.
func (n *Node) TestWebhook(ctx context.Context, id webhook.ID, by parley.OrgID) (WebhookJob, error) {
	if err := n.releaseTarget(ctx, id, by); err != nil {
		return WebhookJob{}, err
	}
	return host.Ask[WebhookJob](n.engine, rules.WebhookStream(id), 0, webhookDeed{command: webhook.Test{By: by}})
}

// RetryDelivery attempts a job now: one that waits for its next attempt, or a
// dead one, which gets all its attempts again.
func (n *Node) RetryDelivery(ctx context.Context, id webhook.ID, by parley.OrgID, job webhook.JobID) (WebhookJob, error) {
	if err := n.releaseTarget(ctx, id, by); err != nil {
		return WebhookJob{}, err
	}
	return host.Ask[WebhookJob](n.engine, rules.WebhookStream(id), 0, webhookDeed{command: webhook.Retry{By: by}, job: job})
}

// webhooksRead is how many jobs are looked through for one page at most.
const webhooksRead = 100_000

// Deliveries are a webhook's jobs, the newest first: those of a status, or all if
// that is zero, and how many there are. // spec: Webhooks
func (n *Node) Deliveries(ctx context.Context, id webhook.ID, by parley.OrgID, status webhook.Status, offset, limit int) (page []WebhookJob, total int, err error) {
	err = n.view(ctx, func(v journal.View) error {
		s, err := webhookOf(v, id, by)
		if err != nil {
			return err
		}
		total = record.JobCount(s, status)
		page, err = deliveriesOf(v, s, status, offset, limit)
		return err
	})
	return page, total, err
}

func deliveriesOf(v journal.View, s *webhook.State, status webhook.Status, offset, limit int) (page []WebhookJob, err error) {
	id := s.WebhookID()
	before := binary.BigEndian.AppendUint64(id.Bytes(), s.GetLastJob()+1)
	if status == 0 {
		before = binary.BigEndian.AppendUint64(id.Bytes(), s.GetLastJob()+1-min(uint64(offset), s.GetLastJob()))
		offset = 0
	}
	var bad error
	looked := 0
	err = v.Rows(id.Slot(), journal.DeliveryTable, id[:], before, true, func(_, value []byte) bool {
		var j webhook.Job
		if bad = j.UnmarshalVT(value); bad != nil {
			return false
		}
		if looked++; status != 0 && j.GetStatus() != status {
			return looked < webhooksRead
		}
		if offset--; offset < 0 {
			page = append(page, WebhookJob{s.JobID(j.Number), s, &j})
		}
		return len(page) < limit && looked < webhooksRead
	})
	return page, errors.Join(err, bad)
}

// AnnouncementsOf are the jobs that tell of a message's arrival, of each webhook
// of its recipient that has one.
func (n *Node) AnnouncementsOf(ctx context.Context, of parley.AgentID, m Message) ([]WebhookJob, error) {
	hooks, err := n.WebhooksOf(ctx, of)
	if err != nil {
		return nil, err
	}
	var all []WebhookJob
	err = n.view(ctx, func(v journal.View) error {
		for _, s := range hooks {
			j, err := jobAt(v, s, m.Position)
			if err != nil {
				return err
			}
			if j != nil && j.GetEvent() == webhook.MessageReceived && string(j.GetRef()) == string(m.Record.GetId()) {
				all = append(all, WebhookJob{s.JobID(j.Number), s, j})
			}
		}
		return nil
	})
	return all, err
}

// jobAt is the job that the entry at a position of the feed became, nil if it
// became none. Jobs are numbered in the order of the feed; those that it did not
// tell of stand where the cursor was.
func jobAt(v journal.View, s *webhook.State, position uint64) (*webhook.Job, error) {
	id := s.WebhookID()
	low, high := uint64(1), s.GetLastJob()+1
	for low < high {
		middle := (low + high) / 2
		j, err := readJob(v, id, middle)
		if err != nil {
			return nil, err
		}
		if j != nil && j.GetPosition() < position {
			low = middle + 1
		} else {
			high = middle
		}
	}
	for ; low <= s.GetLastJob(); low++ {
		j, err := readJob(v, id, low)
		if err != nil || j == nil || j.GetPosition() != position {
			return nil, err
		}
		if j.GetEvent() == webhook.MessageReceived {
			return j, nil
		}
	}
	return nil, nil
}

func readJob(v journal.View, id webhook.ID, number uint64) (*webhook.Job, error) {
	value, found, err := v.Row(id.Slot(), journal.DeliveryTable, record.JobKey(id, number))
	if err != nil || !found {
		return nil, err
	}
	j := &webhook.Job{}
	return j, j.UnmarshalVT(value)
}

func (n *Node) webhookKind() *host.Kind[*hook, webhook.Command, webhook.Event] {
	return &host.Kind[*hook, webhook.Command, webhook.Event]{
		Stream: journal.WebhookStream, Rules: webhookRules, StateEvery: webhookStateEvery,
		Blank: func() *hook { return &hook{State: &webhook.State{}} },
		Handle: func(t *webhookTurn, request any) (any, error) {
			switch r := request.(type) {
			case host.GetState:
				return cloned(t.State.State, &webhook.State{}), nil
			case host.TimerDue:
				if t.Now.Before(r.Due) {
					return nil, nil // it comes again
				}
				t.Entry.Timers = append(t.Entry.Timers, journal.Timer{Due: r.Due, Stream: t.Entry.Stream, Cancel: true})
				if t.State.due.Equal(r.Due) {
					t.State.due = time.Time{}
				}
				return nil, n.work(t)
			case webhookDeed:
				return n.doWebhook(t, r)
			case webhook.Command:
				return n.changeWebhook(t, r)
			}
			panic("webhook: unknown request")
		},
		HandleQueued: func(t *webhookTurn, _ *record.SagaMessage) error { // its agent acts no more
			if err := t.Decide(webhook.Retire{}); err != nil {
				return heard(err)
			}
			n.noteWebhook(t)
			return nil
		},
		Work: n.work,
	}
}

// changeWebhook judges what clients ask for. Before a webhook is switched off
// what the feed has so far is collected.
func (n *Node) changeWebhook(t *webhookTurn, c webhook.Command) (any, error) {
	if toggle, ok := c.(webhook.Toggle); ok {
		toggle.Edge = n.journal.DurablePosition(t.State.Watched())
		c = toggle
		for more := !toggle.Active && toggle.By == t.State.Owner(); more; {
			var err error
			if more, err = n.collect(t); err != nil {
				return nil, err
			}
		}
	}
	if err := t.Decide(c); err != nil {
		return nil, err
	}
	changed := cloned(t.State.State, &webhook.State{})
	if t.State.Deleted() {
		n.endWebhook(t)
		return changed, nil
	}
	n.noteWebhook(t)
	_, err := n.attempt(t, attemptsAtOnce)
	return changed, err
}

// endWebhook removes everything but the answer.
func (n *Node) endWebhook(t *webhookTurn) {
	id := t.State.WebhookID()
	for _, table := range []journal.Table{journal.DeliveryTable, journal.RetryTable} {
		t.Entry.Rows = append(t.Entry.Rows, journal.Row{Slot: t.Entry.Slot, Table: table, Key: id.Bytes(), Delete: true, Beneath: true})
	}
	t.AddEffects(journal.PutRow{Row: journal.Row{Slot: t.Entry.Slot, Table: journal.WebhookTable, Key: record.WebhookKey(t.State.State), Delete: true}})
	if !t.State.due.IsZero() {
		t.Entry.Timers = append(t.Entry.Timers, journal.Timer{Due: t.State.due, Stream: t.Entry.Stream, Cancel: true})
		t.State.due = time.Time{}
	}
	gone := cloned(t.State.State, &webhook.State{})
	t.OnDurable(func() { n.dispatch.set(gone) })
}

// noteWebhook keeps at hand whether the webhook is active.
func (n *Node) noteWebhook(t *webhookTurn) {
	s := t.State
	if !s.Exists() || s.Deleted() {
		return
	}
	t.AddEffects(journal.PutRow{Row: journal.Row{
		Slot: t.Entry.Slot, Table: journal.WebhookTable, Key: record.WebhookKey(s.State), Value: record.EventFilterOf(s.State).Encode(s.GetUrl()),
	}})
	now := cloned(s.State, &webhook.State{})
	t.OnDurable(func() { n.dispatch.set(now) })
}

// doWebhook judges a test or a retry and answers with its job.
func (n *Node) doWebhook(t *webhookTurn, d webhookDeed) (any, error) {
	s := t.State
	number := s.GetLastJob() + 1
	command := d.command
	if retry, ok := command.(webhook.Retry); ok {
		if s.Exists() && !s.Deleted() {
			at, known := s.JobNumber(d.job)
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
	rows, err := n.attempt(t, attemptsAtOnce)
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
	return WebhookJob{s.JobID(number), cloned(s.State, &webhook.State{}), j}, nil
}

// DisabledWebhooks are those of an agent that were switched off, and not by a
// person.
func (n *Node) DisabledWebhooks(ctx context.Context, a *agent.State) ([]*webhook.State, error) {
	if a.Revoked() || !n.dispatch.knows(a.AgentID()) {
		return nil, nil
	}
	id, ailing := a.AgentID(), false
	err := n.view(ctx, func(v journal.View) error {
		return v.Rows(id.Slot(), journal.WebhookTable, id[:], nil, false, func(_, value []byte) bool {
			ailing = record.DecodeEventFilter(value).Disabled
			return !ailing
		})
	})
	if err != nil || !ailing {
		return nil, err
	}
	all, err := n.WebhooksOf(ctx, id)
	return slices.DeleteFunc(all, func(s *webhook.State) bool { return s.GetDisabledMs() == 0 }), err
}
