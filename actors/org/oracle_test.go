package org_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/org"
	"parley/client/parley"
)

// record is what an organization shows. // spec: Organization
type record struct {
	id          parley.OrgID
	name, slug  string
	email       string // contact_email, "" for null
	country     string // country_code, "" for null
	tier        int
	agents      int
	groups      int
	createdMs   int64
	credentials []credential
	// ended counts the credentials that can no longer obtain tokens.
	ended int
	// own lists the limits set for this organization alone, by quota; -1 means no
	// limit.
	own string
	// confirmed is the time at which the mailed token was returned, granted the time of
	// the operator's last decision about the tier; 0 for never.
	confirmed, granted int64
	// These are the times at which each began, 0 for never.
	suspended, held, erasing int64
	// lowered is the time of the operator's last decision if it lowered the tier, 0 if not.
	lowered int64
	// proofs counts the proofs of workload identities; raised is the time of the last one
	// that raised the tier, 0 for never.
	proofs, raised int64
}

// oracle is an organization as the specification describes it.
type oracle struct {
	record
	exists bool
	limits map[string]int
}

func (o *oracle) Visible(time.Time) any {
	seen := o.record
	seen.credentials = slices.Clone(seen.credentials)
	seen.own = fmt.Sprint(o.limits)
	return seen
}

func look(l *life) any {
	s := l.State
	seen := record{
		id: s.OrgID(), name: s.GetName(), slug: s.GetSlug(), email: s.GetContactEmail(), country: s.GetCountryCode(),
		tier: int(s.GetTrustTier()), agents: int(s.GetActiveAgents()), groups: int(s.GetActiveGroups()), createdMs: s.GetCreatedMs(), ended: int(s.GetEpoch()),
	}
	seen.confirmed, seen.granted, seen.suspended = s.GetEmailConfirmedMs(), s.GetTierGrantedMs(), s.GetSuspendedMs()
	seen.erasing, seen.held = s.GetErasingMs(), s.GetHeldMs()
	seen.proofs, seen.lowered, seen.raised = s.GetWorkloadProofs(), s.GetTierLoweredMs(), s.GetWorkloadRaisedMs()
	own := map[string]int{}
	for _, quota := range quotas {
		if limit, set := s.Allowed(quota); limit != nil {
			own[quota] = *limit
		} else if set {
			own[quota] = -1
		}
	}
	seen.own = fmt.Sprint(own)
	for _, c := range s.GetCredentials() {
		if found := s.Credential(c.Client()); found != c {
			panic("a client id twice")
		}
		seen.credentials = append(seen.credentials, credential{
			c.Client(), string(c.SecretHash), c.CreatedMs, c.Reach(), fmt.Sprint(c.Only()), c.ExpiresMs, c.RevokedMs, c.AnnouncedMs,
		})
	}
	return seen
}

func (o *oracle) Predict(c org.Command, now time.Time) actorstest.Verdict {
	if r, ok := c.(org.Register); ok {
		return o.register(r, now)
	}
	if !o.exists {
		return actorstest.Refused("no organization", "404 not_found")
	}
	if o.erasing != 0 {
		return o.afterErasure(c)
	}
	switch c := c.(type) {
	case org.Change:
		return o.change(c)
	case org.AddCredential:
		return o.add(c, now)
	case org.RevokeCredential:
		return o.revoke(c.ClientID, now)
	case org.AnnounceExpiries:
		return o.announce(now)
	case org.AddAgent:
		return o.addAgent(c)
	case org.RetireAgent:
		if c.Retired || o.agents == 0 {
			return actorstest.Accepted("again")
		}
		o.agents--
		return actorstest.Accepted("counted out")
	case org.AddGroup:
		return o.addGroup(c)
	case org.GrantTier:
		return o.grantTier(c.Tier, now)
	case org.SetAllowance:
		return o.setAllowance(c)
	case org.LiftAllowance:
		if _, set := o.limits[c.Quota]; !set {
			return actorstest.Accepted("nothing to lift")
		}
		delete(o.limits, c.Quota)
		return actorstest.Accepted("lifted")
	case org.ConfirmEmail:
		return o.confirm(now)
	case org.ProveWorkload:
		return o.prove(c, now)
	case org.Erase:
		return o.erase(now)
	case org.Hold, org.Release, org.Resume, org.Suspend:
		return o.orders(c, now)
	case org.RetireGroup:
		if o.groups == 0 {
			return actorstest.Accepted("none left")
		}
		o.groups--
		return actorstest.Accepted("counted out")
	}
	panic("no such command")
}

// orders predicts what the operator begins and ends.
func (o *oracle) orders(c org.Command, now time.Time) actorstest.Verdict {
	switch c.(type) {
	case org.Suspend:
		return begin(&o.suspended, "suspended", now)
	case org.Resume:
		return end(&o.suspended, "not suspended", "resumed")
	case org.Hold:
		return begin(&o.held, "held", now)
	case org.Release:
		return end(&o.held, "not held", "released")
	}
	panic("no order")
}

func begin(since *int64, begun string, now time.Time) actorstest.Verdict {
	if *since != 0 {
		return actorstest.Accepted("again")
	}
	*since = now.UnixMilli()
	return actorstest.Accepted(begun)
}

func end(since *int64, already, ended string) actorstest.Verdict {
	if *since == 0 {
		return actorstest.Accepted(already)
	}
	*since = 0
	return actorstest.Accepted(ended)
}

// erase begins the erasure, which ends all credentials.
func (o *oracle) erase(now time.Time) actorstest.Verdict {
	if o.held != 0 {
		return actorstest.Refused("held", "409 legal_hold")
	}
	o.erasing = now.UnixMilli()
	o.ended++
	for i := range o.credentials {
		if o.credentials[i].revoked == 0 {
			o.credentials[i].revoked = now.UnixMilli()
		}
	}
	return actorstest.Accepted("begun")
}

// afterErasure predicts a command to an organization that is being erased: reports of others
// are accepted, and nothing changes.
func (o *oracle) afterErasure(c org.Command) actorstest.Verdict {
	switch c.(type) {
	case org.Erase:
		return actorstest.Accepted("again")
	case org.AnnounceExpiries, org.RetireAgent, org.RetireGroup:
		return actorstest.Accepted("being erased")
	}
	return actorstest.Refused("being erased", "410 gone")
}

func (o *oracle) register(c org.Register, now time.Time) actorstest.Verdict {
	if o.exists {
		return actorstest.Accepted("again")
	}
	o.exists, o.limits = true, map[string]int{}
	o.record = record{
		id: c.ID, name: c.Name, slug: c.Slug, email: c.Email, tier: c.Tier, createdMs: now.UnixMilli(),
		credentials: []credential{{client: c.ClientID, hash: string(c.SecretHash), createdMs: now.UnixMilli(), scope: "org", agents: "[]"}},
	}
	return actorstest.Accepted("registered")
}

// grantTier applies the operator's tier. The first decision yields an event even if the
// tier stays the same, because email verification no longer changes the tier
// afterwards.
func (o *oracle) grantTier(tier int, now time.Time) actorstest.Verdict {
	if tier < 0 || tier > 3 {
		return actorstest.Refused("no such tier", "422 validation_error")
	}
	if o.granted != 0 && o.tier == tier {
		return actorstest.Accepted("as before")
	}
	lowered := int64(0)
	if tier < o.tier {
		lowered = now.UnixMilli()
	}
	o.tier, o.granted, o.lowered = tier, now.UnixMilli(), lowered
	return actorstest.Accepted("granted")
}

func (o *oracle) setAllowance(c org.SetAllowance) actorstest.Verdict {
	limit := -1
	if c.Limit != nil {
		if limit = *c.Limit; limit < 0 {
			return actorstest.Refused("less than none", "422 validation_error")
		}
	}
	if has, set := o.limits[c.Quota]; set && has == limit {
		return actorstest.Accepted("as before")
	}
	o.limits[c.Quota] = limit
	return actorstest.Accepted("set")
}

// confirm raises an organization from tier 0, once, unless the operator has set a tier.
func (o *oracle) confirm(now time.Time) actorstest.Verdict {
	if o.confirmed != 0 {
		return actorstest.Accepted("again")
	}
	o.confirmed = now.UnixMilli()
	if o.granted != 0 {
		return actorstest.Accepted("the operator has decided")
	}
	if o.tier == 0 {
		o.tier = 1
	}
	return actorstest.Accepted("confirmed")
}

// prove raises an organization to tier 2, unless the operator has lowered its tier.
func (o *oracle) prove(c org.ProveWorkload, now time.Time) actorstest.Verdict {
	switch {
	case string(c.Challenge.GetOrgId()) != string(o.id[:]):
		return actorstest.Refused("a challenge of another", "404 not_found")
	case c.Used:
		return actorstest.Refused("a used challenge", "409 challenge_used")
	case !now.Before(c.Challenge.ExpiresAt()):
		return actorstest.Refused("too late", "410 challenge_expired")
	case c.Taken:
		return actorstest.Refused("an id of another", "403 svid_invalid")
	}
	o.proofs++
	if o.lowered != 0 {
		return actorstest.Accepted("the operator has lowered the tier")
	}
	if o.tier < 2 {
		o.tier, o.raised = 2, now.UnixMilli()
	}
	return actorstest.Accepted("proven")
}

// change is PATCH /org: null clears a field, an absent field stays, and the slug cannot
// change.
func (o *oracle) change(c org.Change) actorstest.Verdict {
	if c.Slug != nil && *c.Slug != o.slug {
		return actorstest.Refused("slug", "409 slug_immutable")
	}
	was := o.record
	if c.Name != nil {
		o.name = *c.Name
	}
	if c.ContactEmail.Set {
		o.email = c.ContactEmail.Value
		if c.ContactEmail.Null {
			o.email = ""
		}
	}
	if c.CountryCode.Set {
		o.country = strings.ToUpper(c.CountryCode.Value)
		if c.CountryCode.Null {
			o.country = ""
		}
	}
	if was.name == o.name && was.email == o.email && was.country == o.country {
		return actorstest.Accepted("nothing new")
	}
	return actorstest.Accepted("changed")
}

// addAgent checks the state before the quota.
func (o *oracle) addAgent(c org.AddAgent) actorstest.Verdict {
	if c.NameTaken {
		return actorstest.Refused("name taken", "409 name_taken")
	}
	if c.AgentLimit != nil && o.agents+1 > *c.AgentLimit {
		return actorstest.Refused("over quota", fmt.Sprintf(
			"403 quota_exceeded (limit=%d, quota=agents, resets_at=<nil>, used=%d)", *c.AgentLimit, o.agents))
	}
	o.agents++
	return actorstest.Accepted("added")
}

// addGroup checks a group as addAgent checks an agent.
func (o *oracle) addGroup(c org.AddGroup) actorstest.Verdict {
	if c.NameTaken {
		return actorstest.Refused("name taken", "409 name_taken")
	}
	if c.GroupLimit != nil && o.groups+1 > *c.GroupLimit {
		return actorstest.Refused("over quota", fmt.Sprintf(
			"403 quota_exceeded (limit=%d, quota=groups, resets_at=<nil>, used=%d)", *c.GroupLimit, o.groups))
	}
	o.groups++
	return actorstest.Accepted("added")
}

var (
	wishes = rapid.SampledFrom([]string{
		"change", "add-agent", "revoke-credential", "retire-agent", "add-credential", "register", "add-group", "retire-group",
		"grant-tier", "set-allowance", "lift-allowance", "confirm-email", "suspend", "resume", "hold", "release", "prove-workload", "erase", "announce",
	})
	quotas  = []string{"agents", "groups", "messages_per_day"}
	quota   = rapid.SampledFrom(quotas)
	clients = rapid.SampledFrom([]string{"c1", "c2", "c3", "c4"})
	texts   = rapid.Ptr(rapid.SampledFrom([]string{"Acme", "Apex", "a", ""}), true)
	slugs   = rapid.SampledFrom([]string{"", "", "", "acme", "acme", "apex"})
	limits  = rapid.Ptr(rapid.IntRange(0, 4), true)
	emails  = rapid.SampledFrom([]org.Clearable{
		{}, {Set: true, Value: "a@b"}, {Set: true, Value: "c@d"}, {Set: true, Null: true}, {Value: "e@f"}, {Set: true, Null: true, Value: "a@b"},
	})
	countries = rapid.SampledFrom([]org.Clearable{
		{}, {Set: true, Value: "ch"}, {Set: true, Value: "CH"}, {Set: true, Value: "De"}, {Set: true, Null: true}, {Null: true, Value: "fr"},
	})
)

func wish(t *rapid.T, o *oracle, now time.Time) org.Command {
	kind := wishes.Draw(t, "wish")
	if !o.exists && rapid.Bool().Draw(t, "at last") {
		kind = "register"
	}
	if kind == "erase" && rapid.IntRange(0, 5).Draw(t, "not yet") > 0 { // nothing happens after it
		kind = "change"
	}
	client := func() parley.ClientID { return actorstest.Named(clients.Draw(t, "client")) }
	switch kind {
	case "register":
		return org.Register{
			ID: actorstest.Named("acme"), Name: "Acme", Slug: "acme", Email: "a@b",
			Tier: rapid.IntRange(0, 3).Draw(t, "tier"), ClientID: client(), SecretHash: []byte("first"),
		}
	case "change":
		c := org.Change{Name: texts.Draw(t, "name"), ContactEmail: emails.Draw(t, "email"), CountryCode: countries.Draw(t, "country")}
		if slug := slugs.Draw(t, "slug"); slug != "" {
			c.Slug = &slug
		}
		return c
	case "add-credential":
		c := org.AddCredential{ClientID: client(), SecretHash: []byte("further"), Scope: rapid.SampledFrom(parley.Scopes).Draw(t, "scope")}
		if c.Scope != parley.ScopeOrg && rapid.Bool().Draw(t, "limited") {
			c.Agents = []parley.AgentID{actorstest.Named("alice"), actorstest.Named("bob")}
		}
		if rapid.Bool().Draw(t, "expiring") {
			c.Expires = now.Add(rapid.SampledFrom([]time.Duration{-time.Hour, 0, time.Millisecond, 24 * time.Hour, 7*24*time.Hour + time.Millisecond}).Draw(t, "expires"))
		}
		return c
	case "revoke-credential":
		return org.RevokeCredential{ClientID: client()}
	case "add-group":
		return org.AddGroup{NameTaken: rapid.IntRange(0, 5).Draw(t, "taken") == 5, GroupLimit: limits.Draw(t, "limit")}
	case "retire-group":
		return org.RetireGroup{}
	case "grant-tier":
		return org.GrantTier{Tier: rapid.IntRange(-1, 4).Draw(t, "tier")}
	case "set-allowance":
		return org.SetAllowance{Quota: quota.Draw(t, "quota"), Limit: rapid.Ptr(rapid.IntRange(-1, 2), true).Draw(t, "limit")}
	case "lift-allowance":
		return org.LiftAllowance{Quota: quota.Draw(t, "quota")}
	case "confirm-email":
		return org.ConfirmEmail{}
	case "prove-workload":
		owner := rapid.SampledFrom([]string{"acme", "acme", "acme", "acme", "acme", "apex"}).Draw(t, "of")
		return org.ProveWorkload{
			Challenge: challengeOf(owner, "alice", new(rapid.SampledFrom([]int{0, 50, 1e6}).Draw(t, "minutes"))), SPIFFEID: "spiffe://acme.example/web",
			Used: rapid.IntRange(0, 5).Draw(t, "used") == 5, Taken: rapid.IntRange(0, 5).Draw(t, "taken") == 5,
		}
	case "announce":
		return org.AnnounceExpiries{}
	case "suspend":
		return org.Suspend{}
	case "resume":
		return org.Resume{}
	case "hold":
		return org.Hold{}
	case "release":
		return org.Release{}
	case "erase":
		return org.Erase{}
	case "add-agent":
		return org.AddAgent{NameTaken: rapid.IntRange(0, 5).Draw(t, "taken") == 5, AgentLimit: limits.Draw(t, "limit")}
	}
	return org.RetireAgent{Retired: rapid.IntRange(0, 5).Draw(t, "again") == 5}
}

var trial = actorstest.Trial[*org.State, org.Command, org.Event, *oracle]{
	Rules: rules, Oracle: func() *oracle { return &oracle{} }, Draw: wish, Look: look,
	Pauses: []time.Duration{0, 999 * time.Microsecond, time.Millisecond, time.Hour, 24 * time.Hour},
	Cases: []string{
		"Register: registered", "Register: again",
		"Change: no organization", "Change: slug", "Change: nothing new", "Change: changed",
		"AddCredential: no organization", "AddCredential: again", "AddCredential: added as org", "AddCredential: added as agents", "AddCredential: added as read", "AddCredential: expires in the past",
		"RevokeCredential: no organization", "RevokeCredential: no such credential", "RevokeCredential: again",
		"AnnounceExpiries: no organization", "AnnounceExpiries: nothing is due", "AnnounceExpiries: announced", "AnnounceExpiries: being erased",
		"RevokeCredential: the last", "RevokeCredential: revoked",
		"AddAgent: no organization", "AddAgent: name taken", "AddAgent: over quota", "AddAgent: added",
		"RetireAgent: no organization", "RetireAgent: again", "RetireAgent: counted out",
		"AddGroup: no organization", "AddGroup: name taken", "AddGroup: over quota", "AddGroup: added",
		"GrantTier: no organization", "GrantTier: no such tier", "GrantTier: as before", "GrantTier: granted",
		"SetAllowance: no organization", "SetAllowance: less than none", "SetAllowance: as before", "SetAllowance: set",
		"LiftAllowance: no organization", "LiftAllowance: nothing to lift", "LiftAllowance: lifted",
		"ConfirmEmail: no organization", "ConfirmEmail: again", "ConfirmEmail: the operator has decided", "ConfirmEmail: confirmed",
		"ProveWorkload: no organization", "ProveWorkload: a challenge of another", "ProveWorkload: a used challenge", "ProveWorkload: too late",
		"ProveWorkload: an id of another", "ProveWorkload: the operator has lowered the tier", "ProveWorkload: proven",
		"Suspend: no organization", "Suspend: again", "Suspend: suspended",
		"Resume: no organization", "Resume: not suspended", "Resume: resumed",
		"Hold: no organization", "Hold: again", "Hold: held", "Hold: being erased",
		"Release: no organization", "Release: not held", "Release: released", "Release: being erased",
		"Erase: no organization", "Erase: held", "Erase: begun", "Erase: again", "Change: being erased", "RetireAgent: being erased",
		"AddAgent: being erased", "AddCredential: being erased", "AddGroup: being erased", "ConfirmEmail: being erased", "GrantTier: being erased",
		"LiftAllowance: being erased", "ProveWorkload: being erased", "Resume: being erased", "RetireGroup: being erased", "RevokeCredential: being erased",
		"SetAllowance: being erased", "Suspend: being erased",
		"RetireGroup: no organization", "RetireGroup: none left", "RetireGroup: counted out",
	},
	Errors: map[string]error{
		"ErrUnknown": org.ErrUnknown, "ErrUnknownCredential": org.ErrUnknownCredential, "ErrSlugImmutable": org.ErrSlugImmutable,
		"ErrLastCredential": org.ErrLastCredential, "ErrNameTaken": org.ErrNameTaken, "ErrQuotaExceeded": org.ErrQuotaExceeded,
		"ErrGroupNameTaken": org.ErrGroupNameTaken, "ErrNoSuchTier": org.ErrNoSuchTier, "ErrBadLimit": org.ErrBadLimit,
		"ErrUnknownChallenge": org.ErrUnknownChallenge, "ErrChallengeUsed": org.ErrChallengeUsed, "ErrChallengeExpired": org.ErrChallengeExpired, "ErrWorkloadTaken": org.ErrWorkloadTaken,
		"ErrErasing": org.ErrErasing, "ErrHeld": org.ErrHeld, "ErrExpiresEarly": org.ErrExpiresEarly,
	},
}

func TestOracle(t *testing.T) { trial.Run(t) }
