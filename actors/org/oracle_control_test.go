package org_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/org"
	"parley/client/parley"
)

type defects = map[string]func(*actorstest.Rules[*org.State, org.Command, org.Event])

// deciding plants a Decide that is wrong for commands of one type.
func deciding[C org.Command](wrong func(*org.State, C, time.Time) ([]org.Event, error)) func(*actorstest.Rules[*org.State, org.Command, org.Event]) {
	return func(r *actorstest.Rules[*org.State, org.Command, org.Event]) {
		r.Decide = func(s *org.State, c org.Command, now time.Time) ([]org.Event, error) {
			if mine, ok := c.(C); ok {
				return wrong(s, mine, now)
			}
			return org.Decide(s, c, now)
		}
	}
}

// evolving plants an Evolve that is wrong for events of one type.
func evolving[E org.Event](wrong func(*org.State, E)) func(*actorstest.Rules[*org.State, org.Command, org.Event]) {
	return func(r *actorstest.Rules[*org.State, org.Command, org.Event]) {
		r.Evolve = func(s *org.State, e org.Event) {
			org.Evolve(s, e)
			if mine, ok := e.(E); ok {
				wrong(s, mine)
			}
		}
	}
}

func TestOracleControl(t *testing.T) {
	trial.Finds(t, defects{
		"the last credential may go": deciding(func(s *org.State, c org.RevokeCredential, now time.Time) ([]org.Event, error) {
			events, err := org.Decide(s, c, now)
			if errors.Is(err, org.ErrLastCredential) {
				return []org.Event{&org.CredentialRevoked{ClientId: c.ClientID.Bytes(), AtMs: now.UnixMilli()}}, nil
			}
			return events, err
		}),
		"a credential of another scope counts as the last": deciding(func(s *org.State, c org.RevokeCredential, now time.Time) ([]org.Event, error) {
			if one := s.Credential(c.ClientID); one.Live(now) && one.Reach() != parley.ScopeOrg {
				return nil, org.ErrLastCredential
			}
			return org.Decide(s, c, now)
		}),
		"a credential that expires keeps the organization": deciding(func(s *org.State, c org.RevokeCredential, now time.Time) ([]org.Event, error) {
			events, err := org.Decide(s, c, now)
			other := func(o *org.Credential) bool {
				return o.Client() != c.ClientID && o.Live(now) && o.Reach() == parley.ScopeOrg
			}
			if errors.Is(err, org.ErrLastCredential) && slices.ContainsFunc(s.GetCredentials(), other) {
				return []org.Event{&org.CredentialRevoked{ClientId: c.ClientID.Bytes(), AtMs: now.UnixMilli()}}, nil
			}
			return events, err
		}),
		"an end that has passed": deciding(func(s *org.State, c org.AddCredential, now time.Time) ([]org.Event, error) {
			if !c.Expires.IsZero() && !c.Expires.After(now) {
				c.Expires = now.Add(time.Hour)
			}
			return org.Decide(s, c, now)
		}),
		"an announcement that is made again": evolving(func(s *org.State, e *org.ExpiryAnnounced) {
			s.Credential(e.Client()).AnnouncedMs--
		}),
		"an announcement of a revoked credential": deciding(func(s *org.State, c org.AnnounceExpiries, now time.Time) ([]org.Event, error) {
			all := proto.CloneOf(s)
			for _, one := range all.GetCredentials() {
				one.RevokedMs = 0
			}
			return org.Decide(all, c, now)
		}),
		"an announcement of an instant before the creation": deciding(func(s *org.State, c org.AnnounceExpiries, now time.Time) ([]org.Event, error) {
			all := proto.CloneOf(s)
			for _, one := range all.GetCredentials() {
				one.CreatedMs = 0
			}
			return org.Decide(all, c, now)
		}),
		"a limit that is lost": evolving(func(s *org.State, e *org.CredentialAdded) {
			for _, c := range s.Credentials {
				c.Agents = nil
			}
		}),
		"a scope that is lost": evolving(func(s *org.State, e *org.CredentialAdded) {
			for _, c := range s.Credentials {
				c.Scope = ""
			}
		}),
		"one agent over the limit": deciding(func(s *org.State, c org.AddAgent, now time.Time) ([]org.Event, error) {
			if c.AgentLimit != nil {
				more := *c.AgentLimit + 1
				c.AgentLimit = &more
			}
			return org.Decide(s, c, now)
		}),
		"the quota before the name": deciding(func(s *org.State, c org.AddAgent, now time.Time) ([]org.Event, error) {
			taken := c
			taken.NameTaken = false
			if _, err := org.Decide(s, taken, now); errors.Is(err, org.ErrQuotaExceeded) {
				return nil, err
			}
			return org.Decide(s, c, now)
		}),
		"a quota that does not say what is used": deciding(func(s *org.State, c org.AddAgent, now time.Time) ([]org.Event, error) {
			events, err := org.Decide(s, c, now)
			if refusal := (*parley.Refusal)(nil); errors.As(err, &refusal) && refusal.Extra != nil {
				delete(refusal.Extra, "used")
			}
			return events, err
		}),
		"what is absent is cleared": deciding(func(s *org.State, c org.Change, now time.Time) ([]org.Event, error) {
			c.ContactEmail.Set = true
			return org.Decide(s, c, now)
		}),
		"a country as it was typed": deciding(func(s *org.State, c org.Change, now time.Time) ([]org.Event, error) {
			events, err := org.Decide(s, c, now)
			for _, e := range events {
				if changed := e.(*org.Changed); changed.CountryCode != nil && !c.CountryCode.Null {
					changed.CountryCode = &c.CountryCode.Value
				}
			}
			return events, err
		}),
		"an event that changes nothing": deciding(func(s *org.State, c org.Change, now time.Time) ([]org.Event, error) {
			events, err := org.Decide(s, c, now)
			if err == nil && len(events) == 0 {
				events = append(events, &org.Changed{AtMs: now.UnixMilli()})
			}
			return events, err
		}),
		"Decide counts by itself": deciding(func(s *org.State, c org.RetireAgent, now time.Time) ([]org.Event, error) {
			events, err := org.Decide(s, c, now)
			if len(events) > 0 {
				s.ActiveAgents--
				return nil, err
			}
			return events, err
		}),
		"one group over the limit": deciding(func(s *org.State, c org.AddGroup, now time.Time) ([]org.Event, error) {
			if c.GroupLimit != nil {
				more := *c.GroupLimit + 1
				c.GroupLimit = &more
			}
			return org.Decide(s, c, now)
		}),
		"the quota of groups before their name": deciding(func(s *org.State, c org.AddGroup, now time.Time) ([]org.Event, error) {
			free := c
			free.NameTaken = false
			if _, err := org.Decide(s, free, now); errors.Is(err, org.ErrQuotaExceeded) {
				return nil, err
			}
			return org.Decide(s, c, now)
		}),
		"groups beside agents": deciding(func(s *org.State, c org.AddGroup, now time.Time) ([]org.Event, error) {
			all := proto.CloneOf(s)
			all.ActiveGroups += s.GetActiveAgents()
			return org.Decide(all, c, now)
		}),
		"mail overrules the operator": deciding(func(s *org.State, _ org.ConfirmEmail, now time.Time) ([]org.Event, error) {
			free := proto.CloneOf(s)
			free.TierGrantedMs = 0
			return org.Decide(free, org.ConfirmEmail{}, now)
		}),
		"mail takes a tier away": deciding(func(s *org.State, c org.ConfirmEmail, now time.Time) ([]org.Event, error) {
			events, err := org.Decide(s, c, now)
			for _, e := range events {
				e.(*org.EmailConfirmed).Tier = min(1, e.(*org.EmailConfirmed).Tier)
			}
			return events, err
		}),
		"the operator's first word passes unheard": deciding(func(s *org.State, c org.GrantTier, now time.Time) ([]org.Event, error) {
			if c.Tier == int(s.GetTrustTier()) {
				return nil, nil
			}
			return org.Decide(s, c, now)
		}),
		"no limit is no allowance": deciding(func(s *org.State, c org.SetAllowance, now time.Time) ([]org.Event, error) {
			if c.Limit == nil {
				return org.Decide(s, org.LiftAllowance{Quota: c.Quota}, now)
			}
			return org.Decide(s, c, now)
		}),
		"a tenth tier": deciding(func(s *org.State, c org.GrantTier, now time.Time) ([]org.Event, error) {
			c.Tier = max(c.Tier, 0)
			return org.Decide(s, c, now)
		}),
		"allowances in any order": evolving(func(s *org.State, _ *org.AllowanceSet) { slices.Reverse(s.Allowances) }),
		"another limit than was set": evolving(func(s *org.State, e *org.AllowanceSet) {
			for _, a := range s.Allowances {
				a.Limit = proto.Int64(1)
			}
		}),
		"a group too few": deciding(func(s *org.State, c org.RetireGroup, now time.Time) ([]org.Event, error) {
			return []org.Event{&org.GroupRetired{GroupId: c.GroupID.Bytes(), AtMs: now.UnixMilli()}}, nil
		}),
		"suspended for ever": evolving(func(s *org.State, e *org.Resumed) { s.SuspendedMs = e.AtMs }),
		"suspended anew each time": deciding(func(s *org.State, c org.Suspend, now time.Time) ([]org.Event, error) {
			if !s.Exists() {
				return org.Decide(s, c, now)
			}
			return []org.Event{&org.Suspended{AtMs: now.UnixMilli()}}, nil
		}),
		"a deleted group counts":          evolving(func(s *org.State, _ *org.GroupRetired) { s.ActiveGroups++ }),
		"a group is an agent":             evolving(func(s *org.State, _ *org.GroupAdded) { s.ActiveAgents++ }),
		"tokens outlive their credential": evolving(func(s *org.State, _ *org.CredentialRevoked) { s.Epoch-- }),
		"a tier is not kept":              evolving(func(s *org.State, _ *org.Registered) { s.TrustTier = 1 }),
		"a count that no snapshot has": func(r *actorstest.Rules[*org.State, org.Command, org.Event]) {
			counts := map[*org.State]int64{}
			r.Evolve = func(s *org.State, e org.Event) {
				counts[s] += map[byte]int64{5: 1, 6: -1}[org.Tag(e)]
				org.Evolve(s, e)
				s.ActiveAgents = counts[s]
			}
		},
	})
}

// TestCensusControl removes something that a run must meet.
func TestCensusControl(t *testing.T) {
	type orgTrial = actorstest.Trial[*org.State, org.Command, org.Event, *oracle]
	never := func(what func(org.Command) bool) func(*orgTrial) {
		return func(x *orgTrial) {
			x.Draw = func(t *rapid.T, o *oracle, now time.Time) org.Command {
				for {
					if c := wish(t, o, now); !what(c) {
						return c
					}
				}
			}
		}
	}
	for complaint, alter := range map[string]func(*orgTrial){
		"command RetireAgent": never(func(c org.Command) bool { _, retires := c.(org.RetireAgent); return retires }),
		"event AgentRetired":  never(func(c org.Command) bool { r, retires := c.(org.RetireAgent); return retires && !r.Retired }),
		"ErrNameTaken": never(func(c org.Command) bool {
			add, ok := c.(org.AddAgent)
			return ok && add.NameTaken
		}),
		"Register: refused":                                         func(x *orgTrial) { x.Cases = append(slices.Clone(x.Cases), "Register: refused") },
		"not among the cases: \"Register: registered\"":             func(x *orgTrial) { x.Cases = x.Cases[1:] },
		"declares ErrSlugImmutable, and the trial does not know it": func(x *orgTrial) { x.Errors = nil },
	} {
		t.Run(complaint, func(t *testing.T) { trial.Misses(t, complaint, alter) })
	}
}
