package agent_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
)

// altered returns a copy of the state with the change applied.
func altered(s *agent.State, change func(*agent.State)) *agent.State {
	c := proto.CloneOf(s)
	change(c)
	return c
}

// forgiving plants a Decide that accepts commands it should refuse for the given
// reason.
func forgiving(reason error) func(*agentRules) {
	return deciding(func(s *agent.State, c agent.BindKeys, now time.Time) ([]agent.Event, error) {
		events, err := agent.Decide(s, c, now)
		if errors.Is(err, reason) {
			return []agent.Event{&agent.KeysBound{AtMs: now.UnixMilli(), Binding: &agent.KeyBinding{
				Signature: c.Signature, SignedAt: c.SignedAt, SigningKey: s.SigningKey, EncryptionKey: s.EncryptionKey, PreviousSignature: c.PreviousSignature,
			}}}, nil
		}
		return events, err
	})
}

func TestOracleControlOfKeys(t *testing.T) {
	trial.Finds(t, map[string]func(*agentRules){
		"any signature binds":          forgiving(agent.ErrBindingSignature),
		"any previous signature binds": forgiving(agent.ErrPreviousSignature),
		"any instant binds":            forgiving(agent.ErrBindingStale),
		"a binding for tomorrow":       forgiving(agent.ErrBindingAhead),
		"keys that change stay bound":  evolving(func(s *agent.State, _ *agent.KeysRotated) { s.UnboundMs = 0 }),
		"unbound since the last change": evolving(func(s *agent.State, e *agent.KeysRotated) {
			s.UnboundMs = e.AtMs
		}),
		"a binding is forgotten": evolving(func(s *agent.State, _ *agent.KeysBound) { s.Bindings = s.Bindings[max(0, len(s.Bindings)-3):] }),
		"a bound key stays unbound": evolving(func(s *agent.State, e *agent.KeysBound) {
			s.UnboundMs = e.AtMs
		}),
		"keys without their proof": deciding(func(s *agent.State, c agent.RotateKeys, now time.Time) ([]agent.Event, error) {
			events, err := agent.Decide(s, c, now)
			if err != nil && c.Proof != nil {
				c.Proof = nil
				return agent.Decide(s, c, now)
			}
			return events, err
		}),
		"a proof without its keys": deciding(func(s *agent.State, c agent.RotateKeys, now time.Time) ([]agent.Event, error) {
			events, err := agent.Decide(s, c, now)
			if len(events) == 2 {
				events = events[:1]
			}
			return events, err
		}),
		"a retired key comes back": deciding(func(s *agent.State, c agent.RotateKeys, now time.Time) ([]agent.Event, error) {
			return agent.Decide(altered(s, func(s *agent.State) {
				for _, k := range s.FormerKeys {
					k.DistrustedMs = 0
				}
			}), c, now)
		}),
		"a retired key vouches": deciding(func(s *agent.State, c agent.BindKeys, now time.Time) ([]agent.Event, error) {
			return agent.Decide(altered(s, func(s *agent.State) {
				for _, k := range s.FormerKeys {
					k.DistrustedMs = 0
				}
			}), c, now)
		}),
		"a token alone retires a key": deciding(func(s *agent.State, c agent.RetireKey, now time.Time) ([]agent.Event, error) {
			events, err := agent.Decide(s, c, now)
			if k, _ := s.KeyByKid(c.Kid); errors.Is(err, agent.ErrKeyUnlinked) {
				return []agent.Event{&agent.KeyDistrusted{Curve: k.Curve, Raw: k.Raw, AtMs: now.UnixMilli()}}, nil
			}
			return events, err
		}),
		"a retired encryption key stays away": deciding(func(s *agent.State, c agent.RotateKeys, now time.Time) ([]agent.Event, error) {
			for _, k := range s.GetFormerKeys() {
				if k.DistrustedMs != 0 && bytes.Equal(k.Raw, c.Encryption) {
					return nil, agent.ErrKeyRetired
				}
			}
			return agent.Decide(s, c, now)
		}),
		"retired anew": deciding(func(s *agent.State, c agent.RetireKey, now time.Time) ([]agent.Event, error) {
			events, err := agent.Decide(s, c, now)
			if k, known := s.KeyByKid(c.Kid); err == nil && known && len(events) == 0 {
				events = append(events, &agent.KeyDistrusted{Curve: k.Curve, Raw: k.Raw, AtMs: now.UnixMilli()})
			}
			return events, err
		}),
		"a key holds since it came back": evolving(func(s *agent.State, e *agent.KeysRotated) {
			if e.SigningKey != nil {
				s.SigningSinceMs = e.AtMs
			}
		}),
		"a former key forgets since when": evolving(func(s *agent.State, _ *agent.KeysRotated) {
			for _, k := range s.FormerKeys {
				k.SinceMs = 0
			}
		}),
		"retirement changes nothing": evolving(func(s *agent.State, e *agent.KeyDistrusted) { s.KeysMs = s.CreatedMs }),
	})
}

func TestOracleControlOfPQKeys(t *testing.T) {
	trial.Finds(t, map[string]func(*agentRules){
		"a new encryption key keeps the post-quantum key": func(r *agentRules) {
			r.Evolve = func(s *agent.State, e agent.Event) {
				kept := s.GetPqKey()
				agent.Evolve(s, e)
				if _, rotated := e.(*agent.KeysRotated); rotated {
					s.PqKey = kept
				}
			}
		},
		"any rotation removes the post-quantum key":  evolving(func(s *agent.State, _ *agent.KeysRotated) { s.PqKey = nil }),
		"a post-quantum key is not dated":            evolving(func(s *agent.State, _ *agent.PQKeySet) { s.PqKey.SinceMs = s.CreatedMs }),
		"a post-quantum key changes no document":     evolving(func(s *agent.State, _ *agent.PQKeySet) { s.KeysMs = s.CreatedMs }),
		"without a post-quantum key nothing changes": evolving(func(s *agent.State, _ *agent.PQKeyRemoved) { s.KeysMs = s.CreatedMs }),
		"the algorithm does not matter": deciding(func(s *agent.State, c agent.SetPQKey, now time.Time) ([]agent.Event, error) {
			if s.GetPqKey() != nil {
				c.Algorithm = s.PqKey.Algorithm
			}
			return agent.Decide(s, c, now)
		}),
		"the same key again is news": deciding(func(s *agent.State, c agent.SetPQKey, now time.Time) ([]agent.Event, error) {
			return agent.Decide(altered(s, func(s *agent.State) { s.PqKey = nil }), c, now)
		}),
	})
}
