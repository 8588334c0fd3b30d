package org_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/org"
	"parley/client/parley"
)

func TestLaws(t *testing.T) { actorstest.Obey(t, rules, draw, law) }

var names = rapid.SampledFrom([]string{"a", "b", "c", "d"})

func draw(t *rapid.T, s *org.State) org.Command {
	name := names.Draw(t, "name")
	client, agent := parley.ClientID(actorstest.Named(name)), parley.AgentID(actorstest.Named(name))
	text := rapid.SampledFrom([]string{"", "ch", "CH", "x"})
	clearable := rapid.Custom(func(t *rapid.T) org.Clearable {
		return org.Clearable{Set: rapid.Bool().Draw(t, "set"), Null: rapid.Bool().Draw(t, "null"), Value: text.Draw(t, "value")}
	})
	kind := rapid.IntRange(0, 17).Draw(t, "kind")
	if !s.Exists() && rapid.IntRange(0, 3).Draw(t, "too early") > 0 {
		kind = 0
	}
	switch kind {
	case 0:
		return org.Register{ID: parley.OrgID(actorstest.Named("acme")), Name: "Acme", Slug: "acme", Email: "a@b", Tier: 1, ClientID: client}
	case 1:
		return org.Change{
			Name: rapid.Ptr(text, true).Draw(t, "name"), Slug: rapid.Ptr(rapid.SampledFrom([]string{"acme", "acme", "b"}), true).Draw(t, "slug"),
			ContactEmail: clearable.Draw(t, "email"), CountryCode: clearable.Draw(t, "country"),
		}
	case 2:
		return org.AddCredential{ClientID: client, Scope: rapid.SampledFrom(parley.Scopes).Draw(t, "scope")}
	case 3:
		return org.RevokeCredential{ClientID: client}
	case 4:
		return org.AddAgent{
			AgentID: agent, Name: name, NameTaken: rapid.Bool().Draw(t, "taken"),
			AgentLimit: rapid.Ptr(rapid.IntRange(0, 3), true).Draw(t, "limit"),
		}
	case 5:
		return org.AddGroup{
			GroupID: actorstest.Named(name), Name: name, NameTaken: rapid.Bool().Draw(t, "taken"),
			GroupLimit: rapid.Ptr(rapid.IntRange(0, 3), true).Draw(t, "limit"),
		}
	case 6:
		return org.RetireGroup{GroupID: actorstest.Named(name)}
	case 7:
		return org.GrantTier{Tier: rapid.IntRange(-1, 4).Draw(t, "tier")}
	case 8:
		return org.SetAllowance{Quota: name, Limit: rapid.Ptr(rapid.IntRange(-1, 3), true).Draw(t, "limit")}
	case 9:
		return org.LiftAllowance{Quota: name}
	case 10:
		return org.ConfirmEmail{}
	case 12:
		return org.Suspend{}
	case 13:
		return org.Resume{}
	case 15:
		return org.Hold{}
	case 16:
		return org.Release{}
	case 17:
		return org.AnnounceExpiries{}
	case 14:
		return org.ProveWorkload{
			Challenge: challengeOf("acme", name, new(rapid.SampledFrom([]int{0, 1e6}).Draw(t, "minutes"))), SPIFFEID: "spiffe://" + name + "/w",
			Used: rapid.Bool().Draw(t, "used"), Taken: rapid.Bool().Draw(t, "taken"),
		}
	}
	return org.RetireAgent{AgentID: agent, Retired: rapid.Bool().Draw(t, "again")}
}

func law(t *rapid.T, turn turn) {
	before, after := turn.Before, turn.After
	if turn.Err != nil && len(turn.Events) > 0 {
		t.Fatalf("both %v and %v", turn.Events, turn.Err)
	}
	if !before.Exists() {
		if _, ok := turn.Command.(org.Register); !ok && !errors.Is(turn.Err, parley.ErrNotFound) {
			t.Fatalf("%v on an organization that does not exist", turn.Err)
		}
		return
	}
	if before.Slug != after.Slug || before.CreatedMs != after.CreatedMs {
		t.Fatalf("an immutable field changed: %v, %v", before, after)
	}
	lawOfTerms(t, turn)
	if len(turn.Events) > 0 && proto.Equal(before, after) {
		t.Fatalf("%v changed nothing", turn.Events)
	}
	if lasting(after) == 0 {
		t.Fatalf("%v locked the organization out", turn.Command)
	}
	if fewer := unrevoked(after) < unrevoked(before); fewer != (after.Epoch > before.Epoch) {
		t.Fatalf("the epoch must rise if and only if a credential ends: %v, %v", before, after)
	}
	if after.ActiveAgents < 0 || after.ActiveGroups < 0 {
		t.Fatalf("%d agents, %d groups", after.ActiveAgents, after.ActiveGroups)
	}
	lawOfCounts(t, turn)
	if c, ok := turn.Command.(org.AddAgent); ok && len(turn.Events) > 0 && c.AgentLimit != nil && after.ActiveAgents > int64(*c.AgentLimit) {
		t.Fatalf("%d agents, %d allowed", after.ActiveAgents, *c.AgentLimit)
	}
}

// lawOfTerms: only the operator, the mailed token and a workload identity change a tier. The
// token only raises it, once; a workload identity raises it to 2, and not if the operator
// lowered it. Allowances are sorted, with at most one per quota.
func lawOfTerms(t *rapid.T, turn turn) {
	before, after := turn.Before, turn.After
	if after.TrustTier != before.TrustTier {
		_, granted := turn.Command.(org.GrantTier)
		_, confirmed := turn.Command.(org.ConfirmEmail)
		_, proven := turn.Command.(org.ProveWorkload)
		proven = proven && after.TrustTier == 2 && before.TrustTier < 2 && before.TierLoweredMs == 0
		if !granted && !proven && (!confirmed || after.TrustTier != 1 || before.TierGrantedMs != 0 || before.EmailConfirmedMs != 0) {
			t.Fatalf("%v changed the tier: %v, %v", turn.Command, before, after)
		}
	}
	if after.TrustTier < 0 || after.TrustTier > org.TierMax {
		t.Fatalf("tier %d", after.TrustTier)
	}
	for i, a := range after.Allowances {
		if i > 0 && after.Allowances[i-1].Quota >= a.Quota || a.Limit != nil && *a.Limit < 0 {
			t.Fatalf("allowances %v", after.Allowances)
		}
	}
}

// lawOfCounts: only AddGroup and RetireGroup change the number of groups, by one, and
// not beyond the limit. Agents are counted separately.
func lawOfCounts(t *rapid.T, turn turn) {
	agents, groups := turn.After.ActiveAgents-turn.Before.ActiveAgents, turn.After.ActiveGroups-turn.Before.ActiveGroups
	switch c := turn.Command.(type) {
	case org.AddGroup:
		full := c.GroupLimit != nil && turn.Before.ActiveGroups >= int64(*c.GroupLimit)
		if may := !c.NameTaken && !full; agents != 0 || may != (groups == 1) || may != (turn.Err == nil) {
			t.Fatalf("%v of %d groups: %v", c, turn.Before.ActiveGroups, turn.Err)
		}
	case org.RetireGroup:
		if agents != 0 || groups != -min(1, turn.Before.ActiveGroups) || turn.Err != nil {
			t.Fatalf("%v of %d groups: %v", c, turn.Before.ActiveGroups, turn.Err)
		}
	default:
		if groups != 0 {
			t.Fatalf("%v changed the number of groups by %d", c, groups)
		}
	}
}

// unrevoked counts the credentials that were not revoked, lasting those of scope org that never
// expire.
func unrevoked(s *org.State) (n int) {
	for _, c := range s.GetCredentials() {
		if c.RevokedMs == 0 {
			n++
		}
	}
	return n
}

func lasting(s *org.State) (n int) {
	for _, c := range s.GetCredentials() {
		if c.RevokedMs == 0 && c.ExpiresMs == 0 && c.Reach() == parley.ScopeOrg {
			n++
		}
	}
	return n
}
