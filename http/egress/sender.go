package egress

import (
	"container/list"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Post is one signed POST to send.
type Post struct {
	// Key names the target: posts with the same key share a queue, a limit and a circuit.
	// With the webhook's id as the key, each customer of a shared host, such as a relay,
	// has its own. The default is the target's URL.
	Key    string
	Target Target
	// ID is the webhook-id, the same for each attempt of a job.
	ID string
	// Body is the JSON that is signed and sent. It is not copied.
	Body []byte
	// Render, if set, returns the body when the post begins, so that waiting posts hold
	// none. If it returns none, there is nothing to send, and the post counts as delivered.
	// Such a post is not signed.
	Render func(context.Context) ([]byte, error)
	// Header is sent along with a rendered body.
	Header http.Header
	// Secrets sign the body, the newest first. There are two during a rotation.
	Secrets []string
	// Traceparent is the value of the traceparent header, which is not signed. If empty,
	// the header is not sent.
	Traceparent string
	// MayBegin, if set, is called right before the attempt and may block. If it returns false,
	// the post is handed back as held.
	MayBegin func() bool
	// Done receives the result, exactly once for each post that Submit accepted. It runs
	// concurrently with others and must return soon.
	Done func(Result)
}

// Result is the outcome of a post.
type Result struct {
	// Status is the status of the answer; 0 if there was none.
	Status int
	// Duration is the time until the status was known, or until it was clear that there
	// would be none.
	Duration time.Duration
	// RetryAfter is how long to wait before the next attempt, as the target or the open
	// circuit demands, at most 24 h; 0 if neither does.
	RetryAfter time.Duration
	// Error is the error that the target's owner sees; empty if the post was delivered.
	// It reveals nothing of this network.
	Error string
	// Held means that the outcome is open: the post was not sent, or a shutdown
	// interrupted it. It does not count as an attempt.
	Held bool
	// Blocked means that the target may not be reached: its address is not public, or it
	// is not https.
	Blocked bool
}

// Delivered reports whether the target accepted the post.
func (r Result) Delivered() bool { return r.Status >= 200 && r.Status < 300 }

// HeldError means that a post was not accepted: its Done is never called. The caller may
// try again after Wait.
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

// fullWait is how long to wait after finding a full queue.
const fullWait = time.Second

// Sender sends posts to many targets so that none delays another. Posts with the same key
// are sent in the order in which they were submitted. It is safe for concurrent use.
// Shutdown ends it.
type Sender struct {
	options Options
	client  *client
	base    context.Context // parent of every attempt's context
	abort   context.CancelFunc
	flights sync.WaitGroup

	mu      sync.Mutex
	queues  map[string]*queue
	resting list.List // of *queue, the longest idle first
	fields  [kinds]field
	overdue int // flights that no longer count in a field
	late    int // flights that last too long, in any field
	waiting int
	closed  bool
}

// flight is a post in flight.
type flight struct {
	entry
	queue *queue
	field *field // whose capacity it takes; nil: none any more
	probe bool
	stale bool
	late  bool
	ended bool
}

// NewSender returns a sender. It starts no goroutines: they exist only while posts are in
// flight.
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

// Submit accepts a post, or rejects it with a *HeldError if the target's circuit is open,
// too many posts wait, or the sender is shutting down. It never blocks.
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

// stand moves a queue to the list where it belongs after its state has changed. A queue
// that is already ready keeps its turn.
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

// launch starts all flights for which there is capacity.
func (s *Sender) launch(now time.Time) {
	for i := range s.fields {
		for field := &s.fields[i]; field.flying < field.max && field.ready.Len() > 0; {
			f := s.take(field, now)
			s.flights.Add(1)
			go s.carry(f)
		}
	}
}

// take begins the next flight of a field, if one is ready and the field has capacity. Its
// queue goes to the end of the ready list.
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

// carry makes the attempt and reports the result.
func (s *Sender) carry(f *flight) {
	defer s.flights.Done()
	result := Result{Held: true, RetryAfter: fullWait, Error: heldStale}
	switch {
	case f.stale:
	case f.post.MayBegin != nil && !f.post.MayBegin():
		result = Result{Held: true, Error: heldDropped}
	default:
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

// tarry is called when a flight is late: its target counts as slow from now on, and the
// flight returns the capacity it took in its field.
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

// land ends a flight and updates the state of its target. If that opens the circuit, the
// target's waiting posts are returned with the time for which they are held.
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

// empty removes and returns all waiting posts of a queue.
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

// Reset closes the circuit of a key, for instance when the target's owner reports that it
// works again.
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

// Drop hands back the waiting posts of a key, for instance when its webhook was switched
// off or deleted. Posts in flight cannot be recalled.
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

// DropAll is Drop and Reset for all keys.
func (s *Sender) DropAll() {
	s.mu.Lock()
	handed := s.emptyAll()
	s.mu.Unlock()
	handBack(handed, Result{Held: true, Error: heldDropped})
}

// emptyAll removes and returns all waiting posts, and closes all circuits.
func (s *Sender) emptyAll() (all []entry) {
	for _, l := range s.queues {
		all = append(all, s.empty(l)...)
		l.circuit = circuit{}
		s.stand(l, time.Time{})
	}
	return all
}

// Shutdown accepts no more posts, hands back the waiting ones as held, and returns when
// all posts in flight have ended. If ctx ends first, it interrupts the rest and hands
// them back as held too. Every Done has returned when Shutdown returns.
func (s *Sender) Shutdown(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	handed := s.emptyAll()
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
	// Waiting is the number of posts that have not been attempted yet.
	Waiting int
	// Quick, Fresh, Slow and Overdue are the posts in flight, by the capacity they take.
	Quick, Fresh, Slow, Overdue int
	// Late is how many of them take longer than a target may.
	Late int
	// Targets is the number of remembered targets, Open the number of those whose circuit
	// is not closed.
	Targets, Open int
}

// Flying returns the number of posts in flight.
func (s Stats) Flying() int { return s.Quick + s.Fresh + s.Slow + s.Overdue }

// Stats returns the current numbers. It visits every queue, so it is meant to be called
// once a minute, not for each post.
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
