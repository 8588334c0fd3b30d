package scenario

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"parley/bench/load"
	"parley/bench/result"
)

const (
	// defaultMembers is the default of Params.Members.
	defaultMembers = 1000
	// Rounds of single broadcasts. The first ones only warm up.
	roundsLeast  = 10
	roundsMost   = 300
	roundsWarmUp = 3
	// besideEvery is the interval between direct messages during concurrent broadcasts.
	besideEvery = 10 * time.Millisecond
)

// Names of the figures and laps of a run of Fanout.
const (
	// FigureRecipients is the number of copies of each broadcast.
	FigureRecipients = "recipients"
	// FigureDeliveries is the copies per second: all copies of the broadcasts in the
	// window, divided by the time from its start until the last of them could be read.
	FigureDeliveries = "deliveries_per_second"
	// FigureDrain is the time from the last 201 until the last copy could be read.
	FigureDrain = "drain_ms"
	// FigureCopyCPU is the server's processor time per copy. FigureCopyLog is the bytes
	// per copy that it appended to its log, without the payloads of the broadcasts.
	FigureCopyCPU = "us_per_copy"
	FigureCopyLog = "log_bytes_per_copy"
	// FigureCastOfDirect is the median time to the 201 of a single broadcast, as a
	// multiple of that of direct messages sent in turn with them.
	FigureCastOfDirect = "broadcast_of_direct_p50"

	LapCastAlone   = "alone: 201 of a broadcast"
	LapDirectAlone = "alone: 201 of a direct message"
	LapLastAlone   = "alone: last copy"
	LapDirectAmid  = "amid broadcasts: 201 of a direct message"
	LapLastAmid    = "amid broadcasts: last copy"
	LapAfterAmid   = "amid broadcasts: last copy after the 201"
)

// fanout is one run of Fanout in progress.
type fanout struct {
	host  *Host
	group *assembly
	ears  *ears
	run   *result.Run
	laps  map[string]*load.Histogram
	// Run numbers: of broadcasts sent one at a time, of concurrent broadcasts, and of
	// direct messages.
	alone, concurrent, direct uint16
}

// Fanout broadcasts to a group. First it sends one broadcast at a time, in turn with
// direct messages, and waits until all copies can be read. Then it follows the plan,
// with as many broadcasts as the target accepts. It sets all of run except its CPU.
func (h *Host) Fanout(ctx context.Context, plan load.Plan, meter Meter, window load.Watch, run *result.Run) (err error) {
	if h.world == nil {
		return fmt.Errorf("%s does not take part in %s", h.name, Fanout)
	}
	if err := h.fanoutGroup(ctx); err != nil {
		return err
	}
	if err := h.world.freshTokens(ctx); err != nil {
		return fmt.Errorf("%s gives no tokens: %w", h.name, err)
	}
	f := &fanout{host: h, group: h.largeGroup, run: run, laps: map[string]*load.Histogram{}}
	if f.ears, err = h.ears(ctx, h.largeGroup); err != nil {
		return err
	}
	defer f.ears.close()
	f.alone, f.direct, f.concurrent = h.nextRun(), h.nextRun(), h.nextRun()
	run.Figures = map[string]float64{FigureRecipients: float64(h.largeGroup.recipients())}
	meter.Settle(ctx)
	if err := f.oneByOne(ctx, plan.Duration/2); err != nil {
		return err
	}
	meter.Settle(ctx)
	if err := f.together(ctx, plan, meter, window); err != nil {
		return err
	}
	return f.check(ctx)
}

// fanoutGroup creates the group that Fanout broadcasts to, once.
func (h *Host) fanoutGroup(ctx context.Context) error {
	if h.largeGroup != nil {
		return nil
	}
	count := h.params.Members
	if count == 0 {
		count = defaultMembers
	}
	err := h.world.freshTokens(ctx)
	if err != nil {
		return err
	}
	if h.speakers, err = h.world.agents(ctx, h.world.globex, "speaker-%d", 0, h.params.Senders); err != nil {
		return err
	}
	members, err := h.world.ofBoth(ctx, "member-%d", 0, count)
	if err != nil {
		return err
	}
	h.largeGroup, err = h.assemble(ctx, "large", h.speakers[0], append(h.speakers[1:len(h.speakers):len(h.speakers)], members...))
	return err
}

func (f *fanout) lap(name string, d time.Duration) {
	if f.laps[name] == nil {
		f.laps[name] = load.NewHistogram()
	}
	f.laps[name].Record(d)
}

// oneByOne measures single broadcasts, in turn with direct messages.
func (f *fanout) oneByOne(ctx context.Context, budget time.Duration) error {
	c, err := f.host.herald(ctx, f.group, f.group.founder)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	to := f.host.postCourier(c.caller, 0)
	start := time.Now()
	for n := 0; n < roundsLeast || n < roundsMost && time.Since(start) < budget; n++ {
		began := time.Now()
		if err := to.deliver(0, Key{Run: f.direct, N: uint32(n)}); err != nil {
			return fmt.Errorf("a direct message: %w", err)
		}
		direct := time.Since(began)
		key := Key{Run: f.alone, N: uint32(n)}
		began = time.Now()
		id, err := c.cast(key)
		if err != nil {
			return fmt.Errorf("a broadcast: %w", err)
		}
		answered := time.Now()
		f.ears.answered(key, id, began, answered, true)
		if err := f.ears.await(ctx, func(k Key) bool { return k == key }); err != nil {
			return err
		}
		if n >= roundsWarmUp {
			f.lap(LapDirectAlone, direct)
			f.lap(LapCastAlone, answered.Sub(began))
			f.lap(LapLastAlone, f.ears.landing(key).last.Sub(began))
		}
	}
	if direct := f.laps[LapDirectAlone].Quantile(50); direct > 0 {
		f.run.Figures[FigureCastOfDirect] = float64(f.laps[LapCastAlone].Quantile(50)) / float64(direct)
	}
	return nil
}

// opened records when a window opens.
type opened struct {
	load.Watch
	at time.Time
}

// Begin implements load.Watch.
func (o *opened) Begin() {
	o.at = time.Now()
	o.Watch.Begin()
}

// together measures broadcasts as planned, and their cost. Costs cover the whole run with
// its warm-up, until the last copy can be read.
func (f *fanout) together(ctx context.Context, plan load.Plan, meter Meter, window load.Watch) error {
	cpu := meter.CPU()
	logged, seen := meter.Log()
	under, stop := context.WithCancel(ctx)
	defer stop()
	var beside sync.WaitGroup
	beside.Go(func() { f.beside(under) })
	watch := &opened{Watch: window}
	m, err := load.Run(ctx, plan, f.dial, watch)
	stop()
	beside.Wait()
	if m == nil {
		return err
	}
	laps := f.run.Laps
	m.Fill(f.run)
	f.run.Laps = laps
	if err == nil {
		err = f.ears.await(ctx, func(k Key) bool { return k.Run == f.concurrent })
	}
	copies := f.landed(watch.at)
	f.fillLaps()
	if err != nil {
		return err
	}
	if now, still := meter.Log(); seen && still && copies > 0 {
		payloads := copies / float64(f.group.recipients()) * float64(f.host.params.Payload)
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
func (f *fanout) landed(begin time.Time) (copies float64) {
	each := float64(f.group.recipients())
	var measured float64
	var answered, last time.Time
	for _, l := range f.ears.answers(f.concurrent) {
		copies += each
		if !l.measured || l.heard < len(f.ears.owners) {
			continue
		}
		measured += each
		f.lap(LapLastAmid, l.last.Sub(l.began))
		f.lap(LapAfterAmid, max(0, l.last.Sub(l.answered)))
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

func (f *fanout) fillLaps() {
	f.run.Laps = map[string]result.Latency{}
	for name, lap := range f.laps {
		if lap.Count() > 0 {
			f.run.Laps[name] = lap.Latency()
		}
	}
}

// beside sends direct messages during the broadcasts.
func (f *fanout) beside(ctx context.Context) {
	c, err := f.host.caller(ctx)
	if err != nil {
		return // the connections of the run fail as well and report the error
	}
	defer func() { _ = c.Close() }()
	to := f.host.postCourier(c, 0)
	pace := time.NewTicker(besideEvery)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		began := time.Now()
		err := to.deliver(n%f.host.params.Agents, Key{Run: f.direct, Worker: 1, N: uint32(n)})
		if refused := (load.Refused{}); err != nil && !errors.As(err, &refused) {
			return
		}
		if err == nil {
			f.lap(LapDirectAmid, time.Since(began))
		}
	}
}

func (f *fanout) dial(ctx context.Context, worker int) (load.Client, error) {
	c, err := f.host.herald(ctx, f.group, f.host.speakers[worker%len(f.host.speakers)])
	if err != nil {
		return nil, err
	}
	return &heralding{herald: c, ears: f.ears, key: Key{Run: f.concurrent, Worker: uint32(worker)}}, nil
}

// heralding is the client of Fanout.
type heralding struct {
	*herald
	// ears is nil if no member has a stream.
	ears *ears
	key  Key
}

// Do implements load.Client.
func (c *heralding) Do(_ context.Context, n int, laps *load.Laps) error {
	c.key.N = uint32(n)
	began := time.Now()
	id, err := c.cast(c.key)
	if c.ears != nil && id != (uuid{}) {
		c.ears.answered(c.key, id, began, time.Now(), laps.Measured())
	}
	return err
}
