package conversation_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/actorstest"
	"parley/actors/conversation"
	"parley/client/parley"
)

type talkRules = actorstest.Rules[*conversation.State, conversation.Command, conversation.Event]

// deciding plants a Decide that is wrong for commands of one type.
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

// evolving plants an Evolve that is wrong for events of one type.
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

// allowing adds a status change to the table that every participant may make.
func allowing(from, to conversation.Status) func(*talkRules) {
	return deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
		events, err := conversation.Decide(s, c, now)
		if errors.Is(err, conversation.ErrInvalidTransition) && s.GetStatus() == from && c.Status == to.String() {
			return []conversation.Event{&conversation.StatusChanged{Status: to, By: c.By[0].Bytes(), AtMs: now.UnixMilli()}}, nil
		}
		return events, err
	})
}

// telling alters the refusal of a status change.
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
		"a reply ends what is no task": deciding(func(s *conversation.State, c conversation.Reply, now time.Time) ([]conversation.Event, error) {
			task := proto.CloneOf(s)
			task.Task = task.GroupID().Zero()
			return conversation.Decide(task, c, now)
		}),
		"the initiator ends a task": deciding(func(s *conversation.State, c conversation.Reply, now time.Time) ([]conversation.Event, error) {
			events, err := conversation.Decide(s, c, now)
			if err == nil && s.GetTask() && s.Role(c.From) == conversation.Initiator && c.Outcome != 0 && s.GetStatus() == conversation.Open {
				events = append(events, &conversation.StatusChanged{Status: c.Outcome, By: c.From.Bytes(), AtMs: now.UnixMilli()})
			}
			return events, err
		}),
		"input opens nothing": deciding(func(s *conversation.State, c conversation.Reply, now time.Time) ([]conversation.Event, error) {
			events, err := conversation.Decide(s, c, now)
			if s.GetStatus() == conversation.InputRequired && s.Role(c.From) == conversation.Initiator {
				events = events[:min(1, len(events))]
			}
			return events, err
		}),
		"a later reply is a message alone": evolving(func(s *conversation.State, _ *conversation.Posted) { s.Unanswered = s.GetMessages() - 1 }),
		"an authorization is waited for ever": evolving(func(s *conversation.State, e *conversation.StatusChanged) {
			s.AuthRequired = s.GetAuthRequired() || e.GetReason() == "auth_required" && e.GetStatus() == conversation.InputRequired
			if e.GetStatus() == conversation.Open {
				s.AuthRequired = e.GetReason() == "auth_required"
			}
		}),
		"an artifact is forgotten": evolving(func(s *conversation.State, _ *conversation.Posted) {
			s.Artifacts = s.Artifacts[:min(len(s.Artifacts), 16)]
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

func TestOracleControlOfGroups(t *testing.T) {
	trial.Finds(t, map[string]func(*talkRules){
		"a broadcast opens": deciding(func(s *conversation.State, c conversation.Broadcast, now time.Time) ([]conversation.Event, error) {
			events, err := conversation.Decide(s, c, now)
			if err == nil && s.GetStatus() == conversation.Submitted {
				events = append(events, &conversation.StatusChanged{Status: conversation.Open, By: c.From.Bytes(), AtMs: now.UnixMilli()})
			}
			return events, err
		}),
		"a broadcast after the end": deciding(func(s *conversation.State, c conversation.Broadcast, now time.Time) ([]conversation.Event, error) {
			open := proto.CloneOf(s)
			open.Status = conversation.Open
			return conversation.Decide(open, c, now)
		}),
		"a broadcast to two": deciding(func(s *conversation.State, c conversation.Broadcast, now time.Time) ([]conversation.Event, error) {
			shared := proto.CloneOf(s)
			if s.Exists() {
				shared.Group = c.MessageID.Bytes()
			}
			return conversation.Decide(shared, c, now)
		}),
		"only those who began it reply": deciding(func(s *conversation.State, c conversation.Reply, now time.Time) ([]conversation.Event, error) {
			alone := proto.CloneOf(s)
			alone.Group = nil
			return conversation.Decide(alone, c, now)
		}),
		"isolation is overlooked": deciding(func(s *conversation.State, c conversation.Reply, now time.Time) ([]conversation.Event, error) {
			c.Apart = c.Apart && s.GroupID().Zero()
			return conversation.Decide(s, c, now)
		}),
		"the end before isolation": deciding(func(s *conversation.State, c conversation.Reply, now time.Time) ([]conversation.Event, error) {
			events, err := conversation.Decide(s, c, now)
			if s.Terminal() && errors.Is(err, parley.ErrIsolatedAgent) {
				err = conversation.ErrClosed.With("current_status", s.GetStatus().String())
			}
			return events, err
		}),
		"an admin rejects": deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
			if !s.GroupID().Zero() && c.Status == "rejected" {
				c.Status = "open"
				events, err := conversation.Decide(s, c, now)
				for _, e := range events {
					e.(*conversation.StatusChanged).Status = conversation.Rejected
				}
				return events, err
			}
			return conversation.Decide(s, c, now)
		}),
		"rejected is offered": telling(func(r *parley.Refusal) {
			if words, ok := r.Extra["allowed"].([]string); ok && slices.Contains(words, "canceled") && slices.Contains(words, "open") && len(words) == 3 {
				r.Extra["allowed"] = []string{"open", "rejected", "canceled", "failed"}
			}
		}),
		"anybody in the group moves": deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
			c.Admins = append(slices.Clone(c.Admins), c.By...)
			return conversation.Decide(s, c, now)
		}),
		"the initiator steers after leaving": deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
			for _, by := range c.By {
				if s.Role(by) == conversation.Initiator {
					c.Members = append(slices.Clone(c.Members), by)
				}
			}
			return conversation.Decide(s, c, now)
		}),
		"every member steers": deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
			if !s.GroupID().Zero() {
				c.Admins = append(slices.Clone(c.Admins), c.Members...)
			}
			return conversation.Decide(s, c, now)
		}),
		"the initiator may not decide": deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
			if !s.GroupID().Zero() {
				c.By = slices.DeleteFunc(slices.Clone(c.By), func(by parley.AgentID) bool {
					return s.Role(by) == conversation.Initiator && !slices.Contains(c.Admins, by)
				})
			}
			return conversation.Decide(s, c, now)
		}),
		"an admin that did not ask moves": deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
			if !s.GroupID().Zero() {
				c.By = append(slices.Clone(c.Admins), c.By...)
			}
			return conversation.Decide(s, c, now)
		}),
		"a mediator steps in": deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
			if !s.GroupID().Zero() && len(c.By) > 0 && s.Role(c.By[0]) == conversation.Mediator {
				c.Admins = c.By[:1]
			}
			return conversation.Decide(s, c, now)
		}),
		"admins of two": deciding(func(s *conversation.State, c conversation.ChangeStatus, now time.Time) ([]conversation.Event, error) {
			if s.Exists() && s.GroupID().Zero() && len(c.By) > 0 && c.Status != "rejected" && slices.Contains(c.Admins, c.By[0]) {
				shared := proto.CloneOf(s)
				shared.Group = c.By[0].Bytes()
				return conversation.Decide(shared, c, now)
			}
			return conversation.Decide(s, c, now)
		}),
		"broadcasts are not counted":   evolving(func(s *conversation.State, _ *conversation.Broadcasted) { s.Messages-- }),
		"an old broadcast is the last": evolving(func(s *conversation.State, _ *conversation.Broadcasted) { s.LastMessageId = s.Id }),
		"a broadcast is no news":       evolving(func(s *conversation.State, _ *conversation.Broadcasted) { s.UpdatedMs = s.CreatedMs }),
		"a group's responder": evolving(func(s *conversation.State, e *conversation.Started) {
			s.Participants = append(s.Participants[:1:1], s.Participants...)
		}),
		"whose conversation it is is lost": evolving(func(s *conversation.State, _ *conversation.Started) { s.Group = nil }),
	})
}
