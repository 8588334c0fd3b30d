package delivery

import (
	"context"
	"errors"
	"fmt"

	"parley/actors/conversation"
	"parley/actors/host"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// PushConfigsMax is how many configurations of push notifications a task may have.
const PushConfigsMax = 10

// ErrPushConfigs refuses a further configuration of a task.
var ErrPushConfigs = parley.ErrQuotaExceeded.Saying(fmt.Sprintf("A task has at most %d push notification configurations: delete one.", PushConfigsMax))

// PushConfig is the request for a configuration of push notifications. It is stored as a
// webhook of the agent that began the task. // source: A2A 1.0 section 4.3
type PushConfig struct {
	Task parley.ConversationID
	// Initiator is the agent that began the task, Org its organization.
	Initiator parley.AgentID
	Org       parley.OrgID
	// ConfigID names the configuration in its task.
	ConfigID string
	// URL is requested; SentURL is the text that the client sent.
	URL, SentURL string
	// Seal seals what goes with each delivery. It is bound to the id of the webhook.
	Seal func(webhook.ID) []byte
	// After is the number of the task's event after which deliveries begin.
	After uint64
}

// replaceTries is how often SetPushConfig tries again if the configuration that it replaces
// is deleted meanwhile.
const replaceTries = 3

// SetPushConfig creates a configuration of push notifications, or replaces the one that has
// its id. A replaced one goes on where it was. Errors include ErrPushConfigs and, for a
// revoked agent, parley.ErrGone.
func (hooks *Webhooks) SetPushConfig(ctx context.Context, c PushConfig) (*webhook.State, error) {
	for try := 1; ; try++ {
		id := hooks.NewID(c.Initiator)
		copy(id[:record.TaskIDBytes], record.TaskPart(c.Task))
		sealed := c.Seal(id)
		size := len(c.URL) + len(c.SentURL) + len(c.ConfigID) + len(sealed)
		made, err := host.Ask[*webhook.State](ctx, hooks.engine, rules.AgentStream(c.Initiator), size, CreateWebhook{
			ID: id, Agent: c.Initiator, Org: c.Org, URL: c.URL, SentURL: c.SentURL, SealedSecret: sealed,
			Task: c.Task, ConfigID: c.ConfigID, After: c.After,
		})
		if err != nil || made.Exists() && made.WebhookID() == id {
			return made, err
		}
		id = made.WebhookID()
		made, err = host.Ask[*webhook.State](ctx, hooks.engine, rules.WebhookStream(id), size, webhook.Redirect{
			By: c.Org, URL: c.URL, SentURL: c.SentURL, SealedSecret: c.Seal(id),
		})
		if !errors.Is(err, webhook.ErrUnknown) || try == replaceTries {
			return made, err
		}
	}
}

// createPush creates a configuration of push notifications in a turn of its agent, or
// returns a state with the id of the one that has its id in the task.
func (hooks *Webhooks) createPush(t *agentTurn, c CreateWebhook) (any, error) {
	var taken *webhook.State
	count := 0
	err := t.Rows(journal.WebhookTable, record.TaskKeys(c.Agent, c.Task), func(key, value []byte) {
		if record.DecodeEventFilter(value).Task != c.Task {
			return
		}
		if count++; record.ConfigID(value) == c.ConfigID {
			taken = &webhook.State{Id: key[16:]}
		}
	})
	if err != nil {
		return nil, err
	}
	t.DependOnJournal() // the answer depends on rows that webhooks write too
	switch {
	case taken != nil:
		return taken, nil
	case count >= PushConfigsMax:
		return nil, ErrPushConfigs
	}
	made := &webhook.State{}
	events, err := webhook.Decide(made, webhook.Create{
		ID: c.ID, Agent: c.Agent, Org: c.Org, URL: c.URL, SentURL: c.SentURL, SealedSecret: c.SealedSecret, Edge: c.After,
		Task: c.Task, ConfigID: c.ConfigID,
	}, t.Now)
	if err != nil {
		return nil, err
	}
	return hooks.store(t, made, events)
}

// collectTask creates jobs from new durable events of the task, and reports whether there
// are more. A task that was erased has ended.
func (hooks *Webhooks) collectTask(t *webhookTurn) (more bool, err error) {
	s := t.State
	if !s.GetActive() || s.GetEndedMs() != 0 {
		return false, nil
	}
	task, _ := s.Task()
	c, read := webhook.Collect{Upto: s.GetCursor()}, 0
	v := hooks.journal.View()
	defer v.Close()
	now := &conversation.State{}
	number, _, err := rules.Conversation.Load(rules.StoredIn(v), rules.ConversationStream(task), now)
	switch {
	case errors.Is(err, journal.ErrErased), err == nil && !now.Exists():
		c.Ended = true
	case err != nil:
		return false, err
	case number == s.GetCursor():
		c.Ended = now.Terminal()
	default:
		initiator, last := now.Initiator(), false
		err = hooks.eachEvent(v, task, s.GetCursor()+1, func(n uint64, at int64, e conversation.Event) bool {
			var news *webhook.News
			if news, last = record.TaskNews(task, initiator, n, at, e); news != nil {
				c.News = append(c.News, webhook.Entry{Position: n, News: news})
			}
			c.Upto = n
			c.Ended = c.Ended || last
			read++
			return read < collectMax
		})
	}
	if err != nil || read == 0 && !c.Ended {
		return false, err
	}
	if err := v.Durable(context.Background()); err != nil {
		return false, err
	}
	return read == collectMax, t.Decide(c)
}

// eachEvent calls fn with the events of a conversation from a number on.
func (hooks *Webhooks) eachEvent(v journal.View, id parley.ConversationID, from uint64, fn func(n uint64, at int64, e conversation.Event) bool) error {
	var bad error
	err := v.Events(rules.ConversationStream(id), from, false, func(n uint64, at int64, f journal.StoredEvent) bool {
		var e conversation.Event
		if e, bad = rules.Conversation.Decode(f); bad != nil {
			return false
		}
		return fn(n, at, e)
	})
	return errors.Join(err, bad)
}

// countEnded counts the attempts that ended in the turn that deletes their webhook.
func (hooks *Webhooks) countEnded(t *webhookTurn) {
	for _, e := range t.Events {
		if e, ok := e.(*webhook.Reported); ok {
			hooks.dispatch().attempts.count(e.Results)
		}
	}
}
