// Package a2a is the scenario that calls agents over the A2A bridge and subscribes to their tasks.
package a2a

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
	"parley/client/api"
)

const (
	// A2aTurns is how many windows each of the two calls gets, in turn. Each takes that
	// part of the duration of a run, so that a moment in which the machine is slow hits
	// both.
	A2aTurns = 4
	// taskTextMax bounds the text of a task: longer parts do not fit into a payload.
	taskTextMax = 98_000
)

// Names of the figures and laps of a run of A2A.
const (
	// FigureSync and FigureA2A are the calls per second of POST /messages/sync and of
	// SendMessage, both through to the reply and in turn. FigureA2AOfSync is the ratio of
	// the second to the first.
	FigureSync      = "sync_per_second"
	FigureA2A       = "a2a_per_second"
	FigureA2AOfSync = "a2a_of_sync"
	// FigureSyncCPU and FigureA2ACPU are the target's processor time for a call, in
	// microseconds, that of the answering agent's requests included.
	FigureSyncCPU = "sync_us_per_call"
	FigureA2ACPU  = "a2a_us_per_call"
	// FigureSubscriptions is how many streams of tasks were open at once.
	FigureSubscriptions = "subscriptions"
	// FigureSubscriptionBytes is the growth of the target's resident memory per stream,
	// FigureSubscriptionLive that of its heap and its stacks after a collection.
	FigureSubscriptionBytes = "bytes_per_subscription"
	FigureSubscriptionLive  = "live_bytes_per_subscription"
	// FigureLastEnd is the time from the sending of the first reply to the arrival of the
	// last end of a task, FigureLastEndAfter that from the last 201.
	FigureLastEnd      = "last_end_ms"
	FigureLastEndAfter = "last_end_after_201_ms"

	LapSync = "messages/sync: to the reply"
	LapA2A  = "SendMessage: to the reply"
	LapEnd  = "subscriptions: end of a task after its reply was sent"
)

// Scenario is A2A. Its agents are not in the deployment's mailboxes, because what they send is not read back:
// the payloads of tasks are not those of the bench.
type Scenario struct {
	host *host.Host
	// sync prepares Sync.
	sync func(ctx context.Context, clients int) (load.Dial, error)
	// callers begin tasks of responders, each of the one in the same place.
	callers, responders []*host.Agent
	// subscribing are pairs of an agent that begins tasks and the one that answers them.
	subscribing [][2]*host.Agent
}

func New(h *host.Host, sync func(ctx context.Context, clients int) (load.Dial, error)) *Scenario {
	return &Scenario{host: h, sync: sync}
}

// Run implements Scenario. First it calls agents by POST /messages/sync and by SendMessage in
// turn, each through to the reply of the same kind of agent. The window is the last turn of
// SendMessage. Then it begins tasks, restarts the server, because memory left by the calls would
// make streams appear smaller, and subscribes to the tasks.
func (a *Scenario) Run(ctx context.Context, r *host.Round) error {
	if a.host.Params.Payload > taskTextMax {
		return fmt.Errorf("a task takes a text of at most %d characters", taskTextMax)
	}
	if err := a.calls(ctx, r); err != nil {
		return err
	}
	r.CPUPerOperation = r.Result.Figures[FigureA2ACPU]
	n := r.Bench.Limit(a.host.Params.Subscriptions, "subscriptions")
	a.host.Note("beginning %d tasks and subscribing to them", n)
	tasks, err := a.beginTasks(ctx, n)
	if err != nil {
		return err
	}
	if _, err := r.Bench.Restart(ctx); err != nil {
		return err
	}
	return a.subscribe(ctx, tasks, r.Bench.Meter(), r.Result)
}

// calls measures the two kinds of calls.
func (a *Scenario) calls(ctx context.Context, r *host.Round) error {
	plan, run := r.Plan, r.Result
	if err := a.bridged(ctx, plan.Clients); err != nil {
		return fmt.Errorf("%s: no agents that are reachable over A2A: %w", a.host.Name(), err)
	}
	window, meter := r.Bench.Begin(ctx), r.Bench.Meter()
	plan.Duration /= A2aTurns
	plan.WarmUp /= A2aTurns
	plan.Overtime = plan.Duration
	var synced, called turns
	for n := range A2aTurns {
		if err := a.callTurn(ctx, a.sync, plan, &costWatch{meter: meter}, &synced); err != nil {
			return err
		}
		watch := &costWatch{meter: meter}
		if n == A2aTurns-1 {
			watch.next = window
		}
		if err := a.callTurn(ctx, a.Prepare, plan, watch, &called); err != nil {
			return err
		}
	}
	called.all.Fill(run)
	run.Figures = map[string]float64{
		FigureSync: synced.all.PerSecond(), FigureA2A: called.all.PerSecond(),
		FigureSyncCPU: synced.perCall(), FigureA2ACPU: called.perCall(),
	}
	if run.Figures[FigureSync] > 0 {
		run.Figures[FigureA2AOfSync] = run.Figures[FigureA2A] / run.Figures[FigureSync]
	}
	run.Laps = map[string]result.Latency{LapSync: synced.all.Latency.Latency(), LapA2A: called.all.Latency.Latency()}
	run.Failures += synced.all.Failures
	for reason, n := range synced.all.Reasons {
		host.AddReason(run, "sync: "+reason, n)
	}
	return nil
}

// callTurn measures one window of one of the two calls.
func (a *Scenario) callTurn(ctx context.Context, prepare func(context.Context, int) (load.Dial, error), plan load.Plan, watch *costWatch, into *turns) error {
	if err := a.host.FreshTokens(ctx); err != nil {
		return err
	}
	dial, err := prepare(ctx, plan.Clients)
	if err != nil {
		return err
	}
	watch.meter.Settle(ctx)
	m, err := load.Run(ctx, plan, dial, watch)
	if m != nil {
		into.add(m, watch.spent)
	}
	return err
}

// turns sums the windows of one call.
type turns struct {
	all   *load.Measurement
	spent time.Duration
}

func (t *turns) add(m *load.Measurement, spent time.Duration) {
	t.spent += spent
	if t.all == nil {
		t.all = m
		return
	}
	t.all.Add(m)
}

func (t *turns) perCall() float64 {
	if t.all.Operations == 0 {
		return 0
	}
	return float64(t.spent.Microseconds()) / float64(t.all.Operations)
}

// costWatch measures the target's processor time in a window. next, if not nil, observes
// the window too.
type costWatch struct {
	meter         host.Meter
	next          load.Watch
	before, spent time.Duration
}

// Begin implements load.Watch.
func (w *costWatch) Begin() {
	w.before = w.meter.CPU()
	if w.next != nil {
		w.next.Begin()
	}
}

// Tick implements load.Watch.
func (w *costWatch) Tick(second result.Second) {
	if w.next != nil {
		w.next.Tick(second)
	}
}

// End implements load.Watch.
func (w *costWatch) End() {
	w.spent = w.meter.CPU() - w.before
	if w.next != nil {
		w.next.End()
	}
}

// bridged makes sure that there are n agents that call, and n that are reachable over A2A.
func (a *Scenario) bridged(ctx context.Context, n int) error {
	have, w := len(a.callers), a.host.Deployment
	if n <= have {
		return nil
	}
	callers, err := w.Create(ctx, w.SendingOrg, "caller-%d", have, n-have)
	if err != nil {
		return err
	}
	responders, err := w.Create(ctx, w.ReceivingOrg, "responder-%d", have, n-have)
	if err != nil {
		return err
	}
	if err := enable(ctx, responders); err != nil {
		return err
	}
	a.callers, a.responders = append(a.callers, callers...), append(a.responders, responders...)
	return nil
}

// enable publishes the cards by which agents become reachable over A2A.
func enable(ctx context.Context, agents []*host.Agent) error {
	return host.Concurrently(ctx, host.SetupCalls, len(agents), func(ctx context.Context, i int) error {
		a := agents[i]
		_, err := a.Org.Client.PutCard(ctx, api.PutCard{
			ID: a.ID, Name: "Responder", Description: "Answers the tasks of the bench.", Extension: &api.PutCardExtension{A2AEnabled: true},
		})
		return err
	})
}

// errA2A is the error of an answer that is not one of A2A.
var errA2A = errors.New("wrong answer: not a response of JSON-RPC")
