package membership

import (
	"context"

	"parley"
)

var errDamaged = parley.Refuse(parley.Unavailable, "damaged", "A file of the data directory is damaged.")

// trouble returns why this node should not lead, nil if it may: its disk takes no writes, or a
// file is damaged.
func (p *Part) trouble() *parley.Refusal {
	if p.store.Damage() != "" {
		return errDamaged
	}
	return p.store.Trouble()
}

// yield hands the leadership to a node that is ready, if this node leads although it should
// not. If no other node is ready either, this one goes on: it still answers reads.
func (p *Part) yield(ctx context.Context) {
	trouble := p.trouble()
	if trouble == nil || !p.member.Leads() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, handTimeout)
	defer cancel()
	s, err := p.Status(ctx)
	if err != nil {
		return
	}
	for _, n := range s.Nodes {
		if n.Self || n.State != "ready" {
			continue
		}
		p.Logger.Warn("the node hands over its leadership", "to", n.ID.String(), "reason", trouble.Error())
		if err := p.node.HandOver(ctx, uint64(n.ID)); err != nil {
			p.Logger.Warn("the leadership is not handed over", "error", err)
		}
		return
	}
}
