// Package host has what scenarios share: a target with the organizations and agents of the bench
// on it, the connections and messages of clients, and the record of what was acknowledged, with
// which a verification compares what the target returns.
package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"time"

	"parley/bench/result"
	"parley/bench/target"
	"parley/bench/wire"
)

// Params are the parameters of the scenarios. Those with a help text are flags of the command.
type Params struct {
	Payload       int    `default:"1024" help:"Characters of encrypted_payload."`
	Agents        int    `default:"1000" help:"Recipients."`
	Senders       int    `default:"1" help:"Senders to them."`
	Streams       int    `default:"10000" help:"Streams that stream opens; the limit of open files bounds them."`
	Connections   int    `default:"4096" help:"Connections of overload; the limit of open files bounds them."`
	Members       int    `default:"1000" help:"Members of the group that fanout broadcasts to, and agents of the organization that erase erases."`
	Electors      int    `default:"10000" help:"Members of the group in which hotgroup votes."`
	Messages      int    `default:"1000000" help:"Messages of the agent that poll asks about, and of the organization that erase erases."`
	Hooks         int    `default:"1000" help:"Webhooks of webhook."`
	Cards         int    `default:"100000" help:"Cards of directory."`
	Subscriptions int    `default:"5000" help:"Streams of tasks that a2a opens; the limit of open files bounds them."`
	Kills         int    `default:"10" help:"How often failover kills the leader."`
	Seed          uint64 `default:"1" help:"Makes choices and payloads repeatable, and different from those of other runs."`

	Grow   int64         `placeholder:"N" help:"Largest size of grow-agents and grow-messages; default: 100000 agents, 1000000 messages. Each earlier size is a tenth of the next."`
	Active int           `default:"10000" help:"Agents that send and receive while grow-agents measures memory."`
	Rest   time.Duration `help:"How long grow-agents waits at the largest size, so that agents that are not active may leave memory."`
	Pages  int           `default:"10000" help:"How deep the inbox page is that grow-messages compares with the first, if there are as many."`

	// Tier is the trust tier that the operator sets for the organizations of the bench;
	// 0 leaves it unchanged.
	Tier int `kong:"-"`
	// Keep records all acknowledged messages, for Verify. Sample keeps one of this many instead; 0
	// keeps none.
	Keep   bool `kong:"-"`
	Sample int  `kong:"-"`
	// Note is called before long steps, such as the filling of inboxes; it may be nil.
	Note func(string) `kong:"-"`
}

// KeepEvery returns how many acknowledged messages there are per message that is kept.
func (p Params) KeepEvery() int {
	if p.Keep {
		return 1
	}
	return p.Sample
}

// Check rejects parameters that cannot be run. A number of 0 belongs to a scenario that is not
// run.
func (p Params) Check() error {
	for _, one := range []struct {
		what     string
		n        int
		least    int
		most     int
		required bool
	}{
		{"characters of payload", p.Payload, PayloadMin, 131_072, true},
		{"agents", p.Agents, 1, 9_999_999, true},
		{"senders", p.Senders, 1, 10_000, true},
		{"streams", p.Streams, 2, WorkersMax, false},
		{"connections", p.Connections, 1, WorkersMax - 1, false},
		{"subscriptions", p.Subscriptions, 1, 100_000, false},
		{"members", p.Members, 1, groupMost, false},
		{"electors", p.Electors, electorsLeast, groupMost, false},
		{"messages", p.Messages, 1, 1_000_000_000, false},
		{"webhooks", p.Hooks, 1, 999_999, false},
		{"cards", p.Cards, 100, 1_000_000, false},
		{"agents or messages to grow to", int(p.Grow), 2, 10_000_000_000, false},
		{"active agents", p.Active, 2, 10_000_000, false},
		{"pages", p.Pages, 2, 1_000_000_000, false},
	} {
		if (one.n != 0 || one.required) && (one.n < one.least || one.n > one.most) {
			return fmt.Errorf("%d %s are not between %d and %d", one.n, one.what, one.least, one.most)
		}
	}
	return nil
}

// Host is a target that is prepared for scenarios: on Parley, two organizations with
// their agents. One goroutine uses it; the clients it creates run concurrently.
type Host struct {
	name       string
	endpoint   target.Endpoint
	Params     Params
	Payloads   *Payloads
	Log        Log
	Run        uint16
	Deployment *Deployment // nil unless the target is Parley
	// peerWorkers are the recipients on a peer; nil on Parley.
	peerWorkers []*Agent
	filled      int // messages that every worker has at least
}

// NewHost prepares a target.
func NewHost(ctx context.Context, name string, endpoint target.Endpoint, params Params) (*Host, error) {
	if err := params.Check(); err != nil {
		return nil, err
	}
	h := &Host{name: name, endpoint: endpoint, Params: params, Payloads: newPayloads(params.Seed, params.Payload)}
	if endpoint.Kind != target.Parley {
		h.peerWorkers = newPeerWorkers(endpoint.Token, params.Agents)
		return h, nil
	}
	var err error
	if h.Deployment, err = newDeployment(ctx, endpoint, params); err != nil {
		return nil, fmt.Errorf("%s cannot be made ready: %w", name, err)
	}
	return h, nil
}

// Name returns the target's name.
func (h *Host) Name() string { return h.name }

// Endpoint returns the target's addresses and tokens.
func (h *Host) Endpoint() target.Endpoint { return h.endpoint }

// Reopen sets the addresses of a restarted target.
func (h *Host) Reopen(endpoint target.Endpoint) {
	h.endpoint = endpoint
	if h.Deployment != nil {
		h.Deployment.close()
	}
}

// FreshTokens gets new tokens, which have their full lifetime left.
func (h *Host) FreshTokens(ctx context.Context) error {
	for _, o := range []*Org{h.Deployment.SendingOrg, h.Deployment.ReceivingOrg} {
		if err := o.FreshToken(ctx); err != nil {
			return fmt.Errorf("%s gives no tokens: %w", h.name, err)
		}
	}
	return nil
}

// Settle ends a run: it collects the answers that its clients received. An id that was
// given to two messages counts as a failure of the run, not as an operation.
func (h *Host) Settle(run *result.Run) {
	twice := h.Log.Settle(h.Params.KeepEvery())
	if twice == 0 {
		return
	}
	run.Failures += twice
	run.Operations = max(0, run.Operations-twice)
	if run.Seconds > 0 {
		run.PerSecond = float64(run.Operations) / run.Seconds
	}
	AddReason(run, "wrong answer: an id that another message has", twice)
}

// AddReason counts failures with a reason.
func AddReason(run *result.Run, reason string, n int64) {
	if run.Reasons == nil {
		run.Reasons = map[string]int64{}
	}
	run.Reasons[reason] += n
}

// Stored returns how many messages were acknowledged in total.
func (h *Host) Stored() int64 { return h.Log.Count }

// Acknowledged returns how many acknowledged messages are recorded, including all copies
// of broadcasts.
func (h *Host) Acknowledged() int {
	n := len(h.Log.Entries)
	for _, c := range h.Log.Broadcasts {
		n += c.Group.Recipients()
	}
	return n
}

// NextRun returns a number for a run with its own keys.
func (h *Host) NextRun() uint16 {
	h.Run++
	return h.Run
}

func (h *Host) Note(format string, args ...any) {
	if h.Params.Note != nil {
		h.Params.Note(h.name + ": " + fmt.Sprintf(format, args...))
	}
}

// Choice returns the random generator of one client, the same for the same seed.
func (h *Host) Choice(run uint16, worker int) *rand.Rand {
	return rand.New(rand.NewPCG(h.Params.Seed, uint64(run)<<32|uint64(worker)))
}

// Listen opens the stream of an agent.
func (h *Host) Listen(ctx context.Context, a *Agent) (*wire.Stream, error) {
	return wire.DialStream(ctx, nil, h.endpoint.Address, "/agents/"+a.ID.String()+"/stream", a.Org.Token)
}

// AddressOf returns the address that a client connects from, nil for any. A server bounds what
// one address may do at once, so on one machine clients get addresses of their own.
func (h *Host) AddressOf(client int) net.IP {
	host, _, err := net.SplitHostPort(h.endpoint.Address)
	if ip := net.ParseIP(host).To4(); err != nil || ip == nil || !ip.IsLoopback() || runtime.GOOS != "linux" {
		return nil
	}
	return net.IPv4(127, 77, byte(client/250), byte(1+client%250))
}

// Fillers is the number of connections that fill inboxes concurrently.
const Fillers = 32

// Fill makes sure that every worker has a page of messages. One filler sends all messages
// of a worker, one at a time, so that their order is known.
func (h *Host) Fill(ctx context.Context) error {
	if h.filled >= PageSize {
		return nil
	}
	h.Note("filling %d inboxes with %d messages each", h.Params.Agents, PageSize)
	err := h.SendAll(ctx, func(filler int) (count int, to func(n int) int) {
		own := (h.Params.Agents - filler + Fillers - 1) / Fillers
		return own * PageSize, func(n int) int { return filler + n%own*Fillers }
	})
	if err != nil {
		return fmt.Errorf("%s: inboxes cannot be filled: %w", h.name, err)
	}
	h.filled = PageSize
	return nil
}

// SendAll sends the messages that share assigns to each filler.
func (h *Host) SendAll(ctx context.Context, share func(filler int) (count int, to func(n int) int)) error {
	run := h.NextRun()
	err := Concurrently(ctx, Fillers, Fillers, func(ctx context.Context, worker int) error {
		c, err := h.Sender(ctx, worker)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		count, to := share(worker)
		for n := range count {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.Send(to(n), Key{Run: run, Worker: uint32(worker), N: uint32(n)}); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, h.SettleUnmeasured())
}

// SettleUnmeasured collects the answers to messages that are not measured.
func (h *Host) SettleUnmeasured() error {
	if twice := h.Log.Settle(h.Params.KeepEvery()); twice > 0 {
		return fmt.Errorf("%d messages got an id that another has", twice)
	}
	return nil
}

// OnConnections runs task for 0 to n-1 over connections of its own and stops at the first error.
// It is not measured.
func (h *Host) OnConnections(ctx context.Context, connections, n int, task func(c *Caller, i int) error) error {
	connections = min(connections, n)
	return Concurrently(ctx, connections, connections, func(ctx context.Context, worker int) error {
		c, err := h.Caller(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		for i := worker; i < n && ctx.Err() == nil; i += connections {
			if err := task(c, i); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
}

// Concurrently runs task for 0 to n-1 in that many worker goroutines and stops at the first
// error.
func Concurrently(ctx context.Context, workers, n int, task func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for w := range min(workers, n) {
		group.Go(func() {
			for i := w; i < n && ctx.Err() == nil; i += workers {
				if err := task(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}

// SleepUntil waits until a time.
func SleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Poll calls done at intervals until it returns true or an error, within a time. inTime reports
// whether it returned true.
func Poll(ctx context.Context, within, every time.Duration, done func() (bool, error)) (inTime bool, err error) {
	for deadline := time.Now().Add(within); ; {
		if inTime, err = done(); inTime || err != nil || time.Now().After(deadline) {
			return inTime, err
		}
		if err := SleepUntil(ctx, time.Now().Add(every)); err != nil {
			return false, err
		}
	}
}
