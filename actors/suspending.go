package actors

import (
	"context"
	"errors"

	"parley"
	"parley/actors/agent"
	"parley/actors/org"
	"parley/actors/webhook"
	"parley/journal"
)

// SuspendOrg suspends an organization until ResumeOrg: its webhooks begin no more
// attempts, and pending jobs are kept. Rejecting its requests and ending its streams
// is up to the HTTP layer.
func (n *Node) SuspendOrg(ctx context.Context, id parley.OrgID) (*org.State, error) {
	suspended, err := n.SetTerms(ctx, id, org.Suspend{})
	if err != nil {
		return nil, err
	}
	return suspended, n.Agents(ctx, id, func(a *agent.State) bool {
		for _, hook := range n.dispatch.webhooksOf(a.AgentID()) {
			n.courier.Drop(hook)
		}
		return true
	})
}

// ResumeOrg ends a suspension. Webhooks continue with their pending jobs.
func (n *Node) ResumeOrg(ctx context.Context, id parley.OrgID) (*org.State, error) {
	return n.SetTerms(ctx, id, org.Resume{})
}

// Orgs are organizations in an order that stays, those beyond the one with the
// slug after, at most limit of them, and whether there are more.
func (n *Node) Orgs(ctx context.Context, after string, limit int) (page []*org.State, more bool, err error) {
	var ids []parley.OrgID
	err = n.view(ctx, func(v journal.View) error {
		slot, beyond := parley.Slot(0), []byte(nil)
		if after != "" {
			slot, beyond = parley.SlotOf(after), []byte(after)
		}
		for ; slot < parley.Slots && len(ids) <= limit; slot++ {
			err := v.Rows(slot, journal.SlugTable, nil, beyond, false, func(_, value []byte) bool {
				ids = append(ids, parley.IDFromBytes[parley.OrgID](value))
				return len(ids) <= limit
			})
			if beyond = nil; err != nil {
				return err
			}
		}
		return nil
	})
	for _, id := range ids[:min(len(ids), limit)] {
		o, unknown := n.Org(ctx, id)
		if err = errors.Join(err, unknown); err != nil {
			return nil, false, err
		}
		page = append(page, o)
	}
	return page, len(ids) > limit, err
}

// paused reports whether a webhook is to begin nothing, because its organization
// is suspended. It is woken when that is over.
func (n *Node) paused(s *webhook.State) (bool, error) {
	suspended, err := n.suspended(s.Owner())
	if err != nil || !suspended {
		return false, err
	}
	// Who resumed it before it was parked did not wake it.
	return n.dispatch.park(s.Owner(), s.Watched(), func() (bool, error) { return n.suspended(s.Owner()) })
}

func (n *Node) suspended(id parley.OrgID) (bool, error) {
	o, err := n.facts.org(context.Background(), id)
	if errors.Is(err, parley.ErrNotFound) {
		return false, nil
	}
	return n.suspends(o), err
}
