package agent_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/actorstest"
	"parley/actors/agent"
	"parley/client/parley"
)

type agentRules = actorstest.Rules[*agent.State, agent.Command, agent.Event]

// deciding plants a Decide that is wrong for commands of one type.
func deciding[C agent.Command](wrong func(*agent.State, C, time.Time) ([]agent.Event, error)) func(*agentRules) {
	return func(r *agentRules) {
		r.Decide = func(s *agent.State, c agent.Command, now time.Time) ([]agent.Event, error) {
			if mine, ok := c.(C); ok {
				return wrong(s, mine, now)
			}
			return agent.Decide(s, c, now)
		}
	}
}

// evolving plants an Evolve that is wrong for events of one type.
func evolving[E agent.Event](wrong func(*agent.State, E)) func(*agentRules) {
	return func(r *agentRules) {
		r.Evolve = func(s *agent.State, e agent.Event) {
			agent.Evolve(s, e)
			if mine, ok := e.(E); ok {
				wrong(s, mine)
			}
		}
	}
}

func TestOracleControl(t *testing.T) {
	trial.Finds(t, map[string]func(*agentRules){
		"a revoked agent changes": deciding(func(s *agent.State, c agent.Change, now time.Time) ([]agent.Event, error) {
			alive := proto.CloneOf(s)
			alive.RevokedMs = 0
			return agent.Decide(alive, c, now)
		}),
		"a leaf is numbered like another": evolving(func(s *agent.State, e *agent.KeysBound) {
			if e.GetLeaf() != nil {
				s.KeyLeaves--
			}
		}),
		"policy before existence": deciding(func(s *agent.State, c agent.Send, now time.Time) ([]agent.Event, error) {
			_, err := agent.Decide(s, c, now)
			if errors.Is(err, agent.ErrUnknownRecipient) && c.RecipientGroupsOnly {
				err = agent.ErrIncomingPolicy
			}
			return nil, err
		}),
		"self before policy": deciding(func(s *agent.State, c agent.Send, now time.Time) ([]agent.Event, error) {
			_, err := agent.Decide(s, c, now)
			if errors.Is(err, agent.ErrOutgoingPolicy) && c.Recipient == s.AgentID() {
				err = agent.ErrSelfMessage
			}
			return nil, err
		}),
		"exempt from one policy only": deciding(func(s *agent.State, c agent.Send, now time.Time) ([]agent.Event, error) {
			c.KeyExchange = c.KeyExchange && s.GetOutgoingPolicy() != agent.GroupsOnly
			return agent.Decide(s, c, now)
		}),
		"a repeat is judged anew": deciding(func(s *agent.State, c agent.Send, now time.Time) ([]agent.Event, error) {
			c.Prior = nil
			return agent.Decide(s, c, now)
		}),
		"any repeat is the same": deciding(func(s *agent.State, c agent.Send, now time.Time) ([]agent.Event, error) {
			if c.Prior != nil {
				c.Prior = &agent.Prior{Recipient: c.Prior.Recipient, Type: c.Type}
			}
			return agent.Decide(s, c, now)
		}),
		"another name is overlooked": deciding(func(s *agent.State, c agent.Change, now time.Time) ([]agent.Event, error) {
			c.Name = nil
			return agent.Decide(s, c, now)
		}),
		"a policy that a change forgets": evolving(func(s *agent.State, e *agent.Changed) {
			if e.IncomingPolicy != nil && e.OutgoingPolicy != nil {
				s.OutgoingPolicy = agent.SendAll
			}
		}),
		"everybody is listed":                  evolving(func(s *agent.State, _ *agent.Created) { s.Unlisted = false }),
		"a revoked agent keeps its poll token": evolving(func(s *agent.State, _ *agent.Revoked) { s.PollTokenHash = []byte("t1") }),
		"only two former keys are kept": evolving(func(s *agent.State, _ *agent.KeysRotated) {
			s.FormerKeys = s.FormerKeys[max(0, len(s.FormerKeys)-2):]
		}),
		"a retired key does not say when": evolving(func(s *agent.State, _ *agent.KeysRotated) {
			if n := len(s.FormerKeys); n > 0 {
				s.FormerKeys[n-1].RetiredMs = s.CreatedMs
			}
		}),
		"a key that comes back as another kind is forgotten": evolving(func(s *agent.State, e *agent.KeysRotated) {
			s.FormerKeys = slices.DeleteFunc(s.FormerKeys, func(k *agent.FormerKey) bool { return bytes.Equal(k.Raw, e.EncryptionKey) })
		}),
		"a token that was never written down": func(r *agentRules) {
			r.Evolve = func(s *agent.State, e agent.Event) {
				if issued, ok := e.(*agent.PollTokenIssued); ok && issued.AtMs == s.CreatedMs {
					return
				}
				agent.Evolve(s, e)
			}
		},
	})
}

func TestOracleControlOfCards(t *testing.T) {
	trial.Finds(t, map[string]func(*agentRules){
		"security members before A2A is enabled are accepted": deciding(func(s *agent.State, c agent.PublishCard, now time.Time) ([]agent.Event, error) {
			c.NamesSecurity = c.NamesSecurity && s.GetCard().GetA2AEnabled()
			return agent.Decide(s, c, now)
		}),
		"security members with a card that ends A2A are accepted": deciding(func(s *agent.State, c agent.PublishCard, now time.Time) ([]agent.Event, error) {
			c.NamesSecurity = c.NamesSecurity && c.A2AEnabled
			return agent.Decide(s, c, now)
		}),
		"security members are always refused": deciding(func(s *agent.State, c agent.PublishCard, now time.Time) ([]agent.Event, error) {
			if s.Exists() && !s.Revoked() && c.NamesSecurity {
				return nil, agent.ErrCardSecurity
			}
			return agent.Decide(s, c, now)
		}),
		"a card is created anew":         evolving(func(s *agent.State, e *agent.CardPublished) { s.Card.CreatedMs = e.AtMs }),
		"a revoked agent keeps its card": evolving(func(s *agent.State, e *agent.Revoked) { s.Card = &agent.Card{CreatedMs: 1, UpdatedMs: 1} }),
		"cards are counted from 1 again": evolving(func(s *agent.State, _ *agent.CardWithdrawn) { s.CardRevision = 0 }),
		"oversight is not shown": evolving(func(s *agent.State, _ *agent.Changed) {
			if s.Card != nil {
				s.Card.ShownMs = 0
			}
		}),
		"every card is public": deciding(func(s *agent.State, c agent.PublishCard, now time.Time) ([]agent.Event, error) {
			c.Public = true
			return agent.Decide(s, c, now)
		}),
	})
}

// bound returns a copy of the state in which all groups are isolated, or none is.
func bound(s *agent.State, isolated bool) *agent.State {
	c := proto.CloneOf(s)
	for _, m := range c.GetGroups() {
		m.Isolated = isolated
	}
	return c
}

func TestOracleControlOfGroups(t *testing.T) {
	trial.Finds(t, map[string]func(*agentRules){
		"out of an isolated group into another": deciding(func(s *agent.State, c agent.Enter, now time.Time) ([]agent.Event, error) {
			return agent.Decide(bound(s, false), c, now)
		}),
		"an isolated group beside others": deciding(func(s *agent.State, c agent.Enter, now time.Time) ([]agent.Event, error) {
			events, err := agent.Decide(s, c, now)
			if errors.Is(err, agent.ErrIsolationConflict) && !s.Confined() {
				return []agent.Event{&agent.Entered{Group: c.Group.Bytes(), Offer: c.Offer, Isolated: true, AtMs: now.UnixMilli()}}, nil
			}
			return events, err
		}),
		"one group at a time": deciding(func(s *agent.State, c agent.Enter, now time.Time) ([]agent.Event, error) {
			return agent.Decide(bound(s, true), c, now)
		}),
		"a seat is taken twice": deciding(func(s *agent.State, c agent.Enter, now time.Time) ([]agent.Event, error) {
			events, err := agent.Decide(s, c, now)
			if err == nil && len(events) == 0 {
				events = append(events, &agent.Entered{Group: c.Group.Bytes(), Offer: c.Offer, Isolated: c.Isolated, AtMs: now.UnixMilli()})
			}
			return events, err
		}),
		"a later seat is not taken": deciding(func(s *agent.State, c agent.Enter, now time.Time) ([]agent.Event, error) {
			if s.In(c.Group) {
				c.Offer = 0
			}
			return agent.Decide(s, c, now)
		}),
		"a departure from any seat": deciding(func(s *agent.State, c agent.Depart, now time.Time) ([]agent.Event, error) {
			c.Offer += 4
			return agent.Decide(s, c, now)
		}),
		"a departure from earlier seats only": deciding(func(s *agent.State, c agent.Depart, now time.Time) ([]agent.Event, error) {
			c.Offer--
			return agent.Decide(s, c, now)
		}),
		"isolation after policies": deciding(func(s *agent.State, c agent.Send, now time.Time) ([]agent.Event, error) {
			_, err := agent.Decide(s, c, now)
			if errors.Is(err, parley.ErrIsolatedAgent) && c.RecipientGroupsOnly {
				err = agent.ErrIncomingPolicy
			}
			return nil, err
		}),
		"isolation holds in one direction": deciding(func(s *agent.State, c agent.Send, now time.Time) ([]agent.Event, error) {
			if !s.Confined() {
				c.RecipientGroups = nil
			}
			return agent.Decide(s, c, now)
		}),
		"keys pass isolation": deciding(func(s *agent.State, c agent.Send, now time.Time) ([]agent.Event, error) {
			if c.KeyExchange {
				s = bound(s, false)
			}
			return agent.Decide(s, c, now)
		}),
		"all the isolated talk": deciding(func(s *agent.State, c agent.Send, now time.Time) ([]agent.Event, error) {
			if s.Confined() && len(c.RecipientGroups) == 1 && c.RecipientGroups[0].Isolated {
				c.RecipientGroups = s.GetGroups()
			}
			return agent.Decide(s, c, now)
		}),
		"keys among strangers": deciding(func(s *agent.State, c agent.Send, now time.Time) ([]agent.Event, error) {
			_, err := agent.Decide(s, c, now)
			if c.KeyExchange && errors.Is(err, agent.ErrIncomingPolicy) {
				err = nil
			}
			return nil, err
		}),
		"a revoked agent stays in its groups": func(r *agentRules) {
			r.Evolve = func(s *agent.State, e agent.Event) {
				groups := s.GetGroups()
				if agent.Evolve(s, e); s.Revoked() {
					s.Groups = groups
				}
			}
		},
		"entered anew, and yet not the last": evolving(func(s *agent.State, _ *agent.Entered) {
			slices.SortStableFunc(s.Groups, func(a, b *agent.Membership) int { return bytes.Compare(a.Group, b.Group) })
		}),
		"isolation is not kept":  evolving(func(s *agent.State, e *agent.Entered) { s.Groups[len(s.Groups)-1].Isolated = false }),
		"one departure ends all": evolving(func(s *agent.State, _ *agent.Departed) { s.Groups = nil }),
	})
}
