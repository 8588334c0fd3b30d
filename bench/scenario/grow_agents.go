package scenario

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
)

// ringRounds is how often each active agent sends, and receives, before memory is measured.
const ringRounds = 2

// growAgents is GrowAgents. Each run creates agents up to the next size.
type growAgents struct {
	host   *host.Host
	unborn []*host.Agent // workers that are being created
}

// Run implements Scenario. It measures the creation of agents, and what their number costs: idle,
// and while some of them exchange messages. It also measures the last size after a restart, when
// memory holds only what is needed.
func (g *growAgents) Run(ctx context.Context, r *host.Round) error {
	h, run := g.host, r.Result
	run.Figures = map[string]float64{}
	window, meter := r.Bench.Begin(ctx), r.Bench.Meter()
	window.Begin()
	sum, err := inParts(ctx, h, "agents", run.Clients, run.Size-int64(len(h.Deployment.Recipients)), func(part int64) (load.Dial, error) {
		return g.creations(ctx, len(h.Deployment.Recipients)+int(part))
	}, g.settle)
	window.End()
	sum.Fill(run)
	if err != nil {
		return err
	}
	last := run.Size >= h.Params.Grow
	if last && h.Params.Rest > 0 {
		h.Note("resting for %v, so that agents that are not active may leave memory", h.Params.Rest)
		if err := host.SleepUntil(ctx, time.Now().Add(h.Params.Rest)); err != nil {
			return err
		}
	}
	meter.Settle(ctx)
	run.Resident = meter.Resident()
	began := time.Now()
	if err := g.exchange(ctx, run.Clients); err != nil {
		return err
	}
	run.Figures["active_seconds"] = time.Since(began).Seconds()
	run.Figures["resident_active_bytes"] = float64(meter.Resident())
	run.Figures["active_agents"] = float64(min(h.Params.Active, len(h.Deployment.Recipients)))
	fillDisk(run, meter, "agent", run.Size)
	if !last {
		return nil
	}
	if err := restarts(ctx, r); err != nil {
		return err
	}
	err = g.exchange(ctx, run.Clients)
	run.Figures["resident_restarted_bytes"] = float64(r.Bench.Meter().Resident())
	return err
}

// exchange makes the active agents send to each other in a ring.
func (g *growAgents) exchange(ctx context.Context, clients int) error {
	h := g.host
	active := min(h.Params.Active, len(h.Deployment.Recipients))
	dial, err := g.ring(ctx, active)
	if err != nil {
		return err
	}
	_, err = load.Run(ctx, load.Plan{Clients: min(clients, active), Operations: int64(active) * ringRounds}, dial, nil)
	if err == nil {
		err = h.SettleUnmeasured()
	}
	return err
}

// fillDisk sets the disk space that the server uses, and the bytes written per item for size
// items: space that the server preallocates for logs does not count for an item.
func fillDisk(run *result.Run, meter host.Meter, name string, size int64) {
	taken, written := meter.Disk()
	run.Figures["disk_bytes"] = float64(taken)
	if size > 0 {
		run.Figures["disk_bytes_per_"+name] = float64(written) / float64(size)
	}
}

// restarts measures a restart after SIGKILL under load, and one after SIGTERM.
func restarts(ctx context.Context, r *host.Round) error {
	took, err := r.Bench.Kill(ctx)
	if err != nil {
		return err
	}
	r.Result.Figures["restart_kill_seconds"] = took.Seconds()
	if took, err = r.Bench.Restart(ctx); err != nil {
		return err
	}
	r.Result.Figures["restart_term_seconds"] = took.Seconds()
	return nil
}

// creations prepares the creation of workers until there are upTo of them. Each
// operation of the clients creates one. settle adds them to the host.
func (g *growAgents) creations(ctx context.Context, upTo int) (load.Dial, error) {
	h, have := g.host, len(g.host.Deployment.Recipients)
	if upTo <= have {
		return nil, fmt.Errorf("%d agents are there already", have)
	}
	if err := h.FreshTokens(ctx); err != nil {
		return nil, err
	}
	g.unborn = make([]*host.Agent, upTo-have)
	unborn, left := g.unborn, make(chan int, upTo-have)
	for i := range unborn {
		left <- i
	}
	return h.Clients(func(c *host.Client, _ *load.Parts) error {
		select {
		case i := <-left:
			made, err := h.Deployment.CreateAgent(c.Conn, h.Deployment.ReceivingOrg, fmt.Sprintf("worker-%d", have+i))
			if unborn[i] = made; err != nil {
				left <- i
			}
			return err
		default:
			return load.Refused{Reason: "all agents were asked for already"}
		}
	}), nil
}

// settle adds the created workers to the host. All must have been created.
func (g *growAgents) settle() error {
	h := g.host
	for _, a := range g.unborn {
		if a == nil {
			return fmt.Errorf("%d agents were made, and not all that were asked for", len(h.Deployment.Recipients))
		}
		a.Mailbox = uint32(len(h.Deployment.Mailboxes))
		h.Deployment.Mailboxes = append(h.Deployment.Mailboxes, a)
		h.Deployment.Recipients = append(h.Deployment.Recipients, a)
	}
	g.unborn = nil
	h.Params.Agents = len(h.Deployment.Recipients)
	return nil
}

// ring prepares messages from each of the first active workers to the next one,
// and from the last to the first. As many operations as there are workers make all of
// them senders and recipients.
func (g *growAgents) ring(ctx context.Context, active int) (load.Dial, error) {
	h := g.host
	if err := h.FreshTokens(ctx); err != nil {
		return nil, err
	}
	next, workers := new(atomic.Int64), h.Deployment.Recipients[:active]
	return h.Clients(func(c *host.Client, _ *load.Parts) error {
		at := int(next.Add(1)-1) % active
		_, err := c.Send(workers[at], workers[(at+1)%active], c.Key)
		return err
	}), nil
}
