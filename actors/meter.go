package actors

import (
	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/host"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// meter counts the changes that organizations make on a day, and what they store.
// // spec: Organization quotas
type meter struct{ *core }

// Ready implements host.Meter.
func (m meter) Ready(e *journal.Entry, p *parley.Payer, request any) error {
	if !changes(request) {
		return nil // the turn asks itself
	}
	q, err := m.usagesFor(e)
	if err != nil {
		return err
	}
	day := journal.Day(e.At)
	if r, invites := request.(Invitation); invites && r.Org != p.Org {
		if err := q.known(m.journal.Reader, invitationsTo(p.Org, r.Agent), day); err != nil {
			return err
		}
	}
	return q.known(m.journal.Reader, p.Org, day)
}

// Take implements host.Meter. What removes something is counted, and never refused.
func (m meter) Take(of host.Metered) ([]*host.Pending, error) {
	e, p, request := of.Entry, of.Payer, of.Request
	counts := of.Accepted && changes(request)
	if !counts && len(of.Stored) == 0 {
		return nil, nil
	}
	q, err := m.usagesFor(e)
	if err != nil {
		return nil, err
	}
	own := int64(0)
	for _, s := range of.Stored {
		if s.Org == p.Org {
			own += s.Bytes
		}
	}
	if counts {
		w := want{Usage: journal.Usage{Changes: 1, Stored: max(own, 0)}, limits: p, always: removes(request)}
		if changesKeys(request) {
			w.KeyChanges = 1
		}
		if r, invites := request.(Invitation); invites && r.Org != p.Org {
			w.Invitations, w.guest = 1, r.Agent
		}
		if _, reports := request.(*record.Report); reports {
			w.Reports = 1
		}
		if rests, err := q.take(m.journal.Reader, e, p.Org, &w, of.Turn.Pending); err != nil {
			return rests, err
		}
	}
	// Only now: of an entry that is refused nothing is removed.
	if own < 0 {
		q.release(e, p.Org, own)
	}
	for _, s := range of.Stored {
		if s.Org != p.Org {
			q.release(e, s.Org, s.Bytes)
		}
	}
	return nil, nil
}

// changes reports whether a request counts as a change: it is no message and no mark.
func changes(request any) bool {
	switch request.(type) {
	case DirectSend, ReplyTo, GroupSend, TaskClaim, releaseTask:
		return false
	}
	return true
}

// removes reports whether a request takes something away, or keeps it away: deletes, revokes,
// leaves, declines, acknowledges, blocks.
func removes(request any) bool {
	switch commandOf(request).(type) {
	case org.RevokeCredential,
		agent.Revoke, agent.RetireKey, agent.RemovePQKey, agent.WithdrawCard, agent.RevokePollToken, agent.SetBlock, agent.EndBlock,
		group.Remove, group.Delete, group.EndRequest, mlsAcknowledgment,
		webhook.Delete:
		return true
	}
	return false
}

// changesKeys reports whether a request changes the keys of an agent.
func changesKeys(request any) bool {
	switch commandOf(request).(type) {
	case agent.RotateKeys, agent.BindKeys, agent.SetPQKey:
		return true
	}
	return false
}

// commandOf returns what a request asks for, without what goes into the key log with it.
func commandOf(request any) any {
	if r, ok := request.(loggedChange); ok {
		request = r.Command
	}
	if r, ok := request.(agent.Logged); ok {
		request = r.Command
	}
	return request
}
