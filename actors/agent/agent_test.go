package agent_test

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/actorstest"
	"parley/actors/agent"
	"parley/client/parley"
)

type (
	life = actorstest.Life[*agent.State, agent.Command, agent.Event]
	turn = actorstest.Turn[*agent.State, agent.Command, agent.Event]
)

var rules = actorstest.Rules[*agent.State, agent.Command, agent.Event]{
	Zero:   func() *agent.State { return &agent.State{} },
	Decide: agent.Decide, Evolve: agent.Evolve, Tag: agent.Tag, New: agent.New,
}

func TestStories(t *testing.T) {
	actorstest.Tell(t, "testdata/stories", rules, parse, show)
}

func TestSendStories(t *testing.T) {
	actorstest.Tell(t, "testdata/sends", rules, parse, show)
}

func TestKeyStories(t *testing.T) {
	actorstest.Tell(t, "testdata/keys", rules, parse, showBindings)
}

func TestCardStories(t *testing.T) {
	actorstest.Tell(t, "testdata/cards", rules, parse, showCard)
}

func TestGroupStories(t *testing.T) {
	actorstest.Tell(t, "testdata/groups", rules, parse, show)
}

// key returns the 32-byte key that belongs to a name, nil for the empty name. Names
// that begin with ed give Ed25519 keys that can sign.
func key(name string) []byte {
	if name == "" {
		return nil
	}
	if private := signer(name); private != nil {
		return private.Public().(ed25519.PublicKey)
	}
	half := actorstest.Named(name)
	return append(half[:], half[:]...)
}

func parse(l *actorstest.Line, life *life) agent.Command {
	switch l.Verb {
	case "create":
		return agent.Create{
			ID: parley.AgentID(actorstest.Named("alice")), OrgID: parley.OrgID(actorstest.Named("acme")), Name: "alice",
			HumanOversight: true, Unlisted: l.Has("unlisted"), PollTokenHash: key("poll"),
			SigningKey: key(cmp.Or(l.Text("signing"), "s1")), EncryptionKey: key("e1"),
		}
	case "change":
		return agent.Change{
			Name: l.Optional("name"), HumanOversight: l.Flag("oversight"), Unlisted: l.Flag("unlisted"),
			IncomingPolicy: l.Optional("incoming"), OutgoingPolicy: l.Optional("outgoing"),
		}
	case "rotate":
		c := agent.RotateKeys{Signing: key(l.Text("signing")), Encryption: key(l.Text("encryption"))}
		if l.Has("signed-at") {
			c.Proof = new(parseProof(l, life, c.Signing, c.Encryption))
		}
		return c
	case "bind":
		return agent.BindKeys{Proof: parseProof(l, life, nil, nil)}
	case "retire":
		return agent.RetireKey{Kid: parley.Thumbprint(l.Text("curve"), key(l.Text("key")))}
	case "issue-poll-token":
		return agent.IssuePollToken{Hash: key(l.Text("token"))}
	case "revoke-poll-token":
		return agent.RevokePollToken{}
	case "revoke":
		return agent.Revoke{}
	case "send":
		return parseSend(l)
	case "publish-card":
		return agent.PublishCard{Public: l.Has("public"), A2AEnabled: l.Has("a2a"), NamesSecurity: l.Has("security")}
	case "withdraw-card":
		return agent.WithdrawCard{}
	case "enter":
		return agent.Enter{Group: l.ID("group"), Offer: number(l, "offer"), Isolated: l.Has("isolated")}
	case "depart":
		return agent.Depart{Group: l.ID("group"), Offer: number(l, "offer")}
	}
	panic("no such verb: " + l.Verb)
}

// parseProof returns a binding of the keys that will be current after the command. `by`
// names the signer, `signed-at` is the time since the beginning of the story.
func parseProof(l *actorstest.Line, life *life, signing, encryption []byte) agent.Proof {
	if signing == nil {
		signing = life.State.GetSigningKey()
	}
	if encryption == nil {
		encryption = life.State.GetEncryptionKey()
	}
	after, err := time.ParseDuration(l.Text("signed-at"))
	if err != nil {
		panic(err)
	}
	return proof(signing, encryption, l.Text("by"), l.Text("previous"), actorstest.Epoch.Add(after).Format(instant))
}

func number(l *actorstest.Line, key string) uint32 {
	if n := l.Number(key); n != nil {
		return uint32(*n)
	}
	return 0
}

func membership(group string, offer uint32, isolated bool) *agent.Membership {
	return &agent.Membership{Group: parley.GroupID(actorstest.Named(group)).Bytes(), Offer: offer, Isolated: isolated}
}

func parseSend(l *actorstest.Line) agent.Send {
	c := agent.Send{
		Type: l.Text("type"), Recipient: parley.AgentID(l.ID("to")), RecipientKnown: !l.Has("unknown"),
		RecipientRevoked: l.Has("revoked"), RecipientGroupsOnly: l.Has("groups-only"), KeyExchange: l.Has("keys"),
	}
	for _, group := range groupNames {
		if l.Text("in") == group {
			c.RecipientGroups = append(c.RecipientGroups, membership(group, 1, false))
		}
		if l.Text("confined-to") == group {
			c.RecipientGroups = append(c.RecipientGroups, membership(group, 1, true))
		}
	}
	if l.Has("parent") {
		parent := l.Text("parent")
		c.Parent = agent.ParentFact{Named: true, Known: parent != "unknown", Participant: parent == "own"}
	}
	if l.Has("sent-to") {
		c.Prior = &agent.Prior{Recipient: parley.AgentID(l.ID("sent-to")), Type: l.Text("sent-type")}
	}
	return c
}

func show(life *life) string {
	s := life.State
	_, revoked := s.RevokedAt()
	return fmt.Sprintf("%s, %s, %s, oversight %v, unlisted %v, revoked %v, keys %s, poll token %v, %d warnings%s",
		s.GetName(), s.GetIncomingPolicy(), s.GetOutgoingPolicy(), s.GetHumanOversight(), s.GetUnlisted(), revoked,
		keys(s), len(s.GetPollTokenHash()) > 0, len(s.Warnings()), seats(s))
}

var groupNames = []string{"club", "lab", "vault", "cell"}

// seats lists the agent's groups in the order of joining, each with the offer by which
// it joined.
func seats(s *agent.State) string {
	out := ""
	for _, m := range s.GetGroups() {
		for _, name := range groupNames {
			if m.GroupID() == actorstest.Named(name) {
				out += fmt.Sprintf(", in %s by offer %d", name, m.Offer)
			}
		}
	}
	if s.Confined() {
		out += ", confined"
	}
	return out
}

// keys lists the keys that can be found by kid, former ones in brackets.
func keys(s *agent.State) string {
	names := []string{}
	for _, name := range []string{"s1", "s2", "s3", "ed1", "ed2", "ed3", "e1", "e2", "e3"} {
		curve := parley.Ed25519
		if name[0] == 'e' && name[1] != 'd' {
			curve = parley.X25519
		}
		found, ok := s.KeyByKid(parley.Thumbprint(curve, key(name)))
		switch {
		case !ok:
		case found.Curve != curve || string(found.Raw) != string(key(name)):
			names = append(names, "wrong "+name)
		case found.Until.IsZero():
			names = append(names, name)
		case !found.Retired.IsZero():
			names = append(names, "(("+name+"))")
		default:
			names = append(names, "("+name+")")
		}
	}
	return strings.Join(names, " ")
}

// showCard renders what the state remembers of the agent's card.
func showCard(life *life) string {
	c := life.State.GetCard()
	if c == nil {
		return fmt.Sprintf("no card, %d so far", life.State.GetCardRevision())
	}
	since := func(ms int64) time.Duration { return time.UnixMilli(ms).Sub(actorstest.Epoch) }
	return fmt.Sprintf("card %d, created %v, updated %v, shown %v, changed %v, public %v, A2A %v", life.State.GetCardRevision(), since(c.GetCreatedMs()),
		since(c.GetUpdatedMs()), c.GetShownMs() != 0, life.State.CardChangedAt().Sub(actorstest.Epoch), c.GetIsPublic(), c.GetA2AEnabled())
}

// showBindings renders key bindings.
func showBindings(life *life) string {
	s, told := life.State, []string{}
	for i, b := range s.GetBindings() {
		told = append(told, nameOf(b.SigningKey)+" "+s.Continuity(i))
	}
	if at := s.UnboundSince(); !at.IsZero() {
		told = append(told, "unbound since "+at.Sub(actorstest.Epoch).String())
	}
	if place, bound := s.BindingInForce(); bound {
		told = append(told, fmt.Sprintf("the one at %d in force", place))
	}
	return "keys " + keys(s) + ", bindings: " + strings.Join(told, ", ")
}

func TestGolden(t *testing.T) {
	id, org := parley.AgentID(actorstest.Named("alice")).Bytes(), parley.OrgID(actorstest.Named("acme")).Bytes()
	group, at := parley.GroupID(actorstest.Named("vault")).Bytes(), actorstest.Epoch.UnixMilli()
	bound := &agent.KeyBinding{
		Signature: key("signature"), SignedAt: "2026-11-22T09:00:00.5Z", SigningKey: key("s2"), EncryptionKey: key("e1"), PreviousSignature: key("previous"),
		PreviousKey: key("s1"),
	}
	leaf := &agent.KeyLeaf{Number: 300, Salt: key("salt"), Signing: key("kid"), Encryption: key("kid2"), Pq: key("kid3")}
	actorstest.Golden(
		t, "testdata/events.golden", rules,
		&agent.State{
			Id: id, OrgId: org, Name: "alice", HumanOversight: true, IncomingPolicy: agent.AcceptAll,
			OutgoingPolicy: agent.SendAll, Unlisted: true, CreatedMs: at, RevokedMs: at + 2,
			SigningKey: key("s2"), EncryptionKey: key("e1"), PollTokenHash: key("poll"),
			FormerKeys: []*agent.FormerKey{{Curve: parley.Ed25519, Raw: key("s1"), RetiredMs: at + 1, SinceMs: at + 3, DistrustedMs: at + 4}},
			Groups:     []*agent.Membership{membership("vault", 300, true)},
			Bindings:   []*agent.KeyBinding{bound}, UnboundMs: at + 5, SigningSinceMs: at + 6, EncryptionSinceMs: at + 7, KeysMs: at + 8,
			Card: &agent.Card{CreatedMs: at + 9, UpdatedMs: at + 10, IsPublic: true, A2AEnabled: true, ShownMs: at + 11}, CardRevision: 300,
			PqKey:     &agent.PQKey{Algorithm: parley.XWing, Raw: key("pq1"), SinceMs: at + 12},
			KeyLeaves: 300, KeyPackages: 300, LastResort: true, HandedOut: 400, KeyPackageRevision: 500,
			Blocks: []*agent.Block{{Agent: id, Org: org, AtMs: at, Number: 300}}, BlocksMade: 300,
		},
		[]agent.Event{
			&agent.Created{
				Id: id, OrgId: org, Name: "alice", HumanOversight: true, IncomingPolicy: agent.AcceptAll,
				OutgoingPolicy: agent.SendAll, Unlisted: true, SigningKey: key("s1"), EncryptionKey: key("e1"),
				PollTokenHash: key("poll"), AtMs: at, Leaf: leaf,
			},
			&agent.Changed{
				HumanOversight: proto.Bool(false), IncomingPolicy: proto.String(agent.GroupsOnly),
				OutgoingPolicy: proto.String(agent.GroupsOnly), Unlisted: proto.Bool(false), AtMs: at,
			},
			&agent.KeysRotated{SigningKey: key("s2"), EncryptionKey: key("e2"), AtMs: at, Leaf: leaf},
			&agent.PollTokenIssued{Hash: key("poll"), AtMs: at},
			&agent.PollTokenRevoked{AtMs: at},
			&agent.Revoked{AtMs: at, Leaf: leaf},
			&agent.Entered{Group: group, Offer: 300, Isolated: true, AtMs: at},
			&agent.Departed{Group: group, Offer: 300, AtMs: at},
			&agent.KeysBound{Binding: bound, AtMs: at, Drop: 300, Leaf: leaf},
			&agent.KeyDistrusted{Curve: parley.Ed25519, Raw: key("s1"), AtMs: at, Leaf: leaf},
			&agent.CardPublished{IsPublic: true, A2AEnabled: true, AtMs: at},
			&agent.CardWithdrawn{AtMs: at},
			&agent.PQKeySet{Algorithm: parley.XWing, Raw: key("pq1"), AtMs: at, Leaf: leaf},
			&agent.PQKeyRemoved{AtMs: at, Leaf: leaf},
			&agent.KeyPackagesStored{Count: 300, LastResort: true, AtMs: at},
			&agent.KeyPackageClaimed{AtMs: at},
			&agent.KeyPackagesExpired{Kept: 300, LastResort: true, HandedOut: 400, AtMs: at},
			&agent.Blocked{Block: &agent.Block{Agent: id, Org: org, AtMs: at, Number: 300}},
			&agent.Unblocked{Number: 300, AtMs: at},
		},
	)
}

// TestGivenOut checks that later changes to the agent do not alter memberships that
// were returned earlier.
func TestGivenOut(t *testing.T) {
	l, told := rules.Begin(), map[*[]*agent.Membership]string{}
	look := func() {
		groups := l.State.GetGroups()
		told[&groups] = fmt.Sprint(groups)
	}
	l.Do(t, agent.Create{ID: actorstest.Named("alice")})
	for round := range uint32(3) {
		for _, c := range []agent.Command{
			agent.Enter{Group: actorstest.Named("club"), Offer: 2*round + 1},
			agent.Enter{Group: actorstest.Named("lab"), Offer: round + 1},
			agent.Enter{Group: actorstest.Named("club"), Offer: 2*round + 2},
			agent.Depart{Group: actorstest.Named("lab"), Offer: round + 1},
		} {
			if events, err := l.Do(t, c); err != nil || len(events) != 1 {
				t.Fatalf("%v: %v, %v", c, events, err)
			}
			look()
		}
	}
	for groups, was := range told {
		if now := fmt.Sprint(*groups); now != was {
			t.Errorf("returned %s, which has changed to %s", was, now)
		}
	}
}
