package delivery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"parley/actors/encoding"
	"parley/actors/query"
	"parley/actors/record"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

const (
	// AttemptsAtOnce is how many attempts of one webhook may be in progress.
	AttemptsAtOnce = 64
	// collectMax is how many feed entries one turn turns into jobs.
	collectMax = 256
	// cursorStep is how many entries that the webhook does not subscribe to may follow
	// its stored cursor before the cursor is stored again.
	cursorStep = 4096
)

// Delivery is one attempt of a job. Ids that its event does not have are zero.
type Delivery struct {
	Webhook      webhook.ID
	Job          webhook.JobID
	URL          string
	Agent        parley.AgentID
	Event        webhook.What
	Happened     time.Time
	Message      parley.MessageID
	Conversation parley.ConversationID
	Group        parley.GroupID
	Request      parley.JoinRequestID
	// Member joined or left the group.
	Member parley.AgentID
	// Disabled is another webhook of the agent that the server disabled, and Reason why.
	Disabled webhook.ID
	Reason   webhook.Reason
	// Credential ends at Expires.
	Credential parley.ClientID
	Expires    time.Time
	// Kind and Epoch are those of an event of an MLS group, for webhook.GroupMLS.
	Kind  string
	Epoch uint64
	// Sealed holds the sealed secrets to sign with, newest first.
	Sealed [][]byte
	// Owner is the organization that owns the webhook.
	Owner parley.OrgID
	// Number is the number of the task's event, for webhook.TaskUpdated.
	Number uint64
	// MayBegin, if set, reports whether the attempt may begin, as of an instant after the call.
	// The courier calls it right before it sends; it may block for seconds.
	MayBegin func() bool

	// source is what the webhook follows.
	source parley.AnyID
	lease  uint64
}

// Courier sends deliveries to their targets. Its methods do not block.
type Courier interface {
	// Deliver accepts one attempt and calls done exactly once with its outcome, from
	// any goroutine. The outcome is Unsent if MayBegin returned false. If accepted is false,
	// done is not called, and the attempt may be repeated after the duration retry.
	Deliver(d Delivery, done func(webhook.Outcome)) (retry time.Duration, accepted bool)
	// Reset forgets the failures of a webhook's target, because its owner asked for an
	// attempt.
	Reset(webhook.ID)
	// Drop returns the attempts of a webhook that have not begun, with outcome Unsent.
	Drop(webhook.ID)
	// DropAll is Drop for all webhooks, and Reset, because another node delivers now.
	DropAll()
}

// noCourier accepts nothing: jobs stay pending.
type noCourier struct{}

func (noCourier) Deliver(Delivery, func(webhook.Outcome)) (time.Duration, bool) {
	return time.Hour, false
}
func (noCourier) Reset(webhook.ID) {}
func (noCourier) Drop(webhook.ID)  {}
func (noCourier) DropAll()         {}

// work does what is due, in one entry: it expires the leases of earlier processes and
// those that timed out, stores outcomes, creates jobs from new feed entries and begins
// attempts.
func (hooks *Webhooks) work(t *webhookTurn) error {
	s := t.State
	t.Entry.Gather = true // deliveries can wait, and a busy server commits often
	outcomes := hooks.dispatch().take(webhook.ID(t.Entry.Stream.ID))
	if !s.Exists() || s.Deleted() {
		return nil
	}
	was := s.GetActive()
	if err := t.Decide(webhook.Expire{Before: hooks.dispatch().firstLease(s.State)}); err != nil {
		return err
	}
	if len(outcomes) > 0 {
		if err := t.Decide(webhook.Report{Outcomes: outcomes}); err != nil {
			return err
		}
	}
	paused, err := hooks.paused(s.State)
	if err != nil {
		return err
	}
	places, more := AttemptsAtOnce, false
	_, ofTask := s.Task() // which may be erased without a sign
	switch granted, begins := hooks.dispatch().mayLease(s.WebhookID()); {
	case paused:
		places, s.collected = 0, false // new entries stay in the feed
	case !begins:
		places, more = 0, s.Unattempted() > 0
	case granted || ofTask || !s.collected:
		if more, err = hooks.collect(t); err != nil {
			return err
		}
		s.collected = true
	}
	if err := t.Decide(webhook.Finish{}); err != nil {
		return err
	}
	if s.Deleted() {
		hooks.countEnded(t)
		hooks.deleteRows(t)
		return nil
	}
	if s.GetActive() != was {
		hooks.putRow(t)
	}
	if more {
		hooks.dispatch().look(s.Source())
	}
	_, err = hooks.attemptUnless(t, paused, places)
	return err
}

// collect creates jobs from new durable entries of the agent's feed, and reports
// whether there are more.
func (hooks *Webhooks) collect(t *webhookTurn) (more bool, err error) {
	s := t.State
	if _, is := s.Task(); is {
		return hooks.collectTask(t)
	}
	edge := hooks.journal.DurablePosition(s.Watched())
	from := max(s.GetCursor(), s.readUpTo)
	if !s.GetActive() || edge <= from {
		return false, nil
	}
	c, read, wanted := webhook.Collect{Upto: edge}, 0, false
	v := hooks.journal.Latest()
	defer v.Close()
	err = v.Feed(s.Watched(), from, edge, func(e journal.FeedEntry) bool {
		for _, news := range record.WebhookNews(e) {
			wanted = wanted || s.Wants(news.GetEvent())
			c.News = append(c.News, webhook.Entry{Position: e.Position, News: news})
		}
		if read++; read == collectMax {
			c.Upto = e.Position
		}
		return read < collectMax
	})
	if err != nil {
		return false, err
	}
	s.readUpTo = c.Upto
	if wanted || c.Upto-s.GetCursor() >= cursorStep {
		err = t.Decide(c)
	}
	return read == collectMax, err
}

// attempt begins due attempts, with at most places in progress, stores the rows of all
// jobs that the turn has changed, and returns these jobs by their numbers.
func (hooks *Webhooks) attempt(t *webhookTurn, places int) (map[uint64]*webhook.Job, error) {
	paused, err := hooks.paused(t.State.State)
	if err != nil {
		return nil, err
	}
	return hooks.attemptUnless(t, paused, places)
}

// attemptUnless is attempt for callers that know whether the webhook is paused.
func (hooks *Webhooks) attemptUnless(t *webhookTurn, paused bool, places int) (map[uint64]*webhook.Job, error) {
	if paused {
		jobs, err := hooks.foldJobs(t)
		if err != nil {
			return nil, err
		}
		return jobs.rows, hooks.sendOut(t, jobs.rows)
	}
	retries, err := retriesOf(t)
	if err != nil {
		return nil, err
	}
	hooks.dispatch().firstLease(t.State.State) // before it gives one
	lease := webhook.Lease{Max: places}
	for _, key := range retries {
		if at, number := retryOf(key); at <= t.Now.UnixMilli() {
			j, err := jobOf(t, number)
			if err != nil {
				return nil, err
			}
			lease.Due = append(lease.Due, j)
		}
	}
	if err := t.Decide(lease); err != nil {
		return nil, err
	}
	jobs, err := hooks.foldJobs(t)
	if err != nil {
		return nil, err
	}
	hooks.setTimer(t, retries, jobs)
	return jobs.rows, hooks.sendOut(t, jobs.rows)
}

// firstLease returns the first lease of a webhook that this process may have given since it
// began to deliver: its next one if none was asked for before. It does not ask a clock, which
// may go back, and differ from that of the node that led before.
func (d *dispatcher) firstLease(s *webhook.State) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	first, known := d.leases[s.WebhookID()]
	if !known {
		first = s.GetLastLease() + 1
		d.leases[s.WebhookID()] = first
	}
	return first
}

// retriesOf returns the keys of the webhook's retry rows, earliest first: as many as
// may be attempted now, and one more for the timer.
func retriesOf(t *webhookTurn) ([][]byte, error) {
	s := t.State
	if s.GetFailed() == 0 {
		return nil, nil
	}
	return t.FirstKeys(journal.RetryTable, s.GetId(), s.Capacity(t.Now, AttemptsAtOnce)+1)
}

// jobChanges are the jobs that a turn changes, and the times of the retry rows that
// they had, in Unix milliseconds.
type jobChanges struct {
	rows    map[uint64]*webhook.Job
	retries map[uint64]int64
}

// foldJobs applies the turn's events to the rows of their jobs.
func (hooks *Webhooks) foldJobs(t *webhookTurn) (jobChanges, error) {
	x := jobChanges{map[uint64]*webhook.Job{}, map[uint64]int64{}}
	for _, e := range t.Events {
		for _, number := range webhook.Concerned(e) {
			if x.rows[number] != nil {
				continue
			}
			j, err := jobOf(t, number)
			if err != nil {
				return x, err
			}
			x.rows[number] = j
			if at, waits := j.Retry(); waits {
				x.retries[number] = at.UnixMilli()
			}
		}
		webhook.Fold(x.rows, e)
	}
	id := t.State.WebhookID()
	for number, j := range x.rows {
		row, err := encoding.Marshal(j)
		if err != nil {
			return x, err
		}
		t.PutRow(journal.DeliveryTable, record.JobKey(id, number), row)
		had := x.retries[number]
		at, waits := j.Retry()
		if had != 0 && (!waits || at.UnixMilli() != had) {
			t.DeleteRow(journal.RetryTable, record.RetryKey(id, had, number))
		}
		if waits && at.UnixMilli() != had {
			t.PutRow(journal.RetryTable, record.RetryKey(id, at.UnixMilli(), number), nil)
		}
	}
	return x, nil
}

// setTimer sets a timer for the next time at which the webhook has something to do
// without a new event.
func (hooks *Webhooks) setTimer(t *webhookTurn, retries [][]byte, jobs jobChanges) {
	s := t.State
	at, wakes := s.Wake(t.Now)
	soonest := func(ms int64) {
		if next := time.UnixMilli(ms).UTC(); s.GetActive() && (!wakes || next.Before(at)) {
			at, wakes = next, true
		}
	}
	for _, key := range retries {
		if ms, number := retryOf(key); jobs.rows[number] == nil {
			soonest(ms)
			break // the others are later
		}
	}
	for _, j := range jobs.rows {
		if next, waits := j.Retry(); waits {
			soonest(next.UnixMilli())
		}
	}
	// If all places are taken, the end of an attempt continues the work.
	full := s.Capacity(t.Now, AttemptsAtOnce) == 0
	switch {
	case !wakes:
	case !at.After(t.Now) && !full:
		hooks.dispatch().look(s.Source())
	case s.due.IsZero() || at.Before(s.due):
		s.due = latest(at, t.Now)
		t.Entry.Timers = append(t.Entry.Timers, journal.Timer{Due: s.due, Stream: t.Entry.Stream})
	}
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// sendOut hands the turn's attempts to the dispatcher once they are durable, and
// records receipts of jobs that were delivered.
func (hooks *Webhooks) sendOut(t *webhookTurn, rows map[uint64]*webhook.Job) error {
	s := t.State
	var out []Delivery
	for _, e := range t.Events {
		switch e := e.(type) {
		case *webhook.Leased:
			for _, a := range e.Attempts {
				out = append(out, deliveryOf(s.State, rows[a.Job], a.Lease, t.Now))
			}
		case *webhook.Reported:
			for _, r := range e.Results {
				if j := rows[r.Job]; r.Status == webhook.Delivered && j.GetEvent() == webhook.MessageReceived {
					if err := hooks.recordAnnounced(t, j); err != nil {
						return err
					}
				}
			}
			hooks.dispatch().attempts.count(e.Results)
		case *webhook.Disabled:
			if e.Reason != webhook.AgentRevoked { // only an agent that acts is notified
				t.AddEffects(journal.AppendFeed{To: s.Watched(), Kind: journal.WebhookEntry, Ref: t.Entry.Stream.ID, Note: record.DisablingNote(e.Reason)})
			}
		case *webhook.Activated, *webhook.Collected, *webhook.Created, *webhook.Deactivated, *webhook.Deleted, *webhook.Redirected, *webhook.Released, *webhook.Expired, *webhook.Retried, *webhook.Rotated, *webhook.Tested: // they begin no attempt
		}
	}
	if d := hooks.dispatch(); len(out) > 0 { // that of the term, which may be over when the entry is durable
		t.OnDurable(func() { d.send(out) })
	}
	return nil
}

func deliveryOf(s *webhook.State, j *webhook.Job, lease uint64, now time.Time) Delivery {
	d := Delivery{
		Webhook: s.WebhookID(), Job: s.JobID(j.GetNumber()), URL: s.GetUrl(), Agent: s.Watched(), Event: j.GetEvent(),
		Happened: time.UnixMilli(j.GetHappenedMs()).UTC(), Sealed: s.Sealed(now), Owner: s.Owner(), source: s.Source(), lease: lease,
	}
	switch d.Event {
	case webhook.MessageReceived, webhook.MessageDelivered, webhook.MessageRead:
		d.Message = parley.IDFromBytes[parley.MessageID](j.GetRef())
	case webhook.ConversationUpdated:
		d.Conversation = parley.IDFromBytes[parley.ConversationID](j.GetRef())
	case webhook.TestEvent:
	case webhook.TaskUpdated:
		d.Conversation, d.Number = parley.IDFromBytes[parley.ConversationID](j.GetRef()), j.GetPosition()
	case webhook.GroupMLS:
		d.Group = parley.IDFromBytes[parley.GroupID](j.GetRef())
		d.Kind, _ = record.GroupNews(j.GetNote())
		d.Epoch, _ = record.MLSNews(j.GetNote())
	case webhook.Disabling:
		d.Disabled, d.Reason = parley.IDFromBytes[webhook.ID](j.GetRef()), record.DisablingNews(j.GetNote())
	case webhook.CredentialExpiring:
		d.Credential, d.Expires = parley.IDFromBytes[parley.ClientID](j.GetRef()), record.ExpiryNews(j.GetNote())
	case webhook.GroupMemberJoined, webhook.GroupMemberLeft:
		d.Group = parley.IDFromBytes[parley.GroupID](j.GetRef())
		d.Member = parley.IDFromBytes[parley.AgentID](j.GetNote())
	default:
		d.Group = parley.IDFromBytes[parley.GroupID](j.GetRef())
		d.Request = parley.IDFromBytes[parley.JoinRequestID](j.GetNote())
	}
	return d
}

// recordAnnounced records that a target accepted the announcement of a message. The
// message then counts as delivered, but not as transferred. // docs: delivery.md
func (hooks *Webhooks) recordAnnounced(t *webhookTurn, j *webhook.Job) error {
	agent := t.State.Watched()
	receipt := journal.RecordReceipt{
		Recipient: agent, Message: parley.IDFromBytes[parley.MessageID](j.GetRef()), Position: j.GetPosition(),
		Receipts: journal.Receipts{AnnouncedAt: t.Now.UnixMilli()}, Copy: len(j.GetNote()) > 0,
	}
	if hooks.dispatch().registry.anybodyWants(webhook.MessageDelivered) {
		v := hooks.journal.View()
		defer v.Close()
		m, err := query.ReadRecord(v, agent.Slot(), receipt.Message)
		if parley.IsRefusal(err) { // the message is gone
			return nil
		}
		if err != nil {
			return err
		}
		receipt.Sender = m.Record.Sender()
	}
	t.AddEffects(hooks.receipts.Effect(receipt))
	return nil
}

// jobOf reads a job, including changes that are not applied yet.
func jobOf(t *webhookTurn, number uint64) (*webhook.Job, error) {
	id := t.State.WebhookID()
	value, found, err := t.Row(journal.DeliveryTable, record.JobKey(id, number))
	if err == nil && !found {
		err = fmt.Errorf("webhook %s has no job %d", id, number)
	}
	j := &webhook.Job{}
	return j, errors.Join(err, encoding.Unmarshal(value, j))
}

// retryOf decodes the key of a retry row.
func retryOf(key []byte) (atMs int64, number uint64) {
	return int64(binary.BigEndian.Uint64(key[16:])), binary.BigEndian.Uint64(key[24:])
}
