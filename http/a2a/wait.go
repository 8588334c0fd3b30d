package a2a

import (
	"errors"
	"time"

	"parley/actors/conversation"
	"parley/actors/query"
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
