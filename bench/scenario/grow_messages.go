package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
)

// growMessages is GrowMessages. Each run stores messages up to the next size.
type growMessages struct {
	set *Set
	// lengthy is how many messages the long inbox has.
	lengthy atomic.Int64
}

// Run implements Scenario. It measures a server that stores as many messages: its sends, also in
// turn with an empty server, the pages of a long inbox, its disk and its restarts. It stores a tenth
// of the size at least, also if the sends at earlier sizes have passed it.
func (g *growMessages) Run(ctx context.Context, r *host.Round) error {
	h, run := g.set.Host, r.Result
	run.Figures = map[string]float64{}
	filled, err := inParts(ctx, h, "messages", run.Clients, max(run.Size-h.Stored(), run.Size/10), func(int64) (load.Dial, error) { return g.fill(ctx) }, h.SettleUnmeasured)
	if err != nil {
		return err
	}
	if filled.Operations > 0 {
		run.Figures["fill_per_second"] = filled.PerSecond()
	}
	run.Size = h.Stored()
	dial, err := g.set.Prepare(ctx, Send, run.Clients)
	if err != nil {
		return err
	}
	window, meter := r.Bench.Begin(ctx), r.Bench.Meter()
	m, err := load.Run(ctx, r.Plan, dial, window)
	if m == nil {
		return err
	}
	m.Fill(run)
	run.Resident = meter.Resident()
	h.Settle(run)
	if err == nil && run.Size > 0 {
		err = g.besideEmpty(ctx, r)
	}
	if err == nil {
		err = g.readPages(ctx, r)
	}
	if err != nil {
		return err
	}
	meter.Settle(ctx)
	fillDisk(run, meter, "message", h.Stored())
	return restarts(ctx, r)
}

// besideEmpty sends to the grown server and to a new one, in turn and within the same minutes: if
// the machine became slower while the messages were stored, it slows both.
func (g *growMessages) besideEmpty(ctx context.Context, r *host.Round) (err error) {
	params := g.set.Params
	params.Keep, params.Sample = false, 0
	empty, stop, err := r.Bench.Another(ctx, params)
	if err != nil {
		return fmt.Errorf("an empty server beside: %w", err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	sums, _, err := inTurn(ctx, r.Plan, r.Bench.Meter(), [2]*Set{setOf(empty), g.set}, nil)
	if err != nil {
		return err
	}
	host.Compare(r.Result.Figures, sums, "empty_beside_per_second", "beside_per_second", "of_empty")
	return nil
}

// readPages reads the first page of the long inbox and its deepest page in turn.
func (g *growMessages) readPages(ctx context.Context, r *host.Round) error {
	dial, depth, err := g.pageReads(ctx)
	if err != nil || depth == 0 {
		return err
	}
	r.Bench.Meter().Settle(ctx)
	m, err := load.Run(ctx, load.Plan{Clients: 1, Duration: r.Plan.Duration}, dial, nil)
	if err != nil {
		return err
	}
	var pages result.Run
	m.Fill(&pages)
	if pages.Failures > 0 {
		return fmt.Errorf("%d pages of the long inbox were wrong: %v", pages.Failures, pages.Reasons)
	}
	first, deep, figures := pages.Parts["first page"], pages.Parts["deep page"], r.Result.Figures
	figures["deep_page"] = float64(depth)
	figures["first_page_p50_ms"], figures["first_page_p99_ms"] = first.P50, first.P99
	figures["deep_page_p50_ms"], figures["deep_page_p99_ms"] = deep.P50, deep.P99
	return nil
}

// longShare is the number of messages of a fill per message for the long inbox, until
// that has enough pages.
const longShare = 4

// fill prepares messages to randomly chosen workers. A part of them goes to the first worker
// until its inbox has Params.Pages pages.
func (g *growMessages) fill(ctx context.Context) (load.Dial, error) {
	h := g.set.Host
	if err := h.FreshTokens(ctx); err != nil {
		return nil, err
	}
	run := h.NextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		c, err := h.Sender(ctx, worker)
		if err != nil {
			return nil, err
		}
		return &filling{
			Sender: c, choice: h.Choice(run, worker), agents: h.Params.Agents, key: host.Key{Run: run, Worker: uint32(worker)},
			lengthy: &g.lengthy, enough: int64(h.Params.Pages)*host.PageSize + 1,
		}, nil
	}, nil
}

// filling is a client of fill.
type filling struct {
	host.Sender
	choice  *rand.Rand
	agents  int
	key     host.Key
	lengthy *atomic.Int64
	enough  int64
}

// Do implements load.Client.
func (f *filling) Do(_ context.Context, n int, _ *load.Parts) error {
	f.key.N = uint32(n)
	long := n%longShare == 0 && f.lengthy.Load() < f.enough
	to := 0
	if !long {
		to = f.choice.IntN(f.agents)
	}
	err := f.Send(to, f.key)
	if err == nil && to == 0 {
		f.lengthy.Add(1)
	}
	return err
}

// walkPage is the largest page size, to reach a deep page sooner.
const walkPage = 100

// pageReads finds the deepest full page of the long inbox, at most Params.Pages deep, and prepares
// reading it and the first page in turn. depth is 0 if the inbox has no second page; then there
// is no dial.
func (g *growMessages) pageReads(ctx context.Context) (dial load.Dial, depth int, err error) {
	h := g.set.Host
	if depth = min(h.Params.Pages, int(g.lengthy.Load()/host.PageSize)); depth < 2 {
		return nil, 0, nil
	}
	if err := h.FreshTokens(ctx); err != nil {
		return nil, 0, err
	}
	c, err := h.Caller(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = c.Close() }()
	owner := h.Deployment.Recipients[0]
	base := "/agents/" + owner.ID.String() + "/messages?limit="
	cursor := ""
	for left := (depth - 1) * host.PageSize; left > 0; {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		size := host.PageSize
		if left >= walkPage {
			size = walkPage
		}
		if cursor, err = c.Step(base+strconv.Itoa(size)+cursor, owner, size); err != nil {
			return nil, 0, fmt.Errorf("%s: no deep page: %w", h.Name(), err)
		}
		left -= size
	}
	first := base + strconv.Itoa(host.PageSize)
	return h.Clients(func(c *host.Client, parts *load.Parts) error {
		path, part := first, "first page"
		if c.Key.N%2 == 1 {
			path, part = first+cursor, "deep page"
		}
		if err := c.ReadPage(path, owner); err != nil {
			return err
		}
		parts.Note(part, time.Since(parts.Intended()))
		return nil
	}), depth, nil
}
