package scenario

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
	"parley/bench/wire"
)

const (
	// events is the number of events sent to all streams: CPU time is counted in ticks of
	// ten milliseconds, which is too coarse for one event.
	events = 5
	// closePatience is how long the server may take to notice closed streams.
	closePatience = 10 * time.Second
)

// streams is Stream.
type streams struct{ host *host.Host }

// Run implements Scenario, on a server that was started for it: memory left by an earlier run
// would make streams appear smaller.
func (s *streams) Run(ctx context.Context, r *host.Round) error {
	if _, err := r.Bench.Restart(ctx); err != nil {
		return err
	}
	h, run := s.host, r.Result
	run.Clients = r.Bench.Limit(h.Params.Streams, "streams")
	if err := h.Deployment.Pairs(ctx, 1); err != nil {
		return err
	}
	if err := h.FreshTokens(ctx); err != nil {
		return err
	}
	window, meter := r.Bench.Begin(ctx), r.Bench.Meter()
	readers := &streamReaders{host: h, arrivals: make(chan arrival, run.Clients)}
	defer readers.close()
	run.Figures = map[string]float64{}
	before := meter.Resident()
	if err := readers.gather(ctx, run.Clients); err != nil {
		return err
	}
	meter.Settle(ctx)
	if after := meter.Resident(); before > 0 && after > 0 {
		run.Figures["bytes_per_stream"] = math.Round((float64(after) - float64(before)) / float64(run.Clients))
	}
	window.Begin()
	err := readers.broadcast(ctx, meter, run)
	window.End()
	if err != nil {
		return err
	}
	r.CPUPerOperation = run.Figures["us_per_event"]
	return readers.leave(ctx, meter, run)
}

// arrival is an event that a stream delivered.
type arrival struct {
	key host.Key
	at  time.Time
	err error
}

// streamReaders holds many streams of one agent, each with a reader.
type streamReaders struct {
	host     *host.Host
	streams  []*wire.Stream
	arrivals chan arrival
	readers  sync.WaitGroup
	mu       sync.Mutex
}

func (c *streamReaders) gather(ctx context.Context, n int) error {
	owner := c.host.Deployment.Answerers[0]
	return host.Concurrently(ctx, host.StreamDials, n, func(ctx context.Context, i int) error {
		stream, err := c.host.Listen(ctx, owner)
		if err != nil {
			return fmt.Errorf("stream %d of %d cannot be opened: %w", i+1, n, err)
		}
		c.mu.Lock()
		c.streams = append(c.streams, stream)
		c.mu.Unlock()
		c.readers.Go(func() { c.read(stream) })
		return nil
	})
}

// read passes on the events of one stream until it ends.
func (c *streamReaders) read(stream *wire.Stream) {
	for {
		_, key, err := host.NextMessage(stream, c.host.Payloads)
		select {
		case c.arrivals <- arrival{key, time.Now(), err}:
		default: // no events are counted any more
		}
		if err != nil {
			return
		}
	}
}

// broadcast sends events one after the other. It waits until all streams have received an
// event before it sends the next.
func (c *streamReaders) broadcast(ctx context.Context, meter host.Meter, run *result.Run) error {
	h := c.host
	sender, err := h.Caller(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = sender.Close() }()
	key := host.Key{Run: h.NextRun()}
	all := load.NewHistogram()
	var lasts []float64
	cpu := meter.CPU()
	for n := range events {
		key.N = uint32(n)
		start := time.Now()
		if _, err := sender.Send(h.Deployment.Askers[0], h.Deployment.Answerers[0], key); err != nil {
			return err
		}
		last, err := c.count(ctx, key, start, all)
		if err != nil {
			return err
		}
		lasts = append(lasts, float64(last.Microseconds())/1e3)
	}
	meter.Settle(ctx)
	spent := meter.CPU() - cpu
	run.Operations = all.Count()
	for _, last := range lasts {
		run.Seconds += last / 1e3
	}
	run.PerSecond = float64(run.Operations) / run.Seconds
	run.Latency = all.Latency()
	run.Service = run.Latency
	run.Figures["p50_ms"], run.Figures["last_ms"] = run.Latency.P50, slices.Max(lasts)
	if spent > 0 {
		run.Figures["us_per_event"] = float64(spent.Microseconds()) / float64(all.Count())
	}
	return nil
}

// count waits until every stream has received the event of key exactly once.
func (c *streamReaders) count(ctx context.Context, key host.Key, start time.Time, all *load.Histogram) (last time.Duration, err error) {
	err = host.Gather(ctx, len(c.streams), "streams got the event", c.arrivals, func(a arrival) error {
		switch {
		case a.err != nil:
			return fmt.Errorf("a stream ended: %w", a.err)
		case a.key != key:
			return host.ErrWrongEvent
		}
		last = max(last, a.at.Sub(start))
		all.Record(a.at.Sub(start))
		return nil
	})
	return last, err
}

// leave closes half of the streams at once and waits until the server has noticed all of
// them.
func (c *streamReaders) leave(ctx context.Context, meter host.Meter, run *result.Run) error {
	half := len(c.streams) / 2
	meter.Settle(ctx)
	before := meter.Open()
	start := time.Now()
	for _, stream := range c.streams[:half] {
		_ = stream.Close()
	}
	if before < 0 {
		return nil
	}
	var open int
	noticed, err := host.Poll(ctx, closePatience, 2*time.Millisecond, func() (bool, error) {
		open = meter.Open()
		return open <= before-half, nil
	})
	if noticed {
		run.Figures["disconnect_ms"] = float64(time.Since(start).Microseconds()) / 1e3
	} else if err == nil {
		run.Failures += int64(open - (before - half))
		run.Reasons = map[string]int64{"a closed stream was not noticed": run.Failures}
	}
	return err
}

func (c *streamReaders) close() {
	c.mu.Lock()
	for _, stream := range c.streams {
		_ = stream.Close()
	}
	c.mu.Unlock()
	c.readers.Wait()
}
