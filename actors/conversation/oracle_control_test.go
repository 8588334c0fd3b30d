package conversation_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley"
	"parley/actors/actorstest"
	"parley/actors/conversation"
)

type talkRules = actorstest.Rules[*conversation.State, conversation.Command, conversation.Event]

// deciding plants a Decide that is wrong about commands of one kind.
func deciding[C conversation.Command](wrong func(*conversation.State, C, time.Time) ([]conversation.Event, error)) func(*talkRules) {
	return func(r *talkRules) {
		r.Decide = func(s *conversation.State, c conversation.Command, now time.Time) ([]conversation.Event, error) {
			if mine, ok := c.(C); ok {
				return wrong(s, mine, now)
			}
			return conversation.Decide(s, c, now)
		}
	}
}

// evolving plants an Evolve that goes wrong after events of one kind.
func evolving[E conversation.Event](wrong func(*conversation.State, E)) func(*talkRules) {
	return func(r *talkRules) {
		r.Evolve = func(s *conversation.State, e conversation.Event) {
			crowding(s, e)
			if mine, ok := e.(E); ok {
				wrong(s, mine)
			}
		}
	}
}

// allowing plants one more move in the table, which anybody may make.
func allowing(from, to conversation.Status) func(*talkRules) {
	return deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
		events, err := conversation.Decide(s, c, now)
		if errors.Is(err, conversation.ErrInvalidTransition) && s.GetStatus() == from && c.Status == to.String() {
			return []conversation.Event{&conversation.StatusChanged{Status: to, By: c.By[0].Bytes(), AtMs: now.UnixMilli()}}, nil
		}
		return events, err
	})
}

// telling alters what a refused move says.
func telling(alter func(*parley.Refusal)) func(*talkRules) {
	return deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
		events, err := conversation.Decide(s, c, now)
		if refusal := (*parley.Refusal)(nil); errors.As(err, &refusal) && refusal.Extra != nil {
			alter(refusal)
		}
		return events, err
	})
}

func TestOracleControl(t *testing.T) {
	trial.Finds(t, map[string]func(*talkRules){
		"a terminal state is left":    allowing(conversation.Failed, conversation.Open),
		"declined after it was open":  allowing(conversation.Open, conversation.Rejected),
		"the same state again":        allowing(conversation.Paused, conversation.Paused),
		"a move that leads back":      allowing(conversation.Open, conversation.Submitted),
		"not all moves are told":      telling(func(r *parley.Refusal) { r.Extra["allowed"] = r.Extra["allowed"].([]string)[:0] }),
		"where it stands is not told": telling(func(r *parley.Refusal) { delete(r.Extra, "current_status") }),
		"a reply after the end": deciding(func(s *conversation.State, c conversation.Reply, now time.Time) ([]conversation.Event, error) {
			open := proto.CloneOf(s)
			if open.Status == conversation.Canceled {
				open.Status = conversation.Open
			}
			return conversation.Decide(open, c, now)
		}),
		"the first reply opens nothing": deciding(func(s *conversation.State, c conversation.Reply, now time.Time) ([]conversation.Event, error) {
			events, err := conversation.Decide(s, c, now)
			return events[:min(1, len(events))], err
		}),
		"closed before access": deciding(func(s *conversation.State, c conversation.Reply, now time.Time) ([]conversation.Event, error) {
			events, err := conversation.Decide(s, c, now)
			if s.Terminal() && errors.Is(err, conversation.ErrNotParticipant) {
				err = conversation.ErrClosed.With("current_status", s.GetStatus().String())
			}
			return events, err
		}),
		"a stranger is written to": deciding(func(s *conversation.State, c conversation.Reply, now time.Time) ([]conversation.Event, error) {
			stranger := c
			stranger.To, _ = s.Other(c.From)
			if events, err := conversation.Decide(s, stranger, now); err == nil && len(events) > 0 {
				events[0].(*conversation.Posted).To = c.To.Bytes()
				return events, nil
			}
			return conversation.Decide(s, c, now)
		}),
		"a mediator declines": deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
			if c.Status == "rejected" && len(c.By) > 0 && s.Role(c.By[0]) == conversation.Mediator {
				c.By = []parley.AgentID{agent("bob")}
			}
			return conversation.Decide(s, c, now)
		}),
		"an observer moves": deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
			if len(c.By) > 0 && s.Role(c.By[0]) == conversation.Observer {
				c.By = []parley.AgentID{agent("bob")}
			}
			return conversation.Decide(s, c, now)
		}),
		"the last that may moves": deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
			c.By = slices.Clone(c.By)
			slices.Reverse(c.By)
			return conversation.Decide(s, c, now)
		}),
		"a reason is not kept": deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
			c.Reason = ""
			return conversation.Decide(s, c, now)
		}),
		"a move is no news":          evolving(func(s *conversation.State, _ *conversation.StatusChanged) { s.UpdatedMs = s.CreatedMs }),
		"replies are not counted":    evolving(func(s *conversation.State, _ *conversation.Posted) { s.Messages = 1 }),
		"an old message is the last": evolving(func(s *conversation.State, e *conversation.Posted) { s.LastMessageId = e.InReplyTo }),
		"a part without a whole":     evolving(func(s *conversation.State, _ *conversation.Started) { s.Parent = nil }),
	})
}
