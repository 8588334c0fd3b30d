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
)

type agentRules = actorstest.Rules[*agent.State, agent.Command, agent.Event]

// deciding plants a Decide that is wrong about commands of one kind.
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

// evolving plants an Evolve that goes wrong after events of one kind.
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
			c.Exempt = c.Exempt && s.GetOutgoingPolicy() != agent.GroupsOnly
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
