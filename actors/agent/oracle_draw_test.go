package agent_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/agent"
	"parley/client/parley"
)

// Keys that a life may use: some for signing, some for encryption, and one that is used
// for both.
var keysByName = map[string][]byte{
	"": nil, "ed1": key("ed1"), "ed2": key("ed2"), "ed3": key("ed3"), "e1": key("e1"), "e2": key("e2"), "both": key("both"),
}

var (
	wishes = rapid.SampledFrom([]string{
		"send", "rotate", "change", "send", "rotate", "issue", "send", "change", "forgo", "create", "revoke",
		"enter", "depart", "enter", "bind", "bind", "retire",
		"card", "card", "no card", "pq", "pq", "no pq", "store", "store", "claim", "block", "block", "unblock",
	})
	pqNames      = []string{"pq1", "pq2"}
	pqAlgorithms = []string{parley.MLKEM768, parley.XWing}
	pqKeys       = [2]*rapid.Generator[string]{rapid.SampledFrom(pqAlgorithms), rapid.SampledFrom(pqNames)}

	signings = rapid.SampledFrom([]string{"", "ed1", "ed2", "ed3", "both"})
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
	groups     = rapid.SampledFrom(groupNames)
	companies  = rapid.SampledFrom([][]string{nil, {"club"}, {"lab", "club"}, {"vault"}, {"cell"}})
	offers     = rapid.Uint32Range(1, 4)
	rarely     = rapid.Map(rapid.IntRange(0, 7), func(n int) bool { return n == 7 })
)

func wish(t *rapid.T, o *oracle, now time.Time) agent.Command {
	return maybeLogged(t, o.wish(t, now))
}

func (o *oracle) wish(t *rapid.T, now time.Time) agent.Command {
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
			SigningKey: keysByName["ed1"], EncryptionKey: keysByName["e1"],
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
		c := agent.RotateKeys{Signing: keysByName[signings.Draw(t, "signing")], Encryption: keysByName[seals.Draw(t, "encryption")]}
		if rapid.Bool().Draw(t, "bound") {
			c.Proof = new(o.wishToBind(t, c.Signing, c.Encryption, now))
		}
		return c
	case "bind":
		return agent.BindKeys{Proof: o.wishToBind(t, nil, nil, now)}
	case "retire":
		return o.wishToRetire(t)
	case "issue":
		return agent.IssuePollToken{Hash: []byte(tokens.Draw(t, "token"))}
	case "forgo":
		return agent.RevokePollToken{}
	case "revoke":
		return agent.Revoke{}
	case "enter":
		group := groups.Draw(t, "group")
		return agent.Enter{Group: actorstest.Named(group), Offer: offers.Draw(t, "offer"), Isolated: isolated[group]}
	case "depart":
		return o.wishToDepart(t)
	case "card":
		return agent.PublishCard{
			Public: rapid.Bool().Draw(t, "public"), A2AEnabled: rapid.Bool().Draw(t, "a2a"), NamesSecurity: rapid.Bool().Draw(t, "security"),
		}
	case "pq":
		return agent.SetPQKey{Algorithm: pqKeys[0].Draw(t, "algorithm"), Raw: key(pqKeys[1].Draw(t, "pq key"))}
	case "no pq":
		return agent.RemovePQKey{}
	case "store":
		return o.wishToStore(t)
	case "claim":
		return o.wishToClaim(t)
	case "no card":
		return agent.WithdrawCard{}
	case "block":
		other, org := blockable(t)
		return agent.SetBlock{Agent: other, Org: org}
	case "unblock":
		other, org := blockable(t)
		return agent.EndBlock{Agent: other, Org: org}
	}
	return o.wishToSend(t)
}

// wishToRetire usually retires a former key.
func (o *oracle) wishToRetire(t *rapid.T) agent.RetireKey {
	if len(o.retired) > 0 && !rarely.Draw(t, "any key") {
		k := rapid.SampledFrom(o.retired).Draw(t, "key")
		return agent.RetireKey{Kid: parley.Thumbprint(k.curve, []byte(k.raw))}
	}
	return agent.RetireKey{Kid: parley.Thumbprint(parley.Ed25519, keysByName[signings.Draw(t, "key")])}
}

// wishToDepart usually departs from a group that the agent is in.
func (o *oracle) wishToDepart(t *rapid.T) agent.Depart {
	group := groups.Draw(t, "group")
	if len(o.seats) > 0 && !rarely.Draw(t, "elsewhere") {
		group = o.seats[0].group
	}
	return agent.Depart{Group: actorstest.Named(group), Offer: offers.Draw(t, "offer")}
}

// company returns the groups of a recipient, mostly the sender's groups.
func (o *oracle) company(t *rapid.T) (there []*agent.Membership) {
	names := companies.Draw(t, "company")
	if rapid.Bool().Draw(t, "the sender's") {
		names = nil
		for _, s := range o.seats {
			names = append(names, s.group)
		}
	}
	for _, name := range names {
		there = append(there, membership(name, offers.Draw(t, "offer"), isolated[name]))
	}
	return there
}

func (o *oracle) wishToSend(t *rapid.T) agent.Send {
	c := agent.Send{
		Type: types.Draw(t, "type"), Recipient: recipients.Draw(t, "to"), KeyExchange: rapid.Bool().Draw(t, "keys"),
		RecipientKnown: !rarely.Draw(t, "unknown"), RecipientRevoked: rarely.Draw(t, "revoked"), RecipientGroupsOnly: rarely.Draw(t, "closed"),
		RecipientGroups: o.company(t), RecipientBlocks: rarely.Draw(t, "barred"),
	}
	c.RecipientOrg = owners[c.Recipient]
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
		"RotateKeys: no agent", "RotateKeys: revoked", "RotateKeys: bound", "RotateKeys: a retired encryption key is bound again", "RotateKeys: unbound", "RotateKeys: nothing new",
		"RotateKeys: not signed", "RotateKeys: not signed by the former", "RotateKeys: retired", "RotateKeys: ahead", "RotateKeys: stale",
		"BindKeys: no agent", "BindKeys: revoked", "BindKeys: not signed", "BindKeys: not signed by the former", "BindKeys: ahead", "BindKeys: stale",
		"BindKeys: first", "BindKeys: signed", "BindKeys: broken", "BindKeys: again",
		"RetireKey: no agent", "RetireKey: revoked", "RetireKey: unknown", "RetireKey: in use", "RetireKey: again", "RetireKey: not linked", "RetireKey: retired",
		"IssuePollToken: no agent", "IssuePollToken: revoked", "IssuePollToken: changed", "IssuePollToken: nothing new",
		"RevokePollToken: no agent", "RevokePollToken: revoked", "RevokePollToken: changed", "RevokePollToken: nothing new",
		"Revoke: no agent", "Revoke: again", "Revoke: revoked",
		"Send: sent before", "Send: another under the key", "Send: sender not here yet", "Send: sender revoked",
		"Send: unknown recipient", "Send: recipient revoked", "Send: unknown parent", "Send: not in the parent",
		"Send: sender's policy", "Send: recipient's policy", "Send: blocked by the sender", "Send: blocked by the recipient", "Send: to itself", "Send: sent",
		"Send: kept apart",
		"Enter: no agent", "Enter: revoked", "Enter: again", "Enter: into isolation", "Enter: out of isolation",
		"Enter: entered", "Enter: entered anew",
		"Depart: not in it", "Depart: in it since", "Depart: departed",
		"PublishCard: no agent", "PublishCard: revoked", "PublishCard: security members", "PublishCard: first card", "PublishCard: another card",
		"WithdrawCard: no agent", "WithdrawCard: revoked", "WithdrawCard: nothing new", "WithdrawCard: changed",
		"SetPQKey: no agent", "SetPQKey: revoked", "SetPQKey: nothing new", "SetPQKey: changed",
		"Logged: refused", "Logged: no leaf", "Logged: a leaf", "Logged: two leaves",
		"SetBlock: no agent", "SetBlock: revoked", "SetBlock: itself", "SetBlock: nothing new", "SetBlock: changed",
		"EndBlock: no agent", "EndBlock: revoked", "EndBlock: nothing new", "EndBlock: changed",
		"RemovePQKey: no agent", "RemovePQKey: revoked", "RemovePQKey: nothing new", "RemovePQKey: changed",
		"StoreKeyPackages: no agent", "StoreKeyPackages: revoked", "StoreKeyPackages: another key", "StoreKeyPackages: reused", "StoreKeyPackages: too many",
		"StoreKeyPackages: stored", "StoreKeyPackages: expired", "StoreKeyPackages: nothing new",
		"ClaimKeyPackage: no agent", "ClaimKeyPackage: claimed", "ClaimKeyPackage: last resort", "ClaimKeyPackage: none",
	},
	Errors: map[string]error{
		"ErrRepeated": agent.ErrRepeated, "ErrUnknown": agent.ErrUnknown, "ErrRevoked": agent.ErrRevoked,
		"ErrNameImmutable": agent.ErrNameImmutable, "ErrIdempotencyMismatch": agent.ErrIdempotencyMismatch,
		"ErrNotHere": agent.ErrNotHere, "ErrSenderRevoked": agent.ErrSenderRevoked, "ErrUnknownRecipient": agent.ErrUnknownRecipient,
		"ErrRecipientRevoked": agent.ErrRecipientRevoked, "ErrUnknownParent": agent.ErrUnknownParent, "ErrNotInParent": agent.ErrNotInParent,
		"ErrOutgoingPolicy": agent.ErrOutgoingPolicy, "ErrIncomingPolicy": agent.ErrIncomingPolicy, "ErrSelfMessage": agent.ErrSelfMessage,
		"ErrRecipientBlocked": agent.ErrRecipientBlocked, "ErrSelfBlock": agent.ErrSelfBlock,
		"ErrIsolationConflict": agent.ErrIsolationConflict,
		"ErrBindingSignature":  agent.ErrBindingSignature, "ErrPreviousSignature": agent.ErrPreviousSignature,
		"ErrBindingStale": agent.ErrBindingStale, "ErrBindingAhead": agent.ErrBindingAhead,
		"ErrUnknownKey": agent.ErrUnknownKey, "ErrKeyInUse": agent.ErrKeyInUse, "ErrKeyRetired": agent.ErrKeyRetired,
		"ErrKeyUnlinked": agent.ErrKeyUnlinked, "ErrCardSecurity": agent.ErrCardSecurity,
		"ErrKeyPackageKey": agent.ErrKeyPackageKey, "ErrKeyPackageReused": agent.ErrKeyPackageReused, "ErrNoKeyPackage": agent.ErrNoKeyPackage,
	},
}

func TestOracle(t *testing.T) { trial.Run(t) }
