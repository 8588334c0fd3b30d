package actors

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"google.golang.org/protobuf/proto"

	"parley/actors/host"
	"parley/actors/org"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// JudgeWorkloadChallenge returns nil if an organization's agent may answer a challenge
// now, or else the refusal. ProveWorkload decides again: it is the call that uses up the
// challenge.
func (orgs *Orgs) JudgeWorkloadChallenge(ctx context.Context, id parley.OrgID, agent parley.AgentID, c *org.WorkloadChallenge) error {
	v := orgs.journal.View()
	defer v.Close()
	_, used, err := v.Row(id.Slot(), journal.SpentTable, spentNonce(c))
	if err != nil {
		return err
	}
	if refusal := c.Judge(id, agent, used, orgs.clock()); refusal != nil {
		if err := v.Durable(ctx); err != nil {
			return err
		}
		return refusal
	}
	return nil
}

// spentNonce returns the key of a used challenge's row. It begins with the day on which
// the challenge expires, so that the row expires too.
func spentNonce(c *org.WorkloadChallenge) []byte {
	return append(binary.BigEndian.AppendUint32(nil, journal.Day(c.ExpiresAt())), c.GetNonce()...)
}

// ProveWorkload records that an agent has proven a SPIFFE id in answer to a challenge. The
// caller has verified the proof. The SPIFFE id belongs to the organization from now on; a
// crash after that leaves the challenge unused, so that the agent can answer it again.
// // spec: Agents
func (orgs *Orgs) ProveWorkload(ctx context.Context, id parley.OrgID, c *org.WorkloadChallenge, spiffeID string) (*org.State, error) {
	holder, err := orgs.claimWorkload(ctx, id, spiffeID)
	if err != nil {
		return nil, err
	}
	return host.Ask[*org.State](ctx, orgs.engine, rules.OrgStream(id), 0, org.ProveWorkload{Challenge: c, SPIFFEID: spiffeID, Taken: holder != id})
}

// claimWorkload returns the organization that has a SPIFFE id. If none has, it becomes id.
// As with slugs, the claim begins a stream, and the journal rejects all but the first of
// several attempts. The slot follows from the SPIFFE id, which is why the claim is not part
// of the organization's entry.
func (orgs *Orgs) claimWorkload(ctx context.Context, id parley.OrgID, spiffeID string) (parley.OrgID, error) {
	holder, err := orgs.workloadHolder(ctx, spiffeID)
	if err != nil || !holder.Zero() {
		return holder, err
	}
	slot := parley.SlotOf(spiffeID)
	err = host.Append(orgs.journal.Writer, &journal.Entry{
		Slot: slot, At: orgs.clock(),
		Effects: []journal.Effect{journal.CreateStream{
			Stream: rules.WorkloadStream(spiffeID), Events: []journal.StoredEvent{{Tag: 1, Data: id.Bytes(), Clear: true}},
		}},
		Rows: []journal.Row{{Slot: slot, Table: journal.WorkloadTable, Key: []byte(spiffeID), Value: id.Bytes()}},
	})
	if errors.Is(err, journal.ErrExists) { // another request came first
		return orgs.workloadHolder(ctx, spiffeID)
	}
	return id, err
}

// workloadHolder returns the organization that has a SPIFFE id; zero if none has.
func (orgs *Orgs) workloadHolder(ctx context.Context, spiffeID string) (holder parley.OrgID, err error) {
	v := orgs.journal.View()
	defer v.Close()
	value, found, err := v.Row(parley.SlotOf(spiffeID), journal.WorkloadTable, []byte(spiffeID))
	if err != nil || !found {
		return holder, err
	}
	holder = parley.IDFromBytes[parley.OrgID](bytes.Clone(value))
	return holder, v.Durable(ctx)
}

// proveWorkload uses up the challenge in the turn that raises the tier.
func (orgs *Orgs) proveWorkload(t *orgTurn, c org.ProveWorkload) (any, error) {
	spent := spentNonce(c.Challenge)
	_, used, err := t.Row(journal.SpentTable, spent)
	if err != nil {
		return nil, err
	}
	c.Used = used
	if err := t.Decide(c); err != nil {
		return nil, err
	}
	t.PutRow(journal.SpentTable, spent, t.State.GetId())
	return proto.CloneOf(t.State), nil
}
