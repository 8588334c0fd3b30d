package submission

import (
	"errors"

	"parley/actors"
	"parley/actors/agent"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
)

// claimsMax bounds how often a message is claimed: each time, what the agent that had the
// claim could not send.
const claimsMax = 3

// SendTask begins an A2A task. The message's idempotency key holds for all agents of the
// caller's organization: if another one used it before, that message is the answer, and if
// another one is about to use it, that one sends.
func (d *Desk) SendTask(c *rest.Call, in *api.Send, from *agent.State, task *Task) (p actors.Posted, err error) {
	if c.Caller.Only != nil { // it must not repeat what others of its organization sent
		return d.Send(c, in, from, ViaA2A, task)
	}
	claim := actors.TaskClaim{Org: c.Caller.Org, By: from.AgentID(), Key: in.IdempotencyKey}
	if claim.Oldest, err = d.node.Agents.Oldest(c.Context(), claim.Org); err != nil {
		return p, err
	}
	if claim.By == claim.Oldest {
		if p, err = d.sendTask(c, in, from, task, claim); err != nil || !p.Held {
			return p, err
		}
	}
	refused := error(parley.ErrOverloaded)
	for range claimsMax {
		held, err := d.node.Messages.ClaimTask(c.Context(), claim)
		if err != nil {
			return p, err
		}
		if !held.Sent.Zero() {
			return d.node.Messages.Repeat(c.Context(), held.Sent)
		}
		holder := from
		if held.Holder != claim.By {
			if holder, err = d.node.Agents.Get(c.Context(), held.Holder); err != nil {
				return p, err
			}
		}
		p, err = d.sendTask(c, in, holder, task, claim)
		switch {
		case err == nil && p.Held: // by another agent since
			continue
		case err == nil || !undone(err):
			return p, err
		}
		if lost := d.node.Messages.ReleaseTask(c.Context(), claim, held); lost != nil || holder == from {
			return p, err
		}
		refused = err
	}
	return p, refused
}

func (d *Desk) sendTask(c *rest.Call, in *api.Send, from *agent.State, task *Task, claim actors.TaskClaim) (actors.Posted, error) {
	own := *task
	own.oldest = from.AgentID() == claim.Oldest
	return d.Send(c, in, from, ViaA2A, &own)
}

// undone reports whether an error says that nothing was sent.
func undone(err error) bool {
	return parley.IsRefusal(err) && !errors.Is(err, parley.ErrOutcomeUnknown) && !errors.Is(err, parley.ErrOverloaded)
}
