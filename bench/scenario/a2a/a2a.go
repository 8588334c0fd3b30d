// Package a2a is the scenario that calls agents over the A2A bridge and subscribes to their tasks.
package a2a

import (
	"context"
	"errors"
	"fmt"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
	"parley/client/api"
)

const (
	// Turns is how many windows each of the two calls gets, in turn. Each takes that
	// part of the duration of a run, so that a moment in which the machine is slow hits
	// both.
	Turns = 4
	// taskTextMax bounds the text of a task: longer parts do not fit into a payload.
	taskTextMax = 98_000
)

// Names of the figures and parts of a run of A2A. docs/benchmarks.md says what they mean.
const (
	FigureSync              = "sync_per_second"
	FigureA2A               = "a2a_per_second"
	FigureA2AOfSync         = "a2a_of_sync"
	FigureSyncCPU           = "sync_us_per_call"
	FigureA2ACPU            = "a2a_us_per_call"
	FigureSubscriptions     = "subscriptions"
	FigureSubscriptionBytes = "bytes_per_subscription"
	FigureSubscriptionLive  = "live_bytes_per_subscription"
	FigureLastEnd           = "last_end_ms"
	FigureLastEndAfter      = "last_end_after_201_ms"

	PartSync = "messages/sync: to the reply"
	PartA2A  = "SendMessage: to the reply"
	PartEnd  = "subscriptions: end of a task after its reply was sent"
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
	if err := errors.Join(a.bridged(ctx, plan.Clients), a.host.FreshTokens(ctx)); err != nil {
		return fmt.Errorf("%s: no agents that are reachable over A2A: %w", a.host.Name(), err)
	}
	window, meter := r.Bench.Begin(ctx), r.Bench.Meter()
	plan.Duration /= Turns
	plan.WarmUp /= Turns
	plan.Overtime = plan.Duration
	prepare := [2]func(context.Context, int) (load.Dial, error){a.sync, a.Prepare}
	sums, _, err := host.InTurn(ctx, plan, meter, Turns, prepare, window, func(int) error { return a.host.FreshTokens(ctx) })
	if err != nil {
		return err
	}
	synced, called := &sums[0], &sums[1]
	called.Fill(run)
	run.Figures = map[string]float64{FigureSyncCPU: synced.CPUPerOperation(), FigureA2ACPU: called.CPUPerOperation()}
	host.Compare(run.Figures, sums, FigureSync, FigureA2A, FigureA2AOfSync)
	run.Parts = map[string]result.Latency{PartSync: synced.Latency.Latency(), PartA2A: called.Latency.Latency()}
	run.Failures += synced.Failures
	for reason, n := range synced.Reasons {
		host.AddReason(run, "sync: "+reason, n)
	}
	return nil
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
		_, err := a.Org.Client.Agents.PutCard(ctx, api.PutCard{
			ID: a.ID, Name: "Responder", Description: "Answers the tasks of the bench.", Extension: &api.PutCardExtension{A2AEnabled: true},
		})
		return err
	})
}

// errA2A is the error of an answer that is not one of A2A.
var errA2A = errors.New("wrong answer: not a response of JSON-RPC")
