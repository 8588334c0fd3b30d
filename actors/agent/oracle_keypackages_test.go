package agent_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/agent"
)

// keyPackages is what is remembered of an agent's MLS KeyPackages.
type keyPackages struct {
	kept, handedOut uint32
	lastResort      bool
}

func (o *oracle) storeKeyPackages(c agent.StoreKeyPackages) actorstest.Verdict {
	after := o.packages.without(c.Expired)
	switch {
	case string(c.SigningKey) != o.signing:
		return actorstest.Refused("another key", "422 key_package_invalid (loc=key_packages)")
	case c.Reused:
		return actorstest.Refused("reused", "422 key_package_invalid (loc=last_resort)")
	case after.kept+c.Fresh > 1000:
		return actorstest.Refused("too many", fmt.Sprintf("403 quota_exceeded (limit=1000, quota=key_packages, resets_at=<nil>, used=%d)", after.kept))
	}
	after.kept += c.Fresh
	after.lastResort = after.lastResort || c.LastResort
	switch o.packages = after; {
	case c.Fresh > 0 || c.LastResort:
		return actorstest.Accepted("stored")
	case c.Expired != agent.ExpiredKeyPackages{}:
		return actorstest.Accepted("expired")
	}
	return actorstest.Accepted("nothing new")
}

func (o *oracle) claimKeyPackage(c agent.ClaimKeyPackage) actorstest.Verdict {
	if !o.exists || o.revoked() {
		return actorstest.Refused("no agent", "404 not_found")
	}
	o.packages = o.packages.without(c.Expired)
	switch {
	case c.Found:
		o.packages.kept--
		o.packages.handedOut++
		return actorstest.Accepted("claimed")
	case c.LastResort:
		return actorstest.Accepted("last resort")
	}
	return actorstest.Refused("none", "404 not_found")
}

func (k keyPackages) without(e agent.ExpiredKeyPackages) keyPackages {
	return keyPackages{kept: k.kept - e.Kept, handedOut: k.handedOut - e.HandedOut, lastResort: k.lastResort && !e.LastResort}
}

var uploads = rapid.SampledFrom([]uint32{0, 0, 1, 3, 100, 700})

// wishToStore never counts more expired KeyPackages than there are, as the actor does.
func (o *oracle) wishToStore(t *rapid.T) agent.StoreKeyPackages {
	c := agent.StoreKeyPackages{
		SigningKey: []byte(o.signing), Fresh: uploads.Draw(t, "fresh"), LastResort: rapid.Bool().Draw(t, "last resort"), Reused: rarely.Draw(t, "reused"),
		Expired: o.wishExpired(t),
	}
	if rarely.Draw(t, "another key") {
		c.SigningKey = keysByName[signings.Draw(t, "key")]
	}
	return c
}

func (o *oracle) wishToClaim(t *rapid.T) agent.ClaimKeyPackage {
	c := agent.ClaimKeyPackage{Expired: o.wishExpired(t)}
	c.Expired.HandedOut = 0
	left := o.packages.without(c.Expired)
	c.Found = left.kept > 0 && !rarely.Draw(t, "of no such suite")
	c.LastResort = !c.Found && left.lastResort && !rarely.Draw(t, "last resort of no such suite")
	return c
}

func (o *oracle) wishExpired(t *rapid.T) (e agent.ExpiredKeyPackages) {
	if rarely.Draw(t, "expired") {
		e.Kept = rapid.Uint32Range(0, o.packages.kept).Draw(t, "kept")
		e.HandedOut = rapid.Uint32Range(0, o.packages.handedOut).Draw(t, "handed out")
		e.LastResort = o.packages.lastResort && rapid.Bool().Draw(t, "last resort expired")
	}
	return e
}

// TestKeyPackageRevision checks that each event shows in the state, also when the counts
// stay the same.
func TestKeyPackageRevision(t *testing.T) {
	l := rules.Begin()
	l.Do(t, agent.Create{ID: actorstest.Named("alice"), SigningKey: key("ed1")})
	for revision, c := range []agent.Command{
		agent.StoreKeyPackages{SigningKey: key("ed1"), Fresh: 2, LastResort: true},
		agent.StoreKeyPackages{SigningKey: key("ed1"), LastResort: true},
		agent.ClaimKeyPackage{Found: true},
		agent.ClaimKeyPackage{LastResort: true, Expired: agent.ExpiredKeyPackages{Kept: 1}},
	} {
		if events, err := l.Do(t, c); err != nil || len(events) != 1 || l.State.GetKeyPackageRevision() != uint32(revision+1) {
			t.Errorf("%+v: %v, %v, revision %d", c, events, err, l.State.GetKeyPackageRevision())
		}
	}
}

func TestOracleControlOfKeyPackages(t *testing.T) {
	trial.Finds(t, map[string]func(*agentRules){
		"a KeyPackage by a former key is stored": deciding(func(s *agent.State, c agent.StoreKeyPackages, now time.Time) ([]agent.Event, error) {
			c.SigningKey = s.GetSigningKey()
			return agent.Decide(s, c, now)
		}),
		"one KeyPackage is for both uses": deciding(func(s *agent.State, c agent.StoreKeyPackages, now time.Time) ([]agent.Event, error) {
			c.Reused = false
			return agent.Decide(s, c, now)
		}),
		"1,001 KeyPackages are kept": deciding(func(s *agent.State, c agent.StoreKeyPackages, now time.Time) ([]agent.Event, error) {
			c.Fresh %= 700
			return agent.Decide(s, c, now)
		}),
		"a claimed KeyPackage stays":                       evolving(func(s *agent.State, _ *agent.KeyPackageClaimed) { s.KeyPackages++ }),
		"the KeyPackage of last resort is handed out once": evolving(func(s *agent.State, _ *agent.KeyPackageClaimed) { s.LastResort = false }),
		"a revoked agent keeps its KeyPackages":            evolving(func(s *agent.State, _ *agent.Revoked) { s.KeyPackages = 1 }),
		"a claimed KeyPackage is forgotten":                evolving(func(s *agent.State, _ *agent.KeyPackageClaimed) { s.HandedOut = 0 }),
		"an expired KeyPackage of last resort stays":       evolving(func(s *agent.State, e *agent.KeyPackagesExpired) { s.LastResort = s.LastResort || e.LastResort }),
		"a new encryption key ends KeyPackages": evolving(func(s *agent.State, e *agent.KeysRotated) {
			if len(e.EncryptionKey) > 0 {
				s.KeyPackages, s.LastResort, s.HandedOut = 0, false, 0
			}
		}),
		"a new signing key ends no KeyPackages": func(r *agentRules) {
			r.Evolve = func(s *agent.State, e agent.Event) {
				kept := s.GetKeyPackages()
				if agent.Evolve(s, e); kept > 0 && s.GetKeyPackages() == 0 {
					if _, rotated := e.(*agent.KeysRotated); rotated {
						s.KeyPackages = kept
					}
				}
			}
		},
	})
}
