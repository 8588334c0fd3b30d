package agent_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley"
	"parley/actors/actorstest"
	"parley/actors/agent"
)

func TestLaws(t *testing.T) { actorstest.Obey(t, rules, draw, law) }

func draw(t *rapid.T, s *agent.State) agent.Command {
	flag := rapid.Ptr(rapid.Bool(), true)
	keyOf := func(names ...string) []byte { return key(rapid.SampledFrom(names).Draw(t, "key")) }
	kind := rapid.IntRange(0, 12).Draw(t, "kind")
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
	}
	return drawSend(t)
}

func drawSend(t *rapid.T) agent.Send {
	name := rapid.SampledFrom([]string{"alice", "bob", "bob", "bob"})
	likely := func(label string) bool { return rapid.IntRange(0, 5).Draw(t, label) > 0 }
	c := agent.Send{
		Type: rapid.SampledFrom([]string{"a.v1.x", "a.v1.y"}).Draw(t, "type"), Recipient: actorstest.Named(name.Draw(t, "to")),
		RecipientKnown: likely("known"), RecipientRevoked: !likely("active"), RecipientGroupsOnly: !likely("accepts"),
		Exempt: rapid.Bool().Draw(t, "exempt"),
		Parent: agent.ParentFact{Named: rapid.Bool().Draw(t, "parent"), Known: likely("known"), Participant: likely("participant")},
	}
	if !likely("first") {
		c.Prior = &agent.Prior{Recipient: actorstest.Named(name.Draw(t, "sent to")), Type: "a.v1.x"}
	}
	return c
}

func law(t *rapid.T, turn turn) {
	before, after := turn.Before, turn.After
	if len(turn.Events) > 0 && (turn.Err != nil || proto.Equal(before, after)) {
		t.Fatalf("%v, and yet %v and %v", turn.Events, turn.Err, after)
	}
	if before.Revoked() && len(turn.Events) > 0 {
		t.Fatalf("%v after the agent was revoked", turn.Events)
	}
	if after.Revoked() && len(after.GetPollTokenHash()) > 0 {
		t.Fatal("a revoked agent has a poll token")
	}
	if before.Exists() && (before.Name != after.Name || before.CreatedMs != after.CreatedMs) {
		t.Fatalf("what never changes changed: %v, %v", before, after)
	}
	lawOfKeys(t, turn)
	if c, ok := turn.Command.(agent.Send); ok {
		lawOfSend(t, c, turn)
	}
}

// Every key that was ever current is answered by kid, none is both current and
// former, and a former one tells since when.
func lawOfKeys(t *rapid.T, turn turn) {
	before, after := turn.Before, turn.After
	curves := map[string][]byte{parley.Ed25519: before.GetSigningKey(), parley.X25519: before.GetEncryptionKey()}
	for curve, raw := range curves {
		if _, found, ok := after.KeyByKid(parley.Thumbprint(curve, raw)); before.Exists() && (!ok || string(found) != string(raw)) {
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
		t.Fatal("former keys got lost")
	}
}

// A send passes if and only if nothing speaks against it, and a remembered one
// is never judged anew.
func lawOfSend(t *rapid.T, c agent.Send, turn turn) {
	s := turn.Before
	if len(turn.Events) > 0 {
		t.Fatalf("a send yields %v", turn.Events)
	}
	if c.Prior != nil {
		same := c.Prior.Recipient == c.Recipient && c.Prior.Type == c.Type
		if errors.Is(turn.Err, agent.ErrRepeated) != same || errors.Is(turn.Err, agent.ErrIdempotencyMismatch) == same {
			t.Fatalf("remembered %v, got %v", c.Prior, turn.Err)
		}
		return
	}
	parties := s.Exists() && !s.Revoked() && c.RecipientKnown && !c.RecipientRevoked && c.Recipient != s.AgentID()
	parent := !c.Parent.Named || c.Parent.Known && c.Parent.Participant
	policies := c.Exempt || s.GetOutgoingPolicy() == agent.SendAll && !c.RecipientGroupsOnly
	if passes := parties && parent && policies; passes != (turn.Err == nil) {
		t.Fatalf("parties %v, parent %v, policies %v: %v", parties, parent, policies, turn.Err)
	}
}
