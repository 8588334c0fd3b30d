package agent_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/actorstest"
	"parley/actors/agent"
	"parley/client/parley"
)

func TestLaws(t *testing.T) { actorstest.Obey(t, rules, draw, law) }

func draw(t *rapid.T, s *agent.State) agent.Command {
	flag := rapid.Ptr(rapid.Bool(), true)
	keyOf := func(names ...string) []byte { return key(rapid.SampledFrom(names).Draw(t, "key")) }
	kind := rapid.IntRange(0, 24).Draw(t, "kind")
	if !s.Exists() && rapid.IntRange(0, 3).Draw(t, "too early") > 0 {
		kind = 1
	}
	switch {
	case kind == 0:
		return agent.Revoke{}
	case kind == 1:
		return agent.Create{
			ID: parley.AgentID(actorstest.Named("alice")), OrgID: parley.OrgID(actorstest.Named("acme")), Name: "alice",
			SigningKey: key("s1"), EncryptionKey: key("e1"), PollTokenHash: key("poll"),
		}
	case kind < 4:
		return agent.Change{
			Name:           rapid.Ptr(rapid.SampledFrom([]string{"alice", "alice", "bob"}), true).Draw(t, "name"),
			HumanOversight: flag.Draw(t, "oversight"), Unlisted: flag.Draw(t, "unlisted"),
			IncomingPolicy: rapid.Ptr(rapid.SampledFrom([]string{agent.AcceptAll, agent.GroupsOnly}), true).Draw(t, "incoming"),
			OutgoingPolicy: rapid.Ptr(rapid.SampledFrom([]string{agent.SendAll, agent.GroupsOnly}), true).Draw(t, "outgoing"),
		}
	case kind < 7:
		return agent.RotateKeys{Signing: keyOf("", "s1", "s2", "s3"), Encryption: keyOf("", "e1", "e2", "e3")}
	case kind == 7:
		return agent.IssuePollToken{Hash: keyOf("t1", "t2")}
	case kind == 8:
		return agent.RevokePollToken{}
	case kind == 19:
		return agent.WithdrawCard{}
	case kind == 24:
		return agent.RemovePQKey{}
	case kind > 21:
		return agent.SetPQKey{Algorithm: rapid.SampledFrom(pqAlgorithms).Draw(t, "algorithm"), Raw: keyOf("pq1", "pq2")}
	case kind > 19:
		return agent.PublishCard{
			Public: rapid.Bool().Draw(t, "public"), A2AEnabled: rapid.Bool().Draw(t, "a2a"), NamesSecurity: rapid.Bool().Draw(t, "security"),
		}
	}
	group := rapid.SampledFrom(groupNames).Draw(t, "group")
	offer := rapid.Uint32Range(1, 4).Draw(t, "offer")
	switch {
	case kind < 11:
		return agent.Depart{Group: actorstest.Named(group), Offer: offer}
	case kind < 14:
		return agent.Enter{Group: actorstest.Named(group), Offer: offer, Isolated: isolated[group]}
	}
	return drawSend(t)
}

// isolated is the set of isolated groups.
var isolated = map[string]bool{"vault": true, "cell": true}

func drawSend(t *rapid.T) agent.Send {
	name := rapid.SampledFrom([]string{"alice", "bob", "bob", "bob"})
	likely := func(label string) bool { return rapid.IntRange(0, 5).Draw(t, label) > 0 }
	c := agent.Send{
		Type: rapid.SampledFrom([]string{"a.v1.x", "a.v1.y"}).Draw(t, "type"), Recipient: actorstest.Named(name.Draw(t, "to")),
		RecipientKnown: likely("known"), RecipientRevoked: !likely("active"), RecipientGroupsOnly: !likely("accepts"),
		KeyExchange: rapid.Bool().Draw(t, "keys"),
		Parent:      agent.ParentFact{Named: rapid.Bool().Draw(t, "parent"), Known: likely("known"), Participant: likely("participant")},
	}
	for _, group := range rapid.SliceOfNDistinct(rapid.SampledFrom(groupNames), 0, 2, rapid.ID).Draw(t, "there") {
		c.RecipientGroups = append(c.RecipientGroups, membership(group, 1, isolated[group]))
	}
	if !likely("first") {
		c.Prior = &agent.Prior{Recipient: actorstest.Named(name.Draw(t, "sent to")), Type: "a.v1.x"}
	}
	return c
}

func law(t *rapid.T, turn turn) {
	before, after := turn.Before, turn.After
	if len(turn.Events) > 0 && (turn.Err != nil || proto.Equal(before, after)) {
		t.Fatalf("events %v, but error %v and state %v", turn.Events, turn.Err, after)
	}
	if before.Revoked() && len(turn.Events) > 0 {
		t.Fatalf("%v after the agent was revoked", turn.Events)
	}
	if after.Revoked() && len(after.GetPollTokenHash()) > 0 {
		t.Fatal("a revoked agent has a poll token")
	}
	if before.Exists() && (before.Name != after.Name || before.CreatedMs != after.CreatedMs) {
		t.Fatalf("an immutable field changed: %v, %v", before, after)
	}
	lawOfKeys(t, turn)
	lawOfCards(t, turn)
	lawOfGroups(t, turn)
	switch c := turn.Command.(type) {
	case agent.Send:
		lawOfSend(t, c, turn)
	case agent.Enter:
		lawOfEntering(t, c, turn)
	case agent.Depart:
		if has := byName(after)[c.Group]; has != nil && has.Offer <= c.Offer || len(before.GetGroups())-len(after.GetGroups()) != len(turn.Events) {
			t.Fatalf("departed from %v: before %v, after %v", c, before.GetGroups(), after.GetGroups())
		}
	}
}

// lawOfCards: a revoked agent has no card. Cards are numbered without gaps, and their
// instants never go back.
func lawOfCards(t *rapid.T, turn turn) {
	before, after := turn.Before.GetCard(), turn.After.GetCard()
	if turn.After.Revoked() && after != nil {
		t.Fatal("a revoked agent has a card")
	}
	published := uint32(0)
	for _, e := range turn.Events {
		if _, ok := e.(*agent.CardPublished); ok {
			published++
		}
	}
	if turn.After.GetCardRevision() != turn.Before.GetCardRevision()+published {
		t.Fatalf("%d cards became %d", turn.Before.GetCardRevision(), turn.After.GetCardRevision())
	}
	if before != nil && after != nil && (after.CreatedMs != before.CreatedMs || after.UpdatedMs < before.UpdatedMs || turn.After.CardChangedAt().Before(turn.Before.CardChangedAt())) {
		t.Fatalf("the card of %v became that of %v", before, after)
	}
}

func byName(s *agent.State) map[parley.GroupID]*agent.Membership {
	groups := map[parley.GroupID]*agent.Membership{}
	for _, m := range s.GetGroups() {
		groups[m.GroupID()] = m
	}
	return groups
}

// lawOfGroups: an agent is in a group at most once, and an isolated group excludes all
// others. An agent in a group gets no policy warnings. Only Enter, Depart and Revoke
// change memberships.
func lawOfGroups(t *rapid.T, turn turn) {
	after := turn.After
	groups := byName(after)
	if len(groups) != len(after.GetGroups()) || after.Confined() && len(groups) != 1 || after.Revoked() && len(groups) > 0 {
		t.Fatalf("revoked %v, and in %v", after.Revoked(), after.GetGroups())
	}
	for _, name := range groupNames {
		if id := parley.GroupID(actorstest.Named(name)); after.In(id) != (groups[id] != nil) {
			t.Fatalf("in %s is %v: %v", name, after.In(id), after.GetGroups())
		}
		if after.Confined() != (groups[actorstest.Named("vault")] != nil || groups[actorstest.Named("cell")] != nil) {
			t.Fatalf("confined is %v: %v", after.Confined(), after.GetGroups())
		}
	}
	if len(groups) > 0 && len(after.Warnings()) > 0 {
		t.Fatalf("in %v, but has warnings %q", after.GetGroups(), after.Warnings())
	}
	moved := !proto.Equal(&agent.State{Groups: turn.Before.GetGroups()}, &agent.State{Groups: after.GetGroups()})
	switch turn.Command.(type) {
	case agent.Enter, agent.Depart, agent.Revoke:
	default:
		if moved {
			t.Fatalf("%v changed the memberships: %v", turn.Command, after.GetGroups())
		}
	}
}

// lawOfEntering: an agent that may join is in the group afterwards, as the last in the
// list; otherwise its memberships do not change.
func lawOfEntering(t *rapid.T, c agent.Enter, turn turn) {
	before, after := byName(turn.Before), byName(turn.After)
	if turn.Err != nil {
		others := turn.Before.Confined() && before[c.Group] == nil || c.Isolated && len(before) > 0 && before[c.Group] == nil
		if conflict := errors.Is(turn.Err, agent.ErrIsolationConflict); conflict && !others || !conflict && turn.Before.Exists() && !turn.Before.Revoked() {
			t.Fatalf("in %v, entering %v: %v", turn.Before.GetGroups(), c, turn.Err)
		}
		return
	}
	has := after[c.Group]
	if has == nil || has.Isolated != c.Isolated || has.Offer != max(c.Offer, before[c.Group].GetOffer()) {
		t.Fatalf("entered %v, is in %v", c, turn.After.GetGroups())
	}
	if all := turn.After.GetGroups(); len(turn.Events) > 0 && all[len(all)-1] != has {
		t.Fatalf("entered %v last: %v", c, all)
	}
}

// lawOfKeys: every key that was ever current can be found by kid. No key is both
// current and former, and a former key has the time of its retirement.
func lawOfKeys(t *rapid.T, turn turn) {
	before, after := turn.Before, turn.After
	curves := map[string][]byte{parley.Ed25519: before.GetSigningKey(), parley.X25519: before.GetEncryptionKey()}
	for curve, raw := range curves {
		if found, ok := after.KeyByKid(parley.Thumbprint(curve, raw)); before.Exists() && (!ok || string(found.Raw) != string(raw)) {
			t.Fatalf("a former %s key is lost", curve)
		}
	}
	seen := map[string]bool{string(after.GetSigningKey()): true, string(after.GetEncryptionKey()): true}
	for _, k := range after.GetFormerKeys() {
		if seen[string(k.Raw)] {
			t.Fatalf("a key twice: %v", after)
		}
		if current := string(curves[k.Curve]) == string(k.Raw); current && k.RetiredMs != turn.Now.UnixMilli() {
			t.Fatalf("retired at %v, stamped %d", turn.Now, k.RetiredMs)
		}
		seen[string(k.Raw)] = true
	}
	if len(after.GetFormerKeys()) < len(before.GetFormerKeys())-1 {
		t.Fatal("former keys were lost")
	}
	if string(before.GetEncryptionKey()) != string(after.GetEncryptionKey()) && after.GetPqKey() != nil {
		t.Fatal("a post-quantum key outlives the encryption key beside which it was set")
	}
}

// lawOfSend: a send is accepted if and only if no rule forbids it. A repeated send is
// answered from the record and never decided again.
func lawOfSend(t *rapid.T, c agent.Send, turn turn) {
	s := turn.Before
	if len(turn.Events) > 0 {
		t.Fatalf("a send yields %v", turn.Events)
	}
	if c.Prior != nil {
		same := c.Prior.Recipient == c.Recipient && c.Prior.Type == c.Type
		if errors.Is(turn.Err, agent.ErrRepeated) != same || errors.Is(turn.Err, agent.ErrIdempotencyMismatch) == same {
			t.Fatalf("repeat of %v, got %v", c.Prior, turn.Err)
		}
		return
	}
	parties := s.Exists() && !s.Revoked() && c.RecipientKnown && !c.RecipientRevoked && c.Recipient != s.AgentID()
	parent := !c.Parent.Named || c.Parent.Known && c.Parent.Participant
	mine, apart, shared := byName(s), false, false
	for _, m := range c.RecipientGroups {
		apart = apart || m.Isolated && mine[m.GroupID()] == nil
		shared = shared || mine[m.GroupID()] != nil
	}
	apart = apart || s.Confined() && !shared
	policies := c.KeyExchange && shared || s.GetOutgoingPolicy() == agent.SendAll && !c.RecipientGroupsOnly
	if passes := parties && parent && !apart && policies; passes != (turn.Err == nil) {
		t.Fatalf("parties %v, parent %v, apart %v, policies %v: %v", parties, parent, apart, policies, turn.Err)
	}
	if apart != agent.Apart(s.GetGroups(), c.RecipientGroups) || apart != agent.Apart(c.RecipientGroups, s.GetGroups()) {
		t.Fatalf("%v and %v are apart: %v", s.GetGroups(), c.RecipientGroups, apart)
	}
}
