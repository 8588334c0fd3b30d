package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
	"parley/client/api"
)

const (
	// erasedSample is about how many messages of an erased organization, and how many of its
	// agents, are asked for afterwards.
	erasedSample = 1000
	// erasedPolls is how many workers are polled afterwards. A server allows an address 60
	// polls a minute.
	erasedPolls = 16
	// eraseLongest is longer than any erasure.
	eraseLongest = 24 * time.Hour
)

// erase is Erase: an organization that is erased while others send.
type erase struct {
	set    *Set
	org    *host.Org
	agents []*host.Agent
	log    host.Log
	next   atomic.Int64
	// polls are the poll tokens of the first workers.
	polls   []string
	erasure *api.Erasure
}

// errErased ends the load of others.
var errErased = errors.New("the organization is erased")

// Run implements Scenario. It stores the messages of an organization, and erases it while others
// send as planned, as they did for the duration of the plan before.
func (e *erase) Run(ctx context.Context, r *host.Round) error {
	h, run := e.set.Host, r.Result
	if err := e.register(ctx); err != nil {
		return err
	}
	stored := int64(h.Params.Messages)
	filled, err := inParts(ctx, h, "messages", run.Clients, stored, func(int64) (load.Dial, error) { return e.fill(ctx) }, func() error { return e.settle(stored) })
	if err != nil {
		return err
	}
	window, meter := r.Bench.Begin(ctx), r.Bench.Meter()
	meter.Settle(ctx)
	before, err := e.others(ctx, r.Plan, nil)
	if err != nil {
		return err
	}
	under, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begun := &opened{Watch: window, begun: make(chan struct{})}
	var took time.Duration
	go func() {
		select {
		case <-begun.begun:
		case <-under.Done():
			return
		}
		began := time.Now()
		parsed, err := e.org.Client.Org.Erase(ctx, e.org.Credentials.OrgID)
		if e.erasure, took = parsed, time.Since(began); err == nil {
			err = errErased
		}
		cancel(err)
	}()
	plan := r.Plan
	plan.Duration = eraseLongest
	during, err := e.others(under, plan, begun)
	if !errors.Is(err, errErased) {
		return fmt.Errorf("the erasure: %w", err)
	}
	during.Fill(run)
	earlier := before.Latency.Latency()
	run.Parts = map[string]result.Latency{"others before the erasure": earlier, "others during the erasure": run.Latency}
	run.Figures = map[string]float64{
		"fill_per_second": filled.PerSecond(), "erase_seconds": took.Seconds(),
		"agents": float64(e.erasure.AgentsDeleted), "messages": float64(e.erasure.MessagesDeleted),
	}
	if earlier.P99 > 0 {
		run.Figures["p99_of_before"] = run.Latency.P99 / earlier.P99
	}
	return e.verify(ctx)
}

// others lets others send.
func (e *erase) others(ctx context.Context, plan load.Plan, window load.Watch) (*load.Measurement, error) {
	dial, err := e.set.Prepare(ctx, Send, plan.Clients)
	if err != nil {
		return nil, err
	}
	m, err := load.Run(ctx, plan, dial, window)
	if settled := e.set.SettleUnmeasured(); settled != nil {
		err = settled
	}
	return m, err
}

// Kinds of the messages of an erased organization, as numbers in their keys: between its
// agents, from them to workers, and from workers to them.
const (
	kindOwn = iota
	kindSent
	kindReceived
	erasedKinds
)

// register creates the organization that will be erased, with its agents.
func (e *erase) register(ctx context.Context) (err error) {
	h := e.set.Host
	h.Note("creating an organization of %d agents", h.Params.Members)
	if e.org, err = h.Deployment.Register(ctx, fmt.Sprintf("initech-%d-%s", h.NextRun(), h.Deployment.ReceivingOrg.Credentials.OrgSlug)); err != nil {
		return err
	}
	if e.agents, err = h.Deployment.Create(ctx, e.org, "clerk-%d", 0, h.Params.Members); err != nil {
		return err
	}
	e.log, e.polls = host.Log{}, nil
	for _, worker := range h.Deployment.Recipients[:min(erasedPolls, len(h.Deployment.Recipients))] {
		made, err := worker.Org.Client.Agents.PollToken(ctx, worker.ID)
		if err != nil {
			return err
		}
		e.polls = append(e.polls, made.PollURL[strings.LastIndexByte(made.PollURL, '/')+1:])
	}
	return nil
}

// fill prepares messages of the organization that will be erased: a third between
// its agents, a third from them to workers, and a third from workers to them. Each begins a
// conversation.
func (e *erase) fill(ctx context.Context) (load.Dial, error) {
	h := e.set.Host
	if err := h.FreshTokens(ctx); err != nil {
		return nil, err
	}
	if err := e.org.FreshToken(ctx); err != nil {
		return nil, err
	}
	own, workers := e.agents, h.Deployment.Recipients
	return h.ClientsInto(&e.log, func(c *host.Client, _ *load.Parts) error {
		at := c.Choice.IntN(len(own))
		from, to := own[at], workers[c.Choice.IntN(len(workers))]
		c.Key.Kind = uint8((e.next.Add(1) - 1) % erasedKinds)
		switch c.Key.Kind {
		case kindOwn:
			to = own[(at+1+c.Choice.IntN(len(own)-1))%len(own)]
		case kindReceived:
			from, to = to, from
		}
		_, err := c.Send(from, to, c.Key)
		return err
	}), nil
}

// settle collects the answers to a part of the messages, of messages in all.
func (e *erase) settle(messages int64) error {
	if twice := e.log.Settle(int(max(1, messages/erasedSample))); twice > 0 {
		return fmt.Errorf("%d messages got an id that another has", twice)
	}
	return nil
}

// verify checks the counts of the erasure, what verifyGone checks, and that the workers have the
// acknowledged messages of others only. Their messages must have been kept, see Params.Keep.
func (e *erase) verify(ctx context.Context) error {
	want := api.Erasure{
		OrgID: e.org.Credentials.OrgID, ErasedAt: e.erasure.ErasedAt, AgentsDeleted: int64(len(e.agents)),
		MessagesDeleted: e.log.Count, ConversationsDeleted: e.log.Count,
	}
	if *e.erasure != want {
		return fmt.Errorf("the erasure counts %+v, want %+v", *e.erasure, want)
	}
	if err := e.verifyGone(ctx); err != nil {
		return err
	}
	return e.verifyPolls(ctx)
}

// verifyGone checks that a sample of what was erased is gone for those who had access.
func (e *erase) verifyGone(ctx context.Context) error {
	h := e.set.Host
	if err := h.FreshTokens(ctx); err != nil {
		return err
	}
	type read struct {
		path, token string
		want        int
	}
	reads := []read{{"/org", e.org.Token, http.StatusUnauthorized}}
	for _, one := range e.log.Entries {
		want := http.StatusGone
		if one.Key.Kind == kindOwn { // workers never had access
			want = http.StatusNotFound
		}
		reads = append(reads, read{"/messages/" + one.ID.String(), h.Deployment.ReceivingOrg.Token, want})
	}
	for i := 0; i < len(e.agents); i += max(1, len(e.agents)/erasedSample) {
		reads = append(reads, read{"/agents/" + e.agents[i].ID.String(), h.Deployment.ReceivingOrg.Token, http.StatusGone})
	}
	return h.OnConnections(ctx, host.VerifyReaders, len(reads), func(c *host.Caller, i int) error {
		answer, err := c.Conn.Call("GET", reads[i].path, reads[i].token, nil, nil)
		if err == nil && answer.Status != reads[i].want {
			err = fmt.Errorf("GET %s after the erasure: status %d, want %d", reads[i].path, answer.Status, reads[i].want)
		}
		return err
	})
}

// verifyPolls compares the counts of polls with the messages that others sent.
func (e *erase) verifyPolls(ctx context.Context) error {
	h := e.set.Host
	counts := map[uint32]int{}
	for _, one := range h.Log.Entries {
		counts[one.Mailbox]++
	}
	lost := len(h.Log.Unknown)
	for i, token := range e.polls {
		worker := h.Deployment.Recipients[i]
		n, err := worker.Org.Client.Agents.Poll(ctx, api.Poll{Token: token})
		if err != nil {
			return err
		}
		if want := counts[worker.Mailbox]; n < want || n > want+lost {
			return fmt.Errorf("a poll of %s counts %d messages after the erasure, others sent %d", worker.Handle, n, want)
		}
	}
	return nil
}
