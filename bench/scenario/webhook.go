package scenario

import (
	"context"
	"fmt"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
	"parley/client/api"
)

const (
	// hangingShare is the share of the targets that never answer in the second part;
	// hangingRate is the rate of messages per second in that part.
	hangingShare = 0.01
	hangingRate  = 1000
	// webhookTurns is how many windows the agents without and those with a webhook get.
	webhookTurns = 2
	// deliveryWait bounds the wait for missing deliveries.
	deliveryWait = 30 * time.Second
	// deliveryPause is the pause between two checks for deliveries.
	deliveryPause = 10 * time.Millisecond
	// drainLeast is the minimum number of deliveries after the last 201 for a rate to be
	// computed.
	drainLeast = 1000
)

// Names of the figures and parts of a run of Webhook. docs/benchmarks.md says what they mean.
const (
	FigureWithout       = "without_webhook_per_second"
	FigureWith          = "with_webhook_per_second"
	FigureWithOfWithout = "with_of_without_webhook"
	FigureDelivered     = "webhook_deliveries_per_second"
	FigureDrained       = "drain_per_second"
	FigureDeliveryCPU   = "us_per_delivery"
	FigureDrainTime     = "webhook_drain_ms"
	FigureAgain         = "delivered_again"
	FigureHangingP99    = "beside_hanging_p99_ms"

	PartDelivery = "full load: delivery after the 201"
	PartHanging  = "while 1 % hang: delivery after the 201"
)

// webhook is Webhook.
type webhook struct {
	host *host.Host
	// sink is nil until the agents have their webhooks.
	sink *sink
	// without and with are the agents without and with a webhook.
	without, with []*host.Agent
	// answering holds the agents with a webhook whose targets answer: all, or all but the first.
	answering []*host.Agent
	// patience bounds the wait for deliveries that do not arrive.
	patience time.Duration
}

// Run implements Scenario. It sends to agents without and with a webhook in turn, as many
// messages as the target accepts, and then at a fixed rate while some targets hang. It waits for
// all deliveries. The window is the last turn with webhooks.
func (w *webhook) Run(ctx context.Context, r *host.Round) error {
	if err := w.createAgents(ctx); err != nil {
		return fmt.Errorf("%s: no webhooks: %w", w.host.Name(), err)
	}
	if err := w.heal(ctx); err != nil {
		return fmt.Errorf("%s: targets that hang stay: %w", w.host.Name(), err)
	}
	plan, run := r.Plan, r.Result
	window, meter := r.Bench.Begin(ctx), r.Bench.Meter()
	var t deliveries
	parts := map[string]*load.Histogram{PartDelivery: load.NewHistogram(), PartHanging: load.NewHistogram()}
	after := func(i int) error {
		if i == 0 {
			return nil
		}
		cpu := meter.CPU()
		if err := w.awaitDeliveries(ctx); err != nil {
			return err
		}
		c := w.sink.summarize()
		t.add(c, meter.CPU()-cpu)
		for _, wait := range c.waits {
			parts[PartDelivery].Record(wait)
		}
		return nil
	}
	prepare := [2]func(context.Context, int) (load.Dial, error){w.prepare(&w.without), w.prepare(&w.with)}
	sums, last, err := host.InTurn(ctx, plan, meter, webhookTurns, prepare, window, after)
	if err != nil {
		return err
	}
	last.Fill(run)
	run.Figures = t.figures()
	host.Compare(run.Figures, sums, FigureWithout, FigureWith, FigureWithOfWithout)
	if err := w.besideHanging(ctx, plan, meter, parts[PartHanging]); err != nil {
		return err
	}
	run.Figures[FigureHangingP99] = parts[PartHanging].Quantile(99).Seconds() * 1e3
	run.Parts = map[string]result.Latency{}
	for name, part := range parts {
		run.Parts[name] = part.Latency()
	}
	return nil
}

// deliveries sums the deliveries of several turns.
type deliveries struct {
	came, again, after int
	// under is the time in which all deliveries arrived, afterTime the time in which those
	// after the last 201 did, and longest the longest such time of a turn.
	under, afterTime, longest time.Duration
	// cpu is the target's processor time after the last 201.
	cpu time.Duration
}

// add adds a turn after whose last 201 the target used cpu.
func (t *deliveries) add(c summary, cpu time.Duration) {
	t.again += c.again
	if c.came == 0 {
		return
	}
	afterTime := max(0, c.last-c.lastAnswer)
	t.longest = max(t.longest, afterTime)
	t.came, t.under = t.came+c.came, t.under+c.last-c.firstAnswer
	if c.after >= drainLeast {
		t.after, t.afterTime, t.cpu = t.after+c.after, t.afterTime+afterTime, t.cpu+cpu
	}
}

func (t *deliveries) figures() map[string]float64 {
	figures := map[string]float64{FigureDrainTime: t.longest.Seconds() * 1e3, FigureAgain: float64(t.again)}
	if t.under > 0 {
		figures[FigureDelivered] = float64(t.came) / t.under.Seconds()
		figures[FigureDrained] = figures[FigureDelivered]
	}
	if t.afterTime > 0 {
		figures[FigureDrained] = float64(t.after) / t.afterTime.Seconds()
		figures[FigureDeliveryCPU] = t.cpu.Seconds() * 1e6 / float64(t.after)
	}
	return figures
}

// besideHanging measures deliveries while some targets hang. The hanging targets get
// messages like all others.
func (w *webhook) besideHanging(ctx context.Context, plan load.Plan, meter host.Meter, into *load.Histogram) error {
	if err := w.hang(ctx); err != nil {
		return err
	}
	// The warm-up makes sure that the server already knows that these targets hang.
	plan.Rate, plan.WarmUp = hangingRate, max(plan.WarmUp, plan.Duration/2)
	dial, err := w.prepare(&w.with)(ctx, plan.Clients)
	if err != nil {
		return err
	}
	meter.Settle(ctx)
	if _, err := load.Run(ctx, plan, dial, nil); err != nil {
		return err
	}
	if err := w.awaitDeliveries(ctx); err != nil {
		return err
	}
	for _, wait := range w.sink.summarize().waits {
		into.Record(wait)
	}
	return nil
}

// prepare returns the preparation of sends to some agents.
func (w *webhook) prepare(to *[]*host.Agent) func(context.Context, int) (load.Dial, error) {
	return func(ctx context.Context, _ int) (load.Dial, error) {
		w.sink.forget()
		return w.sendingTo(*to), w.host.FreshTokens(ctx)
	}
}

// createAgents creates the agents, once, and the webhooks of half of them.
func (w *webhook) createAgents(ctx context.Context) (err error) {
	if w.sink != nil {
		return nil
	}
	h, count := w.host, w.host.Params.Hooks
	h.Note("making %d webhooks", count)
	if w.without, err = h.Deployment.Agents(ctx, h.Deployment.ReceivingOrg, "barer-%06d", 0, count); err != nil {
		return err
	}
	if w.with, err = h.Deployment.Agents(ctx, h.Deployment.ReceivingOrg, "hooks-%06d", 0, count); err != nil {
		return err
	}
	if w.sink, err = openSink(); err != nil {
		return err
	}
	if err := w.aim(ctx, w.with, taking); err != nil {
		w.close()
		return err
	}
	w.answering = w.with
	return nil
}

// close closes the targets.
func (w *webhook) close() {
	if w.sink != nil {
		w.sink.close()
		w.sink = nil
	}
}

// aim creates webhooks for agents, each with its own target.
func (w *webhook) aim(ctx context.Context, agents []*host.Agent, path string) error {
	return host.Concurrently(ctx, host.SetupCalls, len(agents), func(ctx context.Context, i int) error {
		a := agents[i]
		_, err := a.Org.Client.Webhooks.Create(ctx, api.CreateWebhook{AgentID: a.ID, URL: w.sink.base + path + a.ID.String()})
		return err
	})
}

// hang makes the targets of the first agents hang.
func (w *webhook) hang(ctx context.Context) error {
	n := max(1, int(hangingShare*float64(len(w.with))))
	if n == len(w.with) {
		return nil
	}
	if err := w.turnTo(ctx, w.with[:n], hanging); err != nil {
		return err
	}
	w.answering = w.with[n:]
	return nil
}

// heal makes all targets answer again, so that each run begins like the first.
func (w *webhook) heal(ctx context.Context) error {
	if err := w.turnTo(ctx, w.with[:len(w.with)-len(w.answering)], taking); err != nil {
		return err
	}
	w.answering = w.with
	return nil
}

// turnTo gives agents other targets by replacing their webhooks.
func (w *webhook) turnTo(ctx context.Context, agents []*host.Agent, path string) error {
	for _, a := range agents {
		all, err := a.Org.Client.Webhooks.List(ctx, api.ListWebhooks{AgentID: &a.ID})
		if err != nil {
			return err
		}
		for _, hook := range all {
			if err := a.Org.Client.Webhooks.Delete(ctx, hook.ID); err != nil {
				return err
			}
		}
	}
	return w.aim(ctx, agents, path)
}

// awaitDeliveries waits for the delivery of every acknowledged message whose target answers.
func (w *webhook) awaitDeliveries(ctx context.Context) error {
	lost, err := w.missingDeliveries(ctx)
	if err == nil && lost > 0 {
		due := lost + w.sink.summarize().came
		err = fmt.Errorf("of %d messages to agents with a webhook %d were not delivered within %v", due, lost, w.patience)
	}
	return err
}

// missingDeliveries waits likewise and returns how many deliveries are missing when patience ends.
func (w *webhook) missingDeliveries(ctx context.Context) (lost int, err error) {
	_, err = host.Poll(ctx, w.patience, deliveryPause, func() (bool, error) {
		lost = w.sink.waiting()
		return lost == 0, nil
	})
	return lost, err
}

// sendingTo returns a Dial for clients that send to agents. It records the messages whose delivery
// must arrive: those to agents whose target answers.
func (w *webhook) sendingTo(to []*host.Agent) load.Dial {
	h := w.host
	answering := make(map[*host.Agent]bool, len(w.answering))
	for _, a := range w.answering {
		answering[a] = true
	}
	return h.Clients(func(c *host.Client, _ *load.Parts) error {
		agent := to[c.Choice.IntN(len(to))]
		m, err := c.Send(h.Deployment.Senders[c.Worker%len(h.Deployment.Senders)], agent, c.Key)
		if err == nil && answering[agent] {
			w.sink.accepted(m.ID)
		}
		return err
	})
}
