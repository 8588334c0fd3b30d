package agent

import (
	"bytes"
	"slices"
	"time"

	"parley/client/parley"
)

// BlocksMax is how many agents and organizations an agent may block.
const BlocksMax = 1000

// SetBlock blocks an agent, or a whole organization if Agent is zero. Blocking it again changes
// nothing. The errors are ErrSelfBlock, parley.ErrQuotaExceeded, ErrUnknown and ErrRevoked.
type SetBlock struct {
	Agent parley.AgentID
	Org   parley.OrgID
}

// EndBlock ends a block. Ending one that there is not changes nothing.
type EndBlock struct {
	Agent parley.AgentID
	Org   parley.OrgID
}

func (SetBlock) command() {}
func (EndBlock) command() {}

func (*Blocked) event()   {}
func (*Unblocked) event() {}

// ErrSelfBlock refuses a block of the agent by itself.
var ErrSelfBlock = parley.Refuse(parley.Unprocessable, "validation_error", "An agent cannot block itself.")

// AgentID returns the blocked agent, zero for a whole organization.
func (b *Block) AgentID() parley.AgentID { return parley.IDFromBytes[parley.AgentID](b.GetAgent()) }

// OrgID returns the organization that is blocked, or that owns the blocked agent.
func (b *Block) OrgID() parley.OrgID { return parley.IDFromBytes[parley.OrgID](b.GetOrg()) }

// At returns when the block was made, UTC.
func (b *Block) At() time.Time { return time.UnixMilli(b.GetAtMs()).UTC() }

// Blocks reports whether an agent blocks another one, or its organization.
func Blocks(s *State, other parley.AgentID, owner parley.OrgID) bool {
	return slices.ContainsFunc(s.GetBlocks(), func(b *Block) bool {
		return len(b.Agent) == 0 && bytes.Equal(b.Org, owner[:]) || bytes.Equal(b.Agent, other[:])
	})
}

// blockOf returns the block of exactly this agent or organization, nil if there is none.
func blockOf(s *State, other parley.AgentID, owner parley.OrgID) *Block {
	for _, b := range s.GetBlocks() {
		if b.AgentID() == other && (!other.Zero() || b.OrgID() == owner) {
			return b
		}
	}
	return nil
}

func decideSetBlock(s *State, c SetBlock, now time.Time) ([]Event, error) {
	if err := s.active(); err != nil {
		return nil, err
	}
	switch n := len(s.GetBlocks()); {
	case c.Agent == s.AgentID():
		return nil, ErrSelfBlock
	case blockOf(s, c.Agent, c.Org) != nil:
		return nil, nil
	case n >= BlocksMax:
		return nil, parley.ErrQuotaExceeded.OverQuota(parley.QuotaBlocks, BlocksMax, n, nil)
	}
	b := &Block{Org: c.Org.Bytes(), AtMs: now.UnixMilli(), Number: s.GetBlocksMade() + 1}
	if !c.Agent.Zero() {
		b.Agent = c.Agent.Bytes()
	}
	return []Event{&Blocked{Block: b}}, nil
}

func decideEndBlock(s *State, c EndBlock, now time.Time) ([]Event, error) {
	if err := s.active(); err != nil {
		return nil, err
	}
	b := blockOf(s, c.Agent, c.Org)
	if b == nil {
		return nil, nil
	}
	return []Event{&Unblocked{Number: b.GetNumber(), AtMs: now.UnixMilli()}}, nil
}

// Bars reports whether an agent's blocks keep a message of another one from it. Sender keys
// pass between members of a common group, because the group's messages do.
func Bars(s, from *State, keyExchange bool) bool {
	return Blocks(s, from.AgentID(), from.Owner()) && !(keyExchange && acquainted(s.GetGroups(), from.GetGroups()))
}
