package query

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"parley/actors/encoding"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// WebhookJob is a delivery job with its webhook.
type WebhookJob struct {
	ID      webhook.JobID
	Webhook *webhook.State
	*webhook.Job
}

// Get returns a webhook to its owner, and webhook.ErrUnknown to any other organization.
func (q *Webhooks) Get(ctx context.Context, id webhook.ID, by parley.OrgID) (s *webhook.State, err error) {
	err = q.view(ctx, func(v journal.View) error {
		s, err = webhookOf(v, id, by)
		return err
	})
	return s, err
}

func webhookOf(v journal.View, id webhook.ID, by parley.OrgID) (*webhook.State, error) {
	s := &webhook.State{}
	_, _, err := rules.Webhook.Load(rules.StoredIn(v), rules.WebhookStream(id), s)
	if _, ofTask := s.Task(); err == nil && (!s.Exists() || s.Deleted() || s.Owner() != by || ofTask) {
		err = webhook.ErrUnknown
	}
	return s, err
}

// Of returns an agent's webhooks, oldest first, including inactive ones.
func (q *Webhooks) Of(ctx context.Context, of parley.AgentID) (all []*webhook.State, err error) {
	err = q.Each(ctx, of, func(s *webhook.State) { all = append(all, s) })
	return all, err
}

// Each calls fn with each webhook that Of returns.
func (q *Webhooks) Each(ctx context.Context, of parley.AgentID, fn func(*webhook.State)) error {
	return q.view(ctx, func(v journal.View) error {
		var streams []journal.Stream
		err := v.Rows(of.Slot(), journal.WebhookTable, of[:], nil, false, func(key, value []byte) bool {
			if !record.DecodeEventFilter(value).Task.Zero() {
				return true
			}
			streams = append(streams, rules.WebhookStream(parley.IDFromBytes[webhook.ID](key[16:])))
			return true
		})
		for _, stream := range streams {
			if err != nil {
				return err
			}
			s := &webhook.State{}
			if _, _, err = rules.Webhook.Load(rules.StoredIn(v), stream, s); err == nil && s.Exists() {
				fn(s)
			}
		}
		return err
	})
}

// PushConfigs returns the configurations of push notifications that an agent has for a
// task, ordered by their ids.
func (q *Webhooks) PushConfigs(ctx context.Context, of parley.AgentID, task parley.ConversationID) (all []*webhook.State, err error) {
	err = q.view(ctx, func(v journal.View) error {
		var streams []journal.Stream
		err := v.Rows(of.Slot(), journal.WebhookTable, record.TaskKeys(of, task), nil, false, func(key, value []byte) bool {
			if record.DecodeEventFilter(value).Task == task {
				streams = append(streams, rules.WebhookStream(parley.IDFromBytes[webhook.ID](key[16:])))
			}
			return true
		})
		for _, stream := range streams {
			if err != nil {
				return err
			}
			s := &webhook.State{}
			if _, _, err = rules.Webhook.Load(rules.StoredIn(v), stream, s); err == nil && s.Exists() && !s.Deleted() {
				all = append(all, s)
			}
		}
		return err
	})
	slices.SortFunc(all, func(a, b *webhook.State) int { return strings.Compare(a.GetConfigId(), b.GetConfigId()) })
	return all, err
}

// jobsRead is how many jobs one page of deliveries reads at most.
const jobsRead = 100_000

// Deliveries returns a page of a webhook's jobs in a status, or of all jobs if status
// is 0, newest first, and how many such jobs there are. // spec: Webhooks
func (q *Webhooks) Deliveries(ctx context.Context, id webhook.ID, by parley.OrgID, status webhook.Status, offset, limit int) (page []WebhookJob, total int, err error) {
	err = q.view(ctx, func(v journal.View) error {
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
	read := 0
	err = v.Rows(id.Slot(), journal.DeliveryTable, id[:], before, true, func(_, value []byte) bool {
		var j webhook.Job
		if bad = encoding.Unmarshal(value, &j); bad != nil {
			return false
		}
		if read++; status != 0 && j.GetStatus() != status {
			return read < jobsRead
		}
		if offset--; offset < 0 {
			page = append(page, WebhookJob{s.JobID(j.Number), s, &j})
		}
		return len(page) < limit && read < jobsRead
	})
	return page, errors.Join(err, bad)
}

// AnnouncementsOf returns the jobs that announce a message's arrival, one for each
// webhook of its recipient that has such a job.
func (q *Webhooks) AnnouncementsOf(ctx context.Context, of parley.AgentID, m Message) ([]WebhookJob, error) {
	hooks, err := q.Of(ctx, of)
	if err != nil {
		return nil, err
	}
	var all []WebhookJob
	err = q.view(ctx, func(v journal.View) error {
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

// jobAt returns the job created for the entry at a position of the feed, nil if there
// is none. Jobs are numbered in the order of the feed. Jobs of no feed entry (tests)
// have the position of the cursor at their creation.
func jobAt(v journal.View, s *webhook.State, position uint64) (*webhook.Job, error) {
	id := s.WebhookID()
	low, high := uint64(1), s.GetLastJob()+1
	for low < high {
		middle := (low + high) / 2
		j, err := ReadJob(v, id, middle)
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
		j, err := ReadJob(v, id, low)
		if err != nil || j == nil || j.GetPosition() != position {
			return nil, err
		}
		if j.GetEvent() == webhook.MessageReceived {
			return j, nil
		}
	}
	return nil, nil
}

// ReadJob reads a job by its number, nil if there is none.
func ReadJob(v journal.View, id webhook.ID, number uint64) (*webhook.Job, error) {
	value, found, err := v.Row(id.Slot(), journal.DeliveryTable, record.JobKey(id, number))
	if err != nil || !found {
		return nil, err
	}
	j := &webhook.Job{}
	return j, encoding.Unmarshal(value, j)
}
