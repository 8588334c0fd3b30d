package egress

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// Post is one signed POST to make.
type Post struct {
	// Key names the target: posts with the same key share a queue, a limit and a circuit.
	// Of one host that many strangers use, such as a relay, each has its own if
	// the key is the webhook's id. Empty: the target's URL.
	Key    string
	Target Target
	// ID is the webhook-id: the same for each attempt of one job.
	ID string
	// Body is the JSON that is sent and signed. It is not copied.
	Body []byte
	// Secrets sign it, the newest first; two while one replaces the other.
	Secrets []string
	// Traceparent is the header of that name, which is not signed; empty: none.
	Traceparent string
	// Done is told the outcome, exactly once for each post that Submit took. It
	// runs beside others and must return soon.
	Done func(Result)
}

// Result is what became of a post.
type Result struct {
	// Status is the status of the answer; 0: there was none.
	Status int
	// Duration is the time until the status was known, or until it was clear
	// that none would come.
	Duration time.Duration
	// RetryAfter is how long the target, or the open circuit that held the post,
	// wants to be left alone, at most 24 h; 0: nothing was said.
	RetryAfter time.Duration
	// Error is what the target's owner is told; empty: delivered. It shows
	// nothing of this network.
	Error string
	// Held says that there is no verdict: the post was not sent, or a shutdown
	// cut it off. It is no attempt and counts for nothing.
	Held bool
	// Blocked says that the target is one that may not be reached: its address is
	// not public, or it is not https.
	Blocked bool
}

// Delivered reports whether the target took the post.
func (r Result) Delivered() bool { return r.Status >= 200 && r.Status < 300 }

// HeldError says that a post was not taken: its Done is never called. It is
// worth another try after Wait.
type HeldError struct {
	Wait   time.Duration
	Reason string
}

func (e *HeldError) Error() string { return fmt.Sprintf("held for %v: %s", e.Wait, e.Reason) }

// Why a post is held.
const (
	heldCircuit  = "the target failed too often in a row"
	heldFull     = "too many posts wait already"
	heldStale    = "the post waited too long for its turn"
	heldShutdown = "the sender is shutting down"
	heldDropped  = "the target was given up"
)

// fullWait is when to try again what found a full queue.
const fullWait = time.Second

// Sender makes posts to many targets so that none delays another. Posts of one
// key leave in the order in which they were submitted. It is safe for concurrent
// use; Shutdown ends it.
type Sender struct {
	options Options
	client  *client
	base    context.Context // of every attempt
	abort   context.CancelFunc
	flights sync.WaitGroup

	mu      sync.Mutex
	queues  map[string]*queue
	resting list.List // of *queue, the longest at rest first
	fields  [kinds]field
	overdue int // flights that no field counts any more
	late    int // flights that last too long, in whatever room
	waiting int
	closed  bool
}

// flight is a post under way.
type flight struct {
	entry
	queue *queue
	field *field // whose room it takes; nil: none any more
	probe bool
	stale bool
	late  bool
	ended bool
}

// NewSender starts nothing: goroutines exist while posts fly.
func NewSender(options Options) (*Sender, error) {
	options = options.withDefaults()
	c, err := newClient(options)
	if err != nil {
		return nil, err
	}
	s := &Sender{options: options, client: c, queues: map[string]*queue{}}
	s.base, s.abort = context.WithCancel(context.Background())
	s.fields[quick].max, s.fields[fresh].max, s.fields[slow].max = options.Quick, options.Fresh, options.Slow
	return s, nil
}

// Submit takes a post, or refuses it with a *HeldError when the target's circuit
// is open, too many posts wait, or the sender is shutting down. It never waits.
func (s *Sender) Submit(p Post) error {
	if p.Key == "" {
		p.Key = p.Target.String()
	}
	now := s.options.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.queues[p.Key]
	if held := s.refuse(l, now); held != nil {
		return held
	}
	if l == nil {
		l = &queue{key: p.Key, kind: fresh}
		s.queues[p.Key] = l
	}
	l.waiting = append(l.waiting, entry{post: &p, since: now})
	s.waiting++
	s.stand(l, now)
	s.launch(now)
	return nil
}

func (s *Sender) refuse(l *queue, now time.Time) error {
	switch {
	case s.closed:
		return &HeldError{Wait: fullWait, Reason: heldShutdown}
	case l != nil && l.circuit.wait(now) > 0:
		return &HeldError{Wait: l.circuit.wait(now), Reason: heldCircuit}
	case s.waiting >= s.options.QueueMax, l != nil && len(l.waiting) >= s.options.TargetQueueMax:
		return &HeldError{Wait: fullWait, Reason: heldFull}
	}
	return nil
}

// stand puts a queue where it belongs after anything about it changed. A queue
// that is ready already keeps its turn.
func (s *Sender) stand(l *queue, now time.Time) {
	field := &s.fields[l.kind]
	ready := l.mayFly(s.options.PerTarget, now)
	if l.field != nil && (!ready || l.field != field) {
		l.field.ready.Remove(l.place)
		l.field, l.place = nil, nil
	}
	if ready && l.field == nil {
		l.field, l.place = field, field.ready.PushBack(l)
	}
	idle := len(l.waiting) == 0 && l.flying == 0
	switch {
	case idle && l.rest == nil:
		l.rest = s.resting.PushBack(l)
		if s.resting.Len() > s.options.TargetsMax {
			oldest := s.resting.Remove(s.resting.Front()).(*queue)
			delete(s.queues, oldest.key)
		}
	case !idle && l.rest != nil:
		s.resting.Remove(l.rest)
		l.rest = nil
	}
}

// launch lets fly whatever there is room for.
func (s *Sender) launch(now time.Time) {
	for i := range s.fields {
		for field := &s.fields[i]; field.flying < field.max && field.ready.Len() > 0; {
			f := s.take(field, now)
			s.flights.Add(1)
			go s.carry(f)
		}
	}
}

// take begins the flight whose turn it is in a field that has one. The queue goes
// to the end of the line.
func (s *Sender) take(field *field, now time.Time) *flight {
	l := field.ready.Remove(field.ready.Front()).(*queue)
	l.field, l.place = nil, nil
	f := &flight{entry: l.pop(), queue: l, field: field, probe: !l.circuit.closed()}
	f.stale = now.Sub(f.since) > s.options.WaitMax
	l.circuit.probing = f.probe
	l.flying++
	field.flying++
	s.waiting--
	s.stand(l, now)
	return f
}

// carry makes the attempt and tells the outcome.
func (s *Sender) carry(f *flight) {
	defer s.flights.Done()
	result := Result{Held: true, RetryAfter: fullWait, Error: heldStale}
	if !f.stale {
		timer := time.AfterFunc(s.options.SlowAfter, func() { s.tarry(f) })
		result = s.client.attempt(s.base, f.post)
		timer.Stop()
		if result.Status == 0 && s.base.Err() != nil {
			result = Result{Held: true, Error: heldShutdown}
		}
	}
	handed, wait := s.land(f, result)
	f.post.Done(result)
	handBack(handed, Result{Held: true, RetryAfter: wait, Error: heldCircuit})
}

// tarry is called when a flight is late: its target is slow from now on, and the
// flight gives back the room it took of those that are not.
func (s *Sender) tarry(f *flight) {
	now := s.options.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.ended {
		return
	}
	f.late = true
	f.queue.late++
	s.late++
	f.queue.kind = slow
	if f.field != &s.fields[slow] && s.overdue < s.options.Overdue {
		f.field.flying--
		f.field = nil
		s.overdue++
	}
	s.stand(f.queue, now)
	s.launch(now)
}

// land ends a flight and judges its target. When that opens the circuit, what
// waits for the target is given back together with how long it is to be held.
func (s *Sender) land(f *flight, r Result) (handed []entry, wait time.Duration) {
	now := s.options.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := f.queue
	f.ended = true
	l.flying--
	if f.late {
		l.late--
		s.late--
	}
	if f.field != nil {
		f.field.flying--
	} else {
		s.overdue--
	}
	l.circuit.judge(r, f.probe, now, &s.options)
	if !r.Held {
		l.kind = slow
		if r.Duration < s.options.SlowAfter && l.late == 0 {
			l.kind = quick
		}
	}
	if wait = l.circuit.wait(now); wait > 0 {
		handed = s.empty(l)
	}
	s.stand(l, now)
	s.launch(now)
	return handed, wait
}

// empty takes everything that waits out of a queue.
func (s *Sender) empty(l *queue) []entry {
	all := l.waiting
	l.waiting = nil
	s.waiting -= len(all)
	return all
}

func handBack(entries []entry, r Result) {
	for _, e := range entries {
		e.post.Done(r)
	}
}

// Reset closes the circuit of a key, as when the target's owner says that it is
// well again.
func (s *Sender) Reset(key string) {
	now := s.options.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.queues[key]; l != nil {
		l.circuit = circuit{}
		s.stand(l, now)
		s.launch(now)
	}
}

// Drop hands back what waits under a key, as when its webhook was switched off
// or deleted. What flies already cannot be recalled.
func (s *Sender) Drop(key string) {
	now := s.options.Clock()
	s.mu.Lock()
	var handed []entry
	if l := s.queues[key]; l != nil {
		handed = s.empty(l)
		s.stand(l, now)
	}
	s.mu.Unlock()
	handBack(handed, Result{Held: true, Error: heldDropped})
}

// Shutdown takes nothing more, hands back what waits as held, and returns when
// everything that flies has landed. When ctx ends first, the rest is cut off and
// held as well. Every Done has returned when Shutdown does.
func (s *Sender) Shutdown(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	var handed []entry
	for _, l := range s.queues {
		handed = append(handed, s.empty(l)...)
		s.stand(l, time.Time{})
	}
	s.mu.Unlock()
	handBack(handed, Result{Held: true, Error: heldShutdown})
	landed := make(chan struct{})
	go func() {
		s.flights.Wait()
		close(landed)
	}()
	select {
	case <-landed:
	case <-ctx.Done():
	}
	s.abort()
	<-landed
	s.client.transport.CloseIdleConnections()
}

// Stats are the numbers of one instant.
type Stats struct {
	// Waiting are the posts that no attempt was made of yet.
	Waiting int
	// Quick, Fresh, Slow and Overdue are the posts that fly, by whose room they
	// take.
	Quick, Fresh, Slow, Overdue int
	// Late are those of them that last longer than a target may take.
	Late int
	// Targets are the targets that are remembered, Open those of them whose
	// circuit is not closed.
	Targets, Open int
}

// Flying is the number of posts under way.
func (s Stats) Flying() int { return s.Quick + s.Fresh + s.Slow + s.Overdue }

// Stats counts. It looks at every queue, and so is for the minute, not for each
// post.
func (s *Sender) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := Stats{
		Waiting: s.waiting, Overdue: s.overdue, Late: s.late, Targets: len(s.queues),
		Quick: s.fields[quick].flying, Fresh: s.fields[fresh].flying, Slow: s.fields[slow].flying,
	}
	for _, l := range s.queues {
		if !l.circuit.closed() {
			stats.Open++
		}
	}
	return stats
}
