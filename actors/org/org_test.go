package org_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/actorstest"
	"parley/actors/org"
	"parley/client/parley"
)

type (
	life = actorstest.Life[*org.State, org.Command, org.Event]
	turn = actorstest.Turn[*org.State, org.Command, org.Event]
)

var rules = actorstest.Rules[*org.State, org.Command, org.Event]{
	Zero:   func() *org.State { return &org.State{} },
	Decide: org.Decide, Evolve: org.Evolve, Tag: org.Tag, New: org.New,
}

func TestStories(t *testing.T) {
	actorstest.Tell(t, "testdata/stories", rules, parse, show)
}

func TestGroupStories(t *testing.T) {
	actorstest.Tell(t, "testdata/groups", rules, parse, show)
}

func parse(l *actorstest.Line, _ *life) org.Command {
	switch l.Verb {
	case "register":
		return org.Register{
			ID: parley.OrgID(actorstest.Named("acme")), Name: l.Text("name"), Slug: l.Text("slug"),
			Email: l.Text("email"), Tier: tierIn(l), ClientID: parley.ClientID(l.ID("credential")), SecretHash: []byte("hash"),
		}
	case "change":
		return org.Change{
			Name: l.Optional("name"), Slug: l.Optional("slug"),
			ContactEmail: clearable(l, "email"), CountryCode: clearable(l, "country"),
		}
	case "add-credential":
		c := org.AddCredential{ClientID: parley.ClientID(l.ID("id")), SecretHash: []byte("hash"), Scope: parley.Scope(l.Text("scope"))}
		if minutes := l.Number("minutes"); minutes != nil {
			c.Expires = actorstest.Epoch.Add(time.Duration(*minutes) * time.Minute)
		}
		return c
	case "announce":
		return org.AnnounceExpiries{}
	case "revoke-credential":
		return org.RevokeCredential{ClientID: parley.ClientID(l.ID("id"))}
	case "add-agent":
		return org.AddAgent{
			AgentID: parley.AgentID(l.ID("name")), Name: l.Text("name"),
			NameTaken: l.Has("name-taken"), AgentLimit: l.Number("limit"),
		}
	case "retire-agent":
		return org.RetireAgent{AgentID: parley.AgentID(l.ID("name")), Retired: l.Has("again")}
	case "add-group":
		return org.AddGroup{
			GroupID: parley.GroupID(l.ID("name")), Name: l.Text("name"),
			NameTaken: l.Has("name-taken"), GroupLimit: l.Number("limit"),
		}
	case "grant-tier":
		return org.GrantTier{Tier: *l.Number("tier")}
	case "set-allowance":
		return org.SetAllowance{Quota: l.Text("quota"), Limit: l.Number("limit")}
	case "lift-allowance":
		return org.LiftAllowance{Quota: l.Text("quota")}
	case "confirm-email":
		return org.ConfirmEmail{}
	case "prove-workload":
		return org.ProveWorkload{Challenge: challengeOf(l.Text("org"), l.Text("agent"), l.Number("expires")), SPIFFEID: l.Text("id"), Used: l.Has("used"), Taken: l.Has("taken")}
	case "suspend":
		return org.Suspend{}
	case "resume":
		return org.Resume{}
	case "erase":
		return org.Erase{}
	case "hold":
		return org.Hold{}
	case "release":
		return org.Release{}
	case "retire-group":
		return org.RetireGroup{GroupID: parley.GroupID(l.ID("name"))}
	}
	panic("no such verb: " + l.Verb)
}

// challengeOf returns a challenge for an agent of acme, unless the organization is named,
// that expires five minutes after the story began, unless the minutes are given.
func challengeOf(owner, agent string, minutes *int) *org.WorkloadChallenge {
	if owner == "" {
		owner = "acme"
	}
	if minutes == nil {
		minutes = new(5)
	}
	return &org.WorkloadChallenge{
		OrgId: parley.OrgID(actorstest.Named(owner)).Bytes(), AgentId: parley.AgentID(actorstest.Named(agent)).Bytes(), Nonce: "n",
		ExpiresMs: actorstest.Epoch.Add(time.Duration(*minutes) * time.Minute).UnixMilli(),
	}
}

func TestWorkloadStories(t *testing.T) {
	actorstest.Tell(t, "testdata/workload", rules, parse, show)
}

// TestChallengeIsOfOneAgent: a challenge can be answered by the agent and the organization
// that it was made for, once, until it expires.
func TestChallengeIsOfOneAgent(t *testing.T) {
	c, acme, alice := challengeOf("acme", "alice", nil), parley.OrgID(actorstest.Named("acme")), parley.AgentID(actorstest.Named("alice"))
	last := c.ExpiresAt().Add(-time.Millisecond)
	for _, x := range []struct {
		what string
		got  error
		want error
	}{
		{"in time", c.Judge(acme, alice, false, last), nil},
		{"too late", c.Judge(acme, alice, false, c.ExpiresAt()), org.ErrChallengeExpired},
		{"again", c.Judge(acme, alice, true, last), org.ErrChallengeUsed},
		{"again and too late", c.Judge(acme, alice, true, c.ExpiresAt()), org.ErrChallengeUsed},
		{"another agent", c.Judge(acme, actorstest.Named("bob"), false, last), org.ErrUnknownChallenge},
		{"another organization", c.Judge(actorstest.Named("apex"), alice, false, last), org.ErrUnknownChallenge},
		{"another agent, used", c.Judge(acme, actorstest.Named("bob"), true, c.ExpiresAt()), org.ErrUnknownChallenge},
		{"no agent", (&org.WorkloadChallenge{}).Judge(acme, alice, false, last), org.ErrUnknownChallenge},
	} {
		if !errors.Is(x.got, x.want) || (x.want == nil) != (x.got == nil) {
			t.Errorf("%s: %v, want %v", x.what, x.got, x.want)
		}
	}
}

func TestTermsStories(t *testing.T) {
	actorstest.Tell(t, "testdata/terms", rules, parse, show)
}

func clearable(l *actorstest.Line, key string) org.Clearable {
	return org.Clearable{Set: l.Has(key), Null: l.Text(key) == "null", Value: l.Text(key)}
}

// tierIn returns the tier of a new organization: 1 unless the line says otherwise.
func tierIn(l *actorstest.Line) int {
	if n := l.Number("tier"); n != nil {
		return *n
	}
	return 1
}

func show(life *life) string {
	s := life.State
	groups := ""
	if n := s.GetActiveGroups(); n != 0 {
		groups = fmt.Sprintf(", %d groups", n)
	}
	if s.Suspended() {
		groups += ", suspended"
	}
	for _, a := range s.GetAllowances() {
		limit := "no limit"
		if a.Limit != nil {
			limit = fmt.Sprint(*a.Limit)
		}
		groups += fmt.Sprintf(", %s: %s", a.Quota, limit)
	}
	return fmt.Sprintf("%q slug=%s email=%q country=%q tier=%d, %d agents, %d of %d credentials live, epoch %d%s",
		s.GetName(), s.GetSlug(), s.GetContactEmail(), s.GetCountryCode(), s.GetTrustTier(),
		s.GetActiveAgents(), unrevoked(s), len(s.GetCredentials()), s.GetEpoch(), groups)
}

func TestGolden(t *testing.T) {
	id, client := parley.OrgID(actorstest.Named("acme")).Bytes(), parley.ClientID(actorstest.Named("first")).Bytes()
	group := parley.GroupID(actorstest.Named("club")).Bytes()
	agent, hash, at := parley.AgentID(actorstest.Named("alice")).Bytes(), []byte("hash"), actorstest.Epoch.UnixMilli()
	actorstest.Golden(
		t, "testdata/events.golden", rules,
		&org.State{
			Id: id, Name: "Acme", Slug: "acme", ContactEmail: "a@acme.example", CountryCode: "CH", TrustTier: 1, CreatedMs: at,
			Credentials: []*org.Credential{{
				ClientId: client, SecretHash: hash, CreatedMs: at, RevokedMs: at + 1, Scope: "agents", Agents: [][]byte{agent}, Description: "a host", ExpiresMs: at + 9, AnnouncedMs: at + 5,
			}},
			ActiveAgents: 2, Epoch: 1, ActiveGroups: 3,
			Allowances:       []*org.Allowance{{Quota: "agents", Limit: proto.Int64(5)}},
			EmailConfirmedMs: at + 2, TierGrantedMs: at + 3, SuspendedMs: at + 4, WorkloadProofs: 5, WorkloadRaisedMs: at + 6, TierLoweredMs: at + 3, ErasingMs: at + 7, HeldMs: at + 8,
		},
		[]org.Event{
			&org.Registered{
				Id: id, Name: "Acme", Slug: "acme", ContactEmail: "a@acme.example", TrustTier: 1,
				ClientId: client, SecretHash: hash, AtMs: at, ChallengeId: "sealed", Difficulty: 20,
			},
			&org.Changed{
				Name: proto.String("Acme"), ContactEmail: proto.String("b@acme.example"), CountryCode: proto.String(""), AtMs: at,
			},
			&org.CredentialAdded{
				ClientId: client, SecretHash: hash, AtMs: at, Forgotten: [][]byte{id}, Scope: "agents", Agents: [][]byte{agent}, Description: "a host", ExpiresMs: at + 9,
			},
			&org.CredentialRevoked{ClientId: client, AtMs: at},
			&org.AgentAdded{AgentId: agent, AtMs: at},
			&org.AgentRetired{AgentId: agent, AtMs: at},
			&org.GroupAdded{GroupId: group, AtMs: at},
			&org.GroupRetired{GroupId: group, AtMs: at},
			&org.TierGranted{Tier: 3, AtMs: at, Lowered: true},
			&org.AllowanceSet{Allowance: &org.Allowance{Quota: "agents", Limit: proto.Int64(5)}, AtMs: at},
			&org.AllowanceLifted{Quota: "agents", AtMs: at},
			&org.EmailConfirmed{Tier: 1, AtMs: at},
			&org.Suspended{AtMs: at},
			&org.Resumed{AtMs: at},
			&org.WorkloadProven{AgentId: agent, SpiffeId: "spiffe://acme.example/web", Tier: 2, AtMs: at},
			&org.ErasureBegun{AtMs: at},
			&org.Held{AtMs: at},
			&org.Released{AtMs: at},
			&org.ExpiryAnnounced{ClientId: client, DueMs: at + 5, AtMs: at},
		},
	)
}

// TestCredentialsAreBounded: ten may be live. Revoked ones are kept for a limited time
// and in a limited number.
func TestCredentialsAreBounded(t *testing.T) {
	s, now := &org.State{}, actorstest.Epoch
	do := func(c org.Command) error { return apply(s, c, now) }
	made := 0
	add := func() (parley.ClientID, error) {
		made++
		id := parley.ClientID(actorstest.Named(fmt.Sprint("client ", made)))
		return id, do(org.AddCredential{ClientID: id, SecretHash: []byte("hash")})
	}
	if err := do(org.Register{ID: parley.OrgID(actorstest.Named("acme")), ClientID: parley.ClientID(actorstest.Named("first")), SecretHash: []byte("hash")}); err != nil {
		t.Fatal(err)
	}
	var last parley.ClientID
	for n := 2; n <= parley.CredentialsMax; n++ {
		id, err := add()
		if last = id; err != nil {
			t.Fatalf("credential %d: %v", n, err)
		}
	}
	_, err := add()
	refusal := (*parley.Refusal)(nil)
	if !errors.As(err, &refusal) || refusal.Code != "quota_exceeded" || refusal.Extra["quota"] != "credentials" || refusal.Extra["limit"] != 10 || refusal.Extra["used"] != 10 {
		t.Fatalf("the eleventh: %v", err)
	}
	for range 5 * parley.RevokedCredentialsMax {
		if err := do(org.RevokeCredential{ClientID: last}); err != nil {
			t.Fatal(err)
		}
		if last, err = add(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.GetCredentials()); n != parley.CredentialsMax+parley.RevokedCredentialsMax-1 {
		t.Errorf("%d credentials are kept", n)
	}
	now = now.Add(parley.RevokedCredentialsKept - time.Millisecond)
	if err := do(org.RevokeCredential{ClientID: last}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Millisecond)
	if _, err := add(); err != nil || len(s.GetCredentials()) != parley.CredentialsMax+1 || s.Credential(last) == nil {
		t.Errorf("after thirty days %d are kept, %v", len(s.GetCredentials()), err)
	}
}

// TestScopedCredentialsAreBounded: those of other scopes have a limit of their own, which is higher
// in tier 3, and do not keep an organization from being locked out. Expired ones do not count.
func TestScopedCredentialsAreBounded(t *testing.T) {
	s, now := &org.State{}, actorstest.Epoch
	do := func(c org.Command) error { return apply(s, c, now) }
	made := 0
	add := func(scope parley.Scope, expires time.Time) error {
		made++
		return do(org.AddCredential{ClientID: actorstest.Named(fmt.Sprint("client ", made)), SecretHash: []byte("hash"), Scope: scope, Expires: expires})
	}
	over := func(err error, limit int) {
		t.Helper()
		refusal := (*parley.Refusal)(nil)
		if !errors.As(err, &refusal) || refusal.Extra["quota"] != "scoped_credentials" || refusal.Extra["limit"] != limit || refusal.Extra["used"] != limit {
			t.Fatalf("one too many: %v", err)
		}
	}
	first := parley.ClientID(actorstest.Named("first"))
	if err := do(org.Register{ID: actorstest.Named("acme"), ClientID: first, SecretHash: []byte("hash"), Tier: 2}); err != nil {
		t.Fatal(err)
	}
	for i := range parley.ScopedCredentialsMax {
		if err := add(parley.Scopes[1+i%2], now.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	over(add(parley.ScopeRead, time.Time{}), parley.ScopedCredentialsMax)
	if err := do(org.RevokeCredential{ClientID: first}); !errors.Is(err, org.ErrLastCredential) {
		t.Fatalf("the only one of scope org: %v", err)
	}
	if err := add(parley.ScopeOrg, now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := do(org.RevokeCredential{ClientID: first}); !errors.Is(err, org.ErrLastCredential) {
		t.Fatalf("the only one that does not expire: %v", err)
	}
	now = now.Add(time.Minute)
	if err := add(parley.ScopeRead, time.Time{}); err != nil || len(s.GetCredentials()) != 1+parley.RevokedCredentialsMax {
		t.Fatalf("after the others have expired: %v, %d are kept", err, len(s.GetCredentials()))
	}
	s.TrustTier = org.TierMax
	for range parley.ScopedCredentialsTier3 - 1 {
		if err := add(parley.ScopeAgents, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	over(add(parley.ScopeAgents, time.Time{}), parley.ScopedCredentialsTier3)
}

// apply decides a command and evolves the state.
func apply(s *org.State, c org.Command, now time.Time) error {
	events, err := org.Decide(s, c, now)
	for _, e := range events {
		org.Evolve(s, e)
	}
	return err
}
