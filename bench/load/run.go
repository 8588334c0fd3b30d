package load

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"parley/bench/result"
)

const (
	// dialsAtOnce bounds concurrent dials, so that the start of a run does not overflow a
	// listen queue.
	dialsAtOnce = 64
	// usualPatience is the default of Plan.Patience.
	usualPatience = 5 * time.Second
)

// run is a call of Run in progress.
type run struct {
	ctx  context.Context
	plan Plan
	dial Dial
	// stopped is set when ctx ends; workers check it at each operation.
	stopped atomic.Bool
	// taken counts the operations of Plan.Operations that a worker performs, refused those that
	// failed.
	taken, refused atomic.Int64
	// began is closed to start the workers' loops, after start and the times after it are
	// set.
	began             chan struct{}
	start, begin, end time.Time
	workers           []*worker
	shared            []*distributions
	meter             meter
}

// Run dials all clients, warms up, measures and closes the clients. watch may be nil.
// With an error, Run returns the measurement so far, or nil if the window had not begun.
// If ctx was cancelled, the error is its cause.
func Run(ctx context.Context, plan Plan, dial Dial, watch Watch) (*Measurement, error) {
	if err := plan.check(); err != nil {
		return nil, err
	}
	if watch == nil {
		watch = nobody{}
	}
	plan.Patience = cmp.Or(plan.Patience, usualPatience)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{
		ctx: ctx, plan: plan, dial: dial,
		began: make(chan struct{}),
	}
	for range min(plan.Clients, sharedBy) {
		r.shared = append(r.shared, newDistributions(plan.Rate))
	}
	r.workers = make([]*worker, plan.Clients)
	for i := range r.workers {
		r.workers[i] = newWorker(r, i)
	}
	defer r.close()
	if err := r.connect(cancel); err != nil {
		return nil, err
	}
	// On cancellation, close the connections: a client may ignore ctx.
	closed := make(chan struct{})
	quiet := context.AfterFunc(ctx, func() {
		defer close(closed)
		r.stopped.Store(true)
		r.close()
	})
	measurement := r.measure(cancel, watch)
	if !quiet() {
		<-closed
		return measurement, context.Cause(ctx)
	}
	return measurement, nil
}

// connect dials every worker, several at once, and stops at the first error.
func (r *run) connect(cancel context.CancelCauseFunc) error {
	var dialling sync.WaitGroup
	var next atomic.Int64
	for range min(dialsAtOnce, len(r.workers)) {
		dialling.Go(func() {
			for r.ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(r.workers) {
					return
				}
				client, err := r.dial(r.ctx, i)
				if err != nil {
					cancel(fmt.Errorf("load: worker %d: %w", i, err))
					return
				}
				r.workers[i].connection.put(client)
			}
		})
	}
	dialling.Wait()
	return context.Cause(r.ctx)
}

// close closes every connection that is still open.
func (r *run) close() {
	for _, worker := range r.workers {
		worker.connection.shut()
	}
}

// measure starts the workers and watches them until the last has finished and the window
// is over. It returns nil if the window did not begin.
func (r *run) measure(cancel context.CancelCauseFunc, watch Watch) *Measurement {
	var working sync.WaitGroup
	for _, worker := range r.workers {
		working.Go(func() {
			<-r.began
			if err := worker.work(); err != nil {
				cancel(err)
			}
		})
	}
	r.start = time.Now()
	r.begin = r.start.Add(r.plan.WarmUp)
	r.end = r.begin.Add(r.plan.Duration)
	close(r.began)
	done := make(chan struct{})
	go func() {
		defer close(done)
		working.Wait()
		r.sleep(r.end)
	}()
	if !r.sleep(r.begin) {
		<-done
		return nil
	}
	watch.Begin()
	r.observe(watch, done)
	watch.End()
	return r.sum()
}

// observe calls Tick every second until done is closed, and for the rest of a second at the
// end.
func (r *run) observe(watch Watch, done <-chan struct{}) {
	last := r.begin
	ticks := time.NewTimer(time.Until(last.Add(time.Second)))
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			last = last.Add(time.Second)
			watch.Tick(r.meter.take())
			ticks.Reset(time.Until(last.Add(time.Second)))
		case <-done:
			watch.Tick(r.meter.take())
			return
		}
	}
}

// sum merges the workers' counts after all of them have ended.
func (r *run) sum() *Measurement {
	m := &Measurement{
		Reasons: make(map[string]int64),
		Latency: NewHistogram(), Service: NewHistogram(),
		Parts: make(map[string]*Histogram),
	}
	last := r.begin.Add(min(time.Since(r.begin), r.plan.Duration))
	for _, w := range r.workers {
		m.Operations += w.operations
		m.Failures += w.failures
		for reason, count := range w.reasons {
			m.Reasons[reason] += count
		}
		if w.last.After(last) {
			last = w.last
		}
	}
	for _, d := range r.shared {
		m.Latency.Merge(d.latency)
		m.Service.Merge(d.service)
		for name, part := range d.parts {
			if m.Parts[name] == nil {
				m.Parts[name] = NewHistogram()
			}
			m.Parts[name].Merge(part)
		}
	}
	m.Seconds = last.Sub(r.begin).Seconds()
	return m
}

// sleep waits until a time. It returns false if the run was stopped first.
func (r *run) sleep(until time.Time) bool {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
		return r.ctx.Err() == nil
	case <-r.ctx.Done():
		return false
	}
}

// nobody is a Watch that does nothing.
type nobody struct{}

func (nobody) Begin()             {}
func (nobody) Tick(result.Second) {}
func (nobody) End()               {}
