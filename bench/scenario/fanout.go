package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
	"parley/bench/wire"
)

const (
	// Rounds of single broadcasts. The first ones only warm up.
	roundsLeast  = 10
	roundsMost   = 300
	roundsWarmUp = 3
	// besideEvery is the interval between direct messages during concurrent broadcasts.
	besideEvery = 10 * time.Millisecond
)

// Names of the figures and parts of a run of Fanout. docs/benchmarks.md says what they mean.
const (
	FigureRecipients   = "recipients"
	FigureDeliveries   = "deliveries_per_second"
	FigureDrain        = "drain_ms"
	FigureCopyCPU      = "us_per_copy"
	FigureCopyLog      = "log_bytes_per_copy"
	FigureCastOfDirect = "broadcast_of_direct_p50"

	PartCastAlone   = "alone: 201 of a broadcast"
	PartDirectAlone = "alone: 201 of a direct message"
	PartLastAlone   = "alone: last copy"
	PartDirectAmid  = "amid broadcasts: 201 of a direct message"
	PartLastAmid    = "amid broadcasts: last copy"
	PartAfterAmid   = "amid broadcasts: last copy after the 201"
)

// fanout is Fanout.
type fanout struct {
	host *host.Host
	// group gets the broadcasts of the speakers, once it was assembled.
	group    *host.Group
	speakers []*host.Agent
	// patience bounds the wait for copies that do not arrive.
	patience time.Duration
}

// fanoutRun is a run of Fanout in progress.
type fanoutRun struct {
	*fanout
	listeners *listeners
	run       *result.Run
	parts     map[string]*load.Histogram
	// Run numbers: of broadcasts sent one at a time, of concurrent broadcasts, and of
	// direct messages.
	alone, concurrent, direct uint16
}

// Run implements Scenario. It broadcasts to a group. First it sends one broadcast at a time, in
// turn with direct messages, and waits until all copies can be read. Then it follows the plan,
// with as many broadcasts as the target accepts.
func (f *fanout) Run(ctx context.Context, r *host.Round) (err error) {
	h := f.host
	if err := f.assemble(ctx); err != nil {
		return err
	}
	if err := h.FreshTokens(ctx); err != nil {
		return err
	}
	one := &fanoutRun{fanout: f, run: r.Result, parts: map[string]*load.Histogram{}}
	if one.listeners, err = f.listen(ctx); err != nil {
		return err
	}
	defer one.listeners.close()
	one.alone, one.direct, one.concurrent = h.NextRun(), h.NextRun(), h.NextRun()
	r.Result.Figures = map[string]float64{FigureRecipients: float64(f.group.Recipients())}
	window, meter := r.Bench.Begin(ctx), r.Bench.Meter()
	if err := one.oneByOne(ctx, r.Plan.Duration/2); err != nil {
		return err
	}
	meter.Settle(ctx)
	if err := one.together(ctx, r.Plan, meter, window); err != nil {
		return err
	}
	if r.Result.Figures[FigureDeliveries] == 0 {
		return errors.New("no copy came")
	}
	return one.check(ctx)
}

// assemble creates the group, once.
func (f *fanout) assemble(ctx context.Context) (err error) {
	h := f.host
	if f.group != nil {
		return nil
	}
	if err := h.FreshTokens(ctx); err != nil {
		return err
	}
	if f.speakers, err = h.Deployment.Agents(ctx, h.Deployment.SendingOrg, "speaker-%d", 0, h.Params.Senders); err != nil {
		return err
	}
	members, err := h.Deployment.AgentsOfBoth(ctx, "member-%d", 0, h.Params.Members)
	if err != nil {
		return err
	}
	f.group, err = host.NewGroup(ctx, h, "large", f.speakers[0], append(f.speakers[1:len(f.speakers):len(f.speakers)], members...))
	return err
}

func (f *fanoutRun) part(name string, d time.Duration) {
	if f.parts[name] == nil {
		f.parts[name] = load.NewHistogram()
	}
	f.parts[name].Record(d)
}

// oneByOne measures single broadcasts, in turn with direct messages.
func (f *fanoutRun) oneByOne(ctx context.Context, budget time.Duration) error {
	c, err := newBroadcaster(ctx, f.host, f.group, f.group.Founder)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	to := f.host.WorkerSender(c.Caller, 0)
	start := time.Now()
	for n := 0; n < roundsLeast || n < roundsMost && time.Since(start) < budget; n++ {
		began := time.Now()
		if err := to.Send(0, host.Key{Run: f.direct, N: uint32(n)}); err != nil {
			return fmt.Errorf("a direct message: %w", err)
		}
		direct := time.Since(began)
		key := host.Key{Run: f.alone, N: uint32(n)}
		began = time.Now()
		id, err := c.cast(key)
		if err != nil {
			return fmt.Errorf("a broadcast: %w", err)
		}
		answered := time.Now()
		f.listeners.answered(key, id, began, answered, true)
		if err := f.listeners.await(ctx, func(k host.Key) bool { return k == key }); err != nil {
			return err
		}
		if n >= roundsWarmUp {
			f.part(PartDirectAlone, direct)
			f.part(PartCastAlone, answered.Sub(began))
			f.part(PartLastAlone, f.listeners.progress(key).last.Sub(began))
		}
	}
	if direct := f.parts[PartDirectAlone].Quantile(50); direct > 0 {
		f.run.Figures[FigureCastOfDirect] = float64(f.parts[PartCastAlone].Quantile(50)) / float64(direct)
	}
	return nil
}

// together measures broadcasts as planned, and their cost. Costs cover the whole run with
// its warm-up, until the last copy can be read.
func (f *fanoutRun) together(ctx context.Context, plan load.Plan, meter host.Meter, window load.Watch) error {
	cpu := meter.CPU()
	logged, known := meter.Log()
	under, stop := context.WithCancel(ctx)
	defer stop()
	var beside sync.WaitGroup
	beside.Go(func() { f.beside(under) })
	watch := &opened{Watch: window, begun: make(chan struct{})}
	m, err := load.Run(ctx, plan, f.dial, watch)
	stop()
	beside.Wait()
	if m == nil {
		return err
	}
	parts := f.run.Parts
	m.Fill(f.run)
	f.run.Parts = parts
	if err == nil {
		err = f.listeners.await(ctx, func(k host.Key) bool { return k.Run == f.concurrent })
	}
	copies := f.landed(watch.at)
	f.fillParts()
	if err != nil {
		return err
	}
	if now, still := meter.Log(); known && still && copies > 0 {
		payloads := copies / float64(f.group.Recipients()) * float64(f.host.Params.Payload)
		f.run.Figures[FigureCopyLog] = (float64(now-logged) - payloads) / copies
	}
	meter.Settle(ctx)
	if spent := meter.CPU() - cpu; spent > 0 && copies > 0 {
		f.run.Figures[FigureCopyCPU] = float64(spent.Microseconds()) / copies
	}
	return nil
}

// landed sets the figures that depend on the arrival of all copies, and returns the
// number of copies.
func (f *fanoutRun) landed(begin time.Time) (copies float64) {
	each := float64(f.group.Recipients())
	var measured float64
	var answered, last time.Time
	for _, l := range f.listeners.answers(f.concurrent) {
		copies += each
		if !l.measured || l.received < len(f.listeners.owners) {
			continue
		}
		measured += each
		f.part(PartLastAmid, l.last.Sub(l.began))
		f.part(PartAfterAmid, max(0, l.last.Sub(l.answered)))
		if l.answered.After(answered) {
			answered = l.answered
		}
		if l.last.After(last) {
			last = l.last
		}
	}
	if measured > 0 {
		// The end is the later of the two: a stream may receive the broadcast before the
		// sender gets its answer.
		f.run.Figures[FigureDrain] = float64(max(0, last.Sub(answered)).Microseconds()) / 1e3
		if answered.After(last) {
			last = answered
		}
		f.run.Figures[FigureDeliveries] = measured / last.Sub(begin).Seconds()
	}
	return copies
}

func (f *fanoutRun) fillParts() {
	f.run.Parts = map[string]result.Latency{}
	for name, part := range f.parts {
		if part.Count() > 0 {
			f.run.Parts[name] = part.Latency()
		}
	}
}

// beside sends direct messages during the broadcasts.
func (f *fanoutRun) beside(ctx context.Context) {
	c, err := f.host.Caller(ctx)
	if err != nil {
		return // the connections of the run fail as well and report the error
	}
	defer func() { _ = c.Close() }()
	to := f.host.WorkerSender(c, 0)
	ticker := time.NewTicker(besideEvery)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		began := time.Now()
		err := to.Send(n%f.host.Params.Agents, host.Key{Run: f.direct, Worker: 1, N: uint32(n)})
		if refused := (load.Refused{}); err != nil && !errors.As(err, &refused) {
			return
		}
		if err == nil {
			f.part(PartDirectAmid, time.Since(began))
		}
	}
}

func (f *fanoutRun) dial(ctx context.Context, worker int) (load.Client, error) {
	c, err := newBroadcaster(ctx, f.host, f.group, f.speakers[worker%len(f.speakers)])
	if err != nil {
		return nil, err
	}
	return &broadcasting{broadcaster: c, listeners: f.listeners, key: host.Key{Run: f.concurrent, Worker: uint32(worker)}}, nil
}

// broadcasting is the client of Fanout.
type broadcasting struct {
	*broadcaster
	// listeners is nil if no member has a stream.
	listeners *listeners
	key       host.Key
}

// Do implements load.Client.
func (c *broadcasting) Do(_ context.Context, n int, parts *load.Parts) error {
	c.key.N = uint32(n)
	began := time.Now()
	id, err := c.cast(c.key)
	if c.listeners != nil && id != (host.UUID{}) {
		c.listeners.answered(c.key, id, began, time.Now(), parts.Measured())
	}
	return err
}

// broadcaster broadcasts to a group on one connection.
type broadcaster struct {
	*host.Caller
	group *host.Group
	from  *host.Agent
}

func newBroadcaster(ctx context.Context, h *host.Host, g *host.Group, from *host.Agent) (*broadcaster, error) {
	c, err := h.Caller(ctx)
	if err != nil {
		return nil, err
	}
	return &broadcaster{Caller: c, group: g, from: from}, nil
}

// cast broadcasts the message of key, checks the answer and returns the broadcast's id.
func (c *broadcaster) cast(key host.Key) (host.UUID, error) {
	sent := host.Broadcast{Key: key, Group: c.group, From: c.from.Mailbox}
	answer, err := c.Conn.Do(c.Request("/messages", c.from, &host.Agent{Handle: c.group.Handle}, key))
	if err != nil {
		if !errors.Is(err, wire.ErrClosing) { // which means that nothing was sent
			c.Log.LostBroadcasts = append(c.Log.LostBroadcasts, sent)
		}
		return host.UUID{}, err
	}
	if answer.Status != 201 {
		err, known := host.Refusal(answer)
		if !known {
			c.Log.LostBroadcasts = append(c.Log.LostBroadcasts, sent)
		}
		return host.UUID{}, err
	}
	parsed, err := readReceipt(answer.Body)
	if err != nil {
		c.Log.LostBroadcasts = append(c.Log.LostBroadcasts, sent)
		return host.UUID{}, err
	}
	sent.ID = parsed.broadcast
	c.Log.Broadcasts = append(c.Log.Broadcasts, sent)
	return parsed.broadcast, c.judge(parsed, key)
}

// receipt holds the members of the answer to a broadcast that are checked.
type receipt struct {
	ID          string `json:"id"`
	BroadcastID string `json:"broadcast_id"`
	Recipients  int    `json:"recipient_count"`
	Handle      string `json:"group_handle"`
	Payload     string `json:"encrypted_payload"`

	copy, broadcast host.UUID
}

func readReceipt(body []byte) (r receipt, err error) {
	if json.Unmarshal(body, &r) != nil {
		return r, host.Wrong("not a JSON object")
	}
	r.copy, _ = host.ParseUUID([]byte(r.ID))
	broadcast, identified := host.ParseUUID([]byte(r.BroadcastID))
	if !identified {
		return r, host.Wrong("no UUID as broadcast_id")
	}
	r.broadcast = broadcast
	return r, nil
}

func (c *broadcaster) judge(parsed receipt, key host.Key) error {
	got, sound := c.Payloads.Read([]byte(parsed.Payload))
	switch {
	case !sound || got != key:
		return host.Wrong("another payload than the one sent")
	case parsed.Handle != c.group.Handle:
		return host.Wrong("another group than the one asked for")
	case parsed.Recipients != c.group.Recipients():
		return host.Wrong("another recipient_count than the group's other members")
	case host.BroadcastOf(parsed.copy) != parsed.broadcast:
		return host.Wrong("a copy of another broadcast")
	}
	return nil
}
