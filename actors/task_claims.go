package actors

import (
	"context"

	"parley/actors/host"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// A message of a client of A2A is one message for the whole organization, whichever of its
// agents sends it. But an idempotency key is known to the agent that used it, so two agents
// could use the same one at once. An organization's oldest agent decides which of them does:
// it keeps claims beside its own keys. It sends without a claim itself, because no other
// agent does without asking it.

// TaskClaim asks an organization's oldest agent for the key of a message.
type TaskClaim struct {
	Org    parley.OrgID
	Oldest parley.AgentID
	// By is the agent that wants to send.
	By  parley.AgentID
	Key string
}

// TaskHold is the answer to a claim.
type TaskHold struct {
	// Sent is the message that the oldest agent sent with the key itself; zero if there is
	// none.
	Sent parley.MessageID
	// Holder is the agent that has to send with the key: the first one that claimed it.
	Holder parley.AgentID
	// Turn counts the claims of the key.
	Turn uint64
}

// releaseTask gives up a claim.
type releaseTask struct {
	TaskClaim
	// Turn is that of the claim to give up.
	Turn uint64
}

// ClaimTask claims the key of a message. Claims are kept as long as keys.
func (ms *Messages) ClaimTask(ctx context.Context, c TaskClaim) (TaskHold, error) {
	return host.Ask[TaskHold](ctx, ms.engine, rules.AgentStream(c.Oldest), 0, c)
}

// ReleaseTask gives up a claim with which nothing could be sent, unless the key was claimed
// again meanwhile.
func (ms *Messages) ReleaseTask(ctx context.Context, c TaskClaim, h TaskHold) error {
	_, err := host.Ask[bool](ctx, ms.engine, rules.AgentStream(c.Oldest), 0, releaseTask{c, h.Turn})
	return err
}

// Repeat returns a message that was sent before.
func (ms *Messages) Repeat(ctx context.Context, id parley.MessageID) (Posted, error) {
	return ms.completeRepeat(ctx, Posted{Message: &record.Message{Id: id.Bytes()}, Repeated: true}, nil)
}

// heldTask is a claim as it is stored, in the form of an idempotencyRecord without a
// message. day is that of its row.
type heldTask struct {
	day uint32
	TaskHold
}

// findClaim returns the claim of a key, nil if there is none.
func findClaim(t *agentTurn, org parley.OrgID, key string) (*heldTask, error) {
	newest, oldest := daysOfKeys(t.Now)
	for day := newest; day >= oldest; day-- {
		value, found, err := t.Row(journal.OnceTable, idempotencyKey(day, org[:], key))
		if err != nil {
			return nil, err
		}
		if holder, turn, ok := record.ReadClaim(value); found && ok {
			return &heldTask{day, TaskHold{Holder: holder, Turn: turn}}, nil
		}
	}
	return nil, nil
}

// claimTask decides who sends with a key.
func (ms *Messages) claimTask(t *agentTurn, c *TaskClaim) (any, error) {
	known, err := findIdempotencyRecord(t, c.Oldest[:], c.Key)
	if err != nil {
		return nil, err
	}
	if known != nil {
		return TaskHold{Sent: known.message}, nil
	}
	held, err := findClaim(t, c.Org, c.Key)
	if err != nil {
		return nil, err
	}
	if held == nil {
		held = &heldTask{journal.Day(t.Now), TaskHold{Holder: c.By}}
	}
	held.Turn++
	t.PutOwnedRow(journal.OnceTable, idempotencyKey(held.day, c.Org[:], c.Key), record.Claim(held.Holder, held.Turn), journal.OwnedBy(c.Org))
	return held.TaskHold, nil
}

func (ms *Messages) releaseTask(t *agentTurn, r *releaseTask) (any, error) {
	held, err := findClaim(t, r.Org, r.Key)
	if err == nil && held != nil && held.Turn == r.Turn {
		t.DeleteRow(journal.OnceTable, idempotencyKey(held.day, r.Org[:], r.Key))
	}
	return true, err
}

// heldByOther reports whether another agent has claimed the key of a send.
func heldByOther(t *agentTurn, s *DirectSend) (bool, error) {
	if !s.Oldest {
		return false, nil
	}
	held, err := findClaim(t, s.FromOrg, s.Key)
	return held != nil && held.Holder != s.From, err
}
