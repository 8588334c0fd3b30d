package agent

import (
	"errors"
	"testing"
	"time"

	"parley/client/parley"
)

// TestBlocks: an agent blocks each agent and organization once, and at most BlocksMax; what is
// blocked is found by the agent and by its owner.
func TestBlocks(t *testing.T) {
	now := time.UnixMilli(5)
	s := &State{}
	do := func(c Command) (n int, err error) {
		t.Helper()
		events, err := Decide(s, c, now)
		for _, e := range events {
			Evolve(s, e)
		}
		return len(events), err
	}
	expect := func(c Command, want int) {
		t.Helper()
		if n, err := do(c); n != want || err != nil {
			t.Errorf("%+v: %d events, %v; want %d", c, n, err, want)
		}
	}
	agentOf := func(n int) parley.AgentID { return parley.AgentID{1, byte(n >> 8), byte(n)} }
	self, owner, other := parley.AgentID{9}, parley.OrgID{9}, parley.OrgID{7}
	if _, err := do(SetBlock{Agent: agentOf(1), Org: other}); !errors.Is(err, ErrUnknown) {
		t.Errorf("an agent that does not exist: %v", err)
	}
	expect(Create{ID: self, OrgID: owner, Name: "a"}, 1)
	if _, err := do(SetBlock{Agent: self, Org: owner}); !errors.Is(err, ErrSelfBlock) {
		t.Errorf("itself: %v", err)
	}
	expect(SetBlock{Agent: agentOf(1), Org: other}, 1)
	expect(SetBlock{Agent: agentOf(1), Org: other}, 0)
	if !Blocks(s, agentOf(1), other) || Blocks(s, agentOf(2), other) || Blocks(s, agentOf(2), parley.OrgID{}) {
		t.Error("the block of an agent is not of exactly that agent")
	}
	expect(SetBlock{Org: other}, 1)
	expect(SetBlock{Org: other}, 0)
	expect(EndBlock{Agent: agentOf(1), Org: other}, 1)
	expect(EndBlock{Agent: agentOf(1), Org: other}, 0)
	if !Blocks(s, agentOf(1), other) || !Blocks(s, parley.AgentID{}, other) {
		t.Error("the block of an organization does not cover its agents")
	}
	for n := range BlocksMax - 1 {
		expect(SetBlock{Agent: agentOf(n), Org: other}, 1)
	}
	if n := len(s.GetBlocks()); n != BlocksMax || s.GetBlocks()[1].GetNumber() != 3 || s.GetBlocksMade() != BlocksMax+1 {
		t.Errorf("%d blocks, %d made, the second is number %d", n, s.GetBlocksMade(), s.GetBlocks()[1].GetNumber())
	}
	if _, err := do(SetBlock{Agent: agentOf(BlocksMax), Org: other}); !errors.Is(err, parley.ErrQuotaExceeded) {
		t.Errorf("one too many: %v", err)
	}
	expect(SetBlock{Org: other}, 0)
	expect(Revoke{}, 1)
	if _, err := do(EndBlock{Org: other}); !errors.Is(err, ErrRevoked) {
		t.Errorf("a revoked agent: %v", err)
	}
}

// TestSendsToBlocked: a block on either side is judged where the policies are, and passes what
// they pass.
func TestSendsToBlocked(t *testing.T) {
	group := []*Membership{{Group: []byte("0123456789abcdef")}}
	s := &State{Id: parley.AgentID{9}.Bytes(), OrgId: parley.OrgID{9}.Bytes(), Groups: group, Blocks: []*Block{{Org: parley.OrgID{7}.Bytes()}}}
	for _, c := range []struct {
		send Send
		want error
	}{
		{Send{RecipientOrg: parley.OrgID{8}}, nil},
		{Send{RecipientOrg: parley.OrgID{8}, RecipientBlocks: true}, ErrIncomingPolicy},
		{Send{RecipientOrg: parley.OrgID{7}}, ErrRecipientBlocked},
		{Send{RecipientOrg: parley.OrgID{7}, RecipientBlocks: true}, ErrRecipientBlocked},
		{Send{RecipientOrg: parley.OrgID{7}, RecipientBlocks: true, KeyExchange: true}, ErrRecipientBlocked},
		{Send{RecipientOrg: parley.OrgID{7}, RecipientBlocks: true, KeyExchange: true, RecipientGroups: group}, nil},
	} {
		c.send.Recipient, c.send.RecipientKnown = parley.AgentID{1}, true
		if _, err := Decide(s, c.send, time.Time{}); !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%+v: %v, want %v", c.send, err, c.want)
		}
	}
}
