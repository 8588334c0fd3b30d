package a2a

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
	"parley/http/rest"
)

// awaitReply returns when the agent has replied to a message, the task has ended or waits
// for input, or patience has passed. It returns the reply if that is a lone message, else nil.
// The error is errNotFound if the task was erased.
func (b *Bridge) awaitReply(c *call, s sent, patience time.Duration) (lone *query.Message, err error) {
	follower, stop := b.hub.follow(s.posted.Message.Conversation())
	defer stop()
	timer, look := time.NewTimer(patience), time.NewTicker(gonePoll)
	defer timer.Stop()
	defer look.Stop()
	at := s.before
	for {
		events, err := b.Node.Messages.EventsAfter(c.Context(), &at, eventBatch, fitsFor(c.Call))
		if errors.Is(err, rest.ErrHeld) {
			return nil, nil // the message is stored: the task as it is says so
		}
		if err != nil {
			return nil, err
		}
		lone, replied := s.replied(events)
		if replied || len(events) == 0 && at.State.Terminal() {
			return lone, nil
		}
		if len(events) > 0 {
			continue
		}
		if !rests(c, follower, timer.C, look.C, b.CutOff) {
			return nil, nil
		}
		if b.erased(c.Context(), at.State.ConversationID()) {
			return nil, errNotFound
		}
	}
}

// replied reports whether events after a message end the wait for its reply, and returns the
// reply if it is a lone message.
func (s *sent) replied(events []query.ConversationEvent) (lone *query.Message, replied bool) {
	own := s.posted.Message.MessageID()
	for i := range events {
		e := &events[i]
		if !s.passed {
			s.passed = e.Message != nil && e.Message.Record.MessageID() == own
			continue
		}
		if moved, ok := e.Event.(*conversation.StatusChanged); ok && (moved.GetStatus().Terminal() || interrupted(moved.GetStatus())) {
			return nil, true
		}
		if e.Message == nil || e.Message.Record.Sender() != s.view.responder {
			continue
		}
		switch s.view.kindOf(e.Message.Record, e.Lone) {
		case isLone:
			return e.Message, true
		case isStatus:
		default:
			return nil, true
		}
	}
	return nil, false
}

// rests waits until there may be new events, and reports whether to read them.
func rests(c *call, f *follower, late, look <-chan time.Time, cutOff func() bool) bool {
	defer c.Park()()
	for {
		select {
		case <-f.wake:
			return true
		case <-late:
			return false
		case <-look:
			if c.Evicted() || c.Gone() || cutOff() {
				return false
			}
		case <-c.Draining():
			return false
		}
	}
}

const (
	// waitingMax bounds the tasks that a new task names because they wait for input, and
	// waitingReads the conversations among which they are looked for.
	waitingMax, waitingReads = 10, 1000
	// clockSpare is by how much the clocks that date conversations may differ.
	clockSpare = 2 * time.Hour
	// inputRequiredTasks is the member of a task's metadata that names them.
	inputRequiredTasks = "input_required_tasks"
)

// waiting returns the ids of tasks of a context that wait for input, the latest change first: those
// of the caller with the addressed agent, but for the one that a message has begun. A client that
// answers with a context alone begins a task,
// and learns which one it may have meant.
//
// They are looked for among the conversations of the sender, and then of the caller's other agents,
// as old as the context or younger. That reads at most 1,000 states, about 10 ms.
func (b *Bridge) waiting(c *call, first *record.Message, context parley.ConversationID) ([]string, error) {
	var found []taskPlace
	sender, left, since := first.Sender(), waitingReads, context.Time().Add(-clockSpare)
	look := func(from parley.AgentID) error {
		read, err := b.Node.Messages.NewestTasks(c.Context(), from, c.to.AgentID(), since, left, func(s *conversation.State) error {
			if !interrupted(s.GetStatus()) || s.ConversationID() == first.Conversation() || !b.seen(c, s) {
				return nil
			}
			root, err := b.contextOf(c.Context(), c.Caller.Org, s)
			if err == nil && root == context {
				found = append(found, placeOf(s))
			}
			return err
		})
		left -= max(read, 1)
		return err
	}
	bad := look(sender)
	err := b.Agents.Each(c.Call, 0, func(_ uint64, a *agent.State) bool {
		if a.AgentID() != sender && bad == nil && left > 0 {
			bad = look(a.AgentID())
		}
		return bad == nil && left > 0
	})
	slices.SortFunc(found, compareTasks)
	ids := make([]string, 0, waitingMax)
	for _, at := range found[:min(len(found), waitingMax)] {
		ids = append(ids, at.id.String())
	}
	return ids, cmp.Or(bad, err)
}
