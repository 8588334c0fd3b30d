package membership

import (
	"context"

	"parley/client/parley"
)

var errDamaged = parley.Refuse(parley.Unavailable, "damaged", "A file of the data directory is damaged.")

// trouble returns why this node should not lead, nil if it may: it is draining, its disk takes no
// writes, a file is damaged, or its clock, which would date messages and end votes, is wrong.
func (p *Part) trouble() *parley.Refusal {
	switch {
	case p.draining.Load():
		return errDraining
	case p.store.Damage() != "":
		return errDamaged
	case p.clocks.Wrong():
		return errClock
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
	to, err := p.readyOther(ctx)
	if to == 0 || err != nil {
		return
	}
	p.Logger.Warn("the node hands over its leadership", "to", to.String(), "reason", trouble.Error())
	if err := p.node.HandOver(ctx, uint64(to)); err != nil {
		p.Logger.Warn("the leadership is not handed over", "error", err)
	}
}
