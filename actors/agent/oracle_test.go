package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley"
	"parley/actors/actorstest"
	"parley/actors/agent"
)

// record is what an agent shows. // spec: Agent (AgentRead)
type record struct {
	id                  parley.AgentID
	org                 parley.OrgID
	name                string
	oversight, unlisted bool
	incoming, outgoing  string
	createdMs           int64
	revokedMs           int64 // 0 for null
	signing, encryption string
	poll                string // hash of the poll token that counts
	former              []former
	warnings            [2]bool // of the incoming, of the outgoing policy
}

// former is a key that was rotated away and is not current.
type former struct {
	curve, raw string
	retiredMs  int64
}

// oracle is an agent as the specification tells of it.
type oracle struct {
	record
	exists bool
	// retired are all keys that were ever rotated away, as it happened.
	retired []former
}

func (o *oracle) revoked() bool { return o.revokedMs != 0 }

// Sight derives the former keys from all that happened: a key counts from its
// last retirement, unless it is current again.
func (o *oracle) Sight(time.Time) any {
	seen := o.record
	seen.former = nil
	for i, k := range o.retired {
		current := k.curve == parley.Ed25519 && k.raw == o.signing || k.curve == parley.X25519 && k.raw == o.encryption
		later := slices.ContainsFunc(o.retired[i+1:], func(l former) bool { return l.curve == k.curve && l.raw == k.raw })
		if !current && !later {
			seen.former = append(seen.former, k)
		}
	}
	seen.warnings = [2]bool{o.incoming == "groups_only", o.outgoing == "groups_only"}
	return seen
}

func look(l *life) any {
	s := l.State
	revokedAt, revoked := s.RevokedAt()
	seen := record{
		id: s.AgentID(), org: s.Owner(), name: s.GetName(), oversight: s.GetHumanOversight(), unlisted: s.GetUnlisted(),
		incoming: s.GetIncomingPolicy(), outgoing: s.GetOutgoingPolicy(), createdMs: s.GetCreatedMs(),
		signing: string(s.GetSigningKey()), encryption: string(s.GetEncryptionKey()), poll: string(s.GetPollTokenHash()),
	}
	if revoked {
		seen.revokedMs = revokedAt.UnixMilli()
	}
	for _, k := range s.GetFormerKeys() {
		seen.former = append(seen.former, former{k.Curve, string(k.Raw), k.RetiredMs})
	}
	for _, w := range s.Warnings() {
		seen.warnings[0] = seen.warnings[0] || strings.HasPrefix(w, "incoming_policy")
		seen.warnings[1] = seen.warnings[1] || strings.HasPrefix(w, "outgoing_policy")
	}
	return seen
}

// answerable holds which keys are found by kid against which ever were in use.
func answerable(l *life, o *oracle) error {
	for name, raw := range keysByName {
		if name == "" {
			continue
		}
		for _, curve := range []string{parley.Ed25519, parley.X25519} {
			known := o.exists && (curve == parley.Ed25519 && o.signing == string(raw) || curve == parley.X25519 && o.encryption == string(raw))
			for _, k := range o.retired {
				known = known || k.curve == curve && k.raw == string(raw)
			}
			of, found, ok := l.State.KeyByKid(parley.Thumbprint(curve, raw))
			if ok != known || ok && (of != curve || string(found) != string(raw)) {
				return fmt.Errorf("%s as a key of %s: ever in use is %v, found is %v", name, curve, known, ok)
			}
		}
	}
	return nil
}

func (o *oracle) Foretell(c agent.Command, now time.Time) actorstest.Verdict {
	switch c := c.(type) {
	case agent.Create:
		return o.create(c, now)
	case agent.Send:
		return o.send(c)
	case agent.Revoke:
		switch {
		case !o.exists:
			return actorstest.Refused("no agent", "404 not_found")
		case o.revoked():
			return actorstest.Taken("again")
		}
		o.revokedMs, o.poll = now.UnixMilli(), ""
		return actorstest.Taken("revoked")
	}
	switch {
	case !o.exists:
		return actorstest.Refused("no agent", "404 not_found")
	case o.revoked():
		return actorstest.Refused("revoked", "410 gone")
	}
	switch c := c.(type) {
	case agent.Change:
		return o.change(c)
	case agent.RotateKeys:
		signing := o.rotate(parley.Ed25519, &o.signing, string(c.Signing), now)
		encryption := o.rotate(parley.X25519, &o.encryption, string(c.Encryption), now)
		return news(signing || encryption)
	case agent.IssuePollToken:
		fresh := o.poll != string(c.Hash)
		o.poll = string(c.Hash)
		return news(fresh)
	case agent.RevokePollToken:
		had := o.poll != ""
		o.poll = ""
		return news(had)
	}
	panic("no such command")
}

func news(changed bool) actorstest.Verdict {
	if changed {
		return actorstest.Taken("changed")
	}
	return actorstest.Taken("nothing new")
}

func (o *oracle) create(c agent.Create, now time.Time) actorstest.Verdict {
	if o.exists {
		return actorstest.Taken("again")
	}
	o.exists = true
	o.record = record{
		id: c.ID, org: c.OrgID, name: c.Name, oversight: c.HumanOversight, unlisted: c.Unlisted,
		incoming: "accept_all", outgoing: "send_all", createdMs: now.UnixMilli(),
		signing: string(c.SigningKey), encryption: string(c.EncryptionKey), poll: string(c.PollTokenHash),
	}
	return actorstest.Taken("created")
}

func (o *oracle) change(c agent.Change) actorstest.Verdict {
	if c.Name != nil && *c.Name != o.name {
		return actorstest.Refused("name", "409 name_immutable")
	}
	was := []any{o.oversight, o.unlisted, o.incoming, o.outgoing}
	set(&o.oversight, c.HumanOversight)
	set(&o.unlisted, c.Unlisted)
	set(&o.incoming, c.IncomingPolicy)
	set(&o.outgoing, c.OutgoingPolicy)
	return news(!slices.Equal(was, []any{o.oversight, o.unlisted, o.incoming, o.outgoing}))
}

func set[T any](has *T, wanted *T) {
	if wanted != nil {
		*has = *wanted
	}
}

func (o *oracle) rotate(curve string, has *string, fresh string, now time.Time) bool {
	if fresh == "" || fresh == *has {
		return false
	}
	o.retired = append(o.retired, former{curve, *has, now.UnixMilli()})
	*has = fresh
	return true
}

// send goes through the contract's order of checks: idempotency, existence,
// access, rule. That the acting agent is the caller's was checked at the door;
// one that was revoked or is on its way since is no reason to forget a repeat.
func (o *oracle) send(c agent.Send) actorstest.Verdict {
	if c.Prior != nil {
		if c.Prior.Recipient == c.Recipient && c.Prior.Type == c.Type {
			return actorstest.Refused("sent before", agent.ErrRepeated.Error())
		}
		return actorstest.Refused("another under the key", "409 idempotency_mismatch")
	}
	for _, rule := range []struct {
		against bool
		because string
		answer  string
	}{
		{!o.exists, "sender not here yet", "503 overloaded"},
		{o.revoked(), "sender revoked", "403 not_owner"},
		{!c.RecipientKnown, "unknown recipient", "404 not_found"},
		{c.RecipientRevoked, "recipient revoked", "410 gone"},
		{c.Parent.Named && !c.Parent.Known, "unknown parent", "404 not_found"},
		{c.Parent.Named && !c.Parent.Participant, "not in the parent", "403 not_owner"},
		{!c.Exempt && o.outgoing == "groups_only", "sender's policy", "403 outgoing_policy"},
		{!c.Exempt && c.RecipientGroupsOnly, "recipient's policy", "403 incoming_policy"},
		{c.Recipient == o.id, "to itself", "422 self_message"},
	} {
		if rule.against {
			return actorstest.Refused(rule.because, rule.answer)
		}
	}
	return actorstest.Taken("sent")
}

// Keys that a life may use: some for signing, some for encryption, and one that
// somebody uses for both.
var keysByName = map[string][]byte{
	"": nil, "s1": key("s1"), "s2": key("s2"), "s3": key("s3"), "e1": key("e1"), "e2": key("e2"), "both": key("both"),
}

var (
	wishes   = rapid.SampledFrom([]string{"send", "rotate", "change", "send", "rotate", "issue", "send", "change", "forgo", "create", "revoke"})
	signings = rapid.SampledFrom([]string{"", "s1", "s2", "s3", "both"})
	seals    = rapid.SampledFrom([]string{"", "e1", "e2", "both"})
	flags    = rapid.Ptr(rapid.Bool(), true)
	ownNames = rapid.SampledFrom([]string{"", "", "alice", "alice", "bob"})
	policies = [2]*rapid.Generator[*string]{
		rapid.Ptr(rapid.SampledFrom([]string{"accept_all", "groups_only"}), true),
		rapid.Ptr(rapid.SampledFrom([]string{"send_all", "groups_only"}), true),
	}
	tokens     = rapid.SampledFrom([]string{"t1", "t2"})
	recipients = rapid.SampledFrom([]parley.AgentID{actorstest.Named("bob"), actorstest.Named("carol"), actorstest.Named("alice")})
	types      = rapid.SampledFrom([]string{"a.v1.x", "a.v1.y"})
	rarely     = rapid.Map(rapid.IntRange(0, 7), func(n int) bool { return n == 7 })
)

func wish(t *rapid.T, o *oracle, _ time.Time) agent.Command {
	kind := wishes.Draw(t, "wish")
	if !o.exists && rapid.Bool().Draw(t, "at last") {
		kind = "create"
	}
	if kind == "revoke" && o.exists && !o.revoked() && !rarely.Draw(t, "the end") {
		kind = "send"
	}
	switch kind {
	case "create":
		return agent.Create{
			ID: actorstest.Named("alice"), OrgID: actorstest.Named("acme"), Name: "alice", PollTokenHash: []byte("t1"),
			HumanOversight: rapid.Bool().Draw(t, "oversight"), Unlisted: rapid.Bool().Draw(t, "unlisted"),
			SigningKey: keysByName["s1"], EncryptionKey: keysByName["e1"],
		}
	case "change":
		c := agent.Change{
			HumanOversight: flags.Draw(t, "oversight"), Unlisted: flags.Draw(t, "unlisted"),
			IncomingPolicy: policies[0].Draw(t, "incoming"), OutgoingPolicy: policies[1].Draw(t, "outgoing"),
		}
		if name := ownNames.Draw(t, "name"); name != "" {
			c.Name = &name
		}
		return c
	case "rotate":
		return agent.RotateKeys{Signing: keysByName[signings.Draw(t, "signing")], Encryption: keysByName[seals.Draw(t, "encryption")]}
	case "issue":
		return agent.IssuePollToken{Hash: []byte(tokens.Draw(t, "token"))}
	case "forgo":
		return agent.RevokePollToken{}
	case "revoke":
		return agent.Revoke{}
	}
	return wishToSend(t)
}

func wishToSend(t *rapid.T) agent.Send {
	c := agent.Send{
		Type: types.Draw(t, "type"), Recipient: recipients.Draw(t, "to"), Exempt: rapid.Bool().Draw(t, "exempt"),
		RecipientKnown: !rarely.Draw(t, "unknown"), RecipientRevoked: rarely.Draw(t, "revoked"), RecipientGroupsOnly: rarely.Draw(t, "closed"),
	}
	if rapid.Bool().Draw(t, "parent") {
		c.Parent = agent.ParentFact{Named: true, Known: !rarely.Draw(t, "no parent"), Participant: !rarely.Draw(t, "a stranger's")}
	}
	if rarely.Draw(t, "before") {
		c.Prior = &agent.Prior{Recipient: recipients.Draw(t, "sent to"), Type: types.Draw(t, "sent as")}
	}
	return c
}

var trial = actorstest.Trial[*agent.State, agent.Command, agent.Event, *oracle]{
	Rules: rules, Oracle: func() *oracle { return &oracle{} }, Draw: wish, Look: look, Closer: answerable,
	Pauses: []time.Duration{0, 999 * time.Microsecond, time.Millisecond, time.Hour},
	Cases: []string{
		"Create: created", "Create: again",
		"Change: no agent", "Change: revoked", "Change: name", "Change: changed", "Change: nothing new",
		"RotateKeys: no agent", "RotateKeys: revoked", "RotateKeys: changed", "RotateKeys: nothing new",
		"IssuePollToken: no agent", "IssuePollToken: revoked", "IssuePollToken: changed", "IssuePollToken: nothing new",
		"RevokePollToken: no agent", "RevokePollToken: revoked", "RevokePollToken: changed", "RevokePollToken: nothing new",
		"Revoke: no agent", "Revoke: again", "Revoke: revoked",
		"Send: sent before", "Send: another under the key", "Send: sender not here yet", "Send: sender revoked",
		"Send: unknown recipient", "Send: recipient revoked", "Send: unknown parent", "Send: not in the parent",
		"Send: sender's policy", "Send: recipient's policy", "Send: to itself", "Send: sent",
	},
	Errors: map[string]error{
		"ErrRepeated": agent.ErrRepeated, "ErrUnknown": agent.ErrUnknown, "ErrRevoked": agent.ErrRevoked,
		"ErrNameImmutable": agent.ErrNameImmutable, "ErrIdempotencyMismatch": agent.ErrIdempotencyMismatch,
		"ErrNotHere": agent.ErrNotHere, "ErrSenderRevoked": agent.ErrSenderRevoked, "ErrUnknownRecipient": agent.ErrUnknownRecipient,
		"ErrRecipientRevoked": agent.ErrRecipientRevoked, "ErrUnknownParent": agent.ErrUnknownParent, "ErrNotInParent": agent.ErrNotInParent,
		"ErrOutgoingPolicy": agent.ErrOutgoingPolicy, "ErrIncomingPolicy": agent.ErrIncomingPolicy, "ErrSelfMessage": agent.ErrSelfMessage,
	},
}

func TestOracle(t *testing.T) { trial.Run(t) }
