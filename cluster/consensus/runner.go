package consensus

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// Config is what a Runner needs. All fields but Tick are required.
type Config struct {
	// Options needs neither Log nor Applied.
	Options Options
	Log     Log
	State   State
	Links   Links
	Handler Handler
	// Clock returns the time of a monotonic clock.
	Clock func() time.Time
	// Tick is the interval of ticks, 25 ms by default.
	Tick time.Duration
}

// Links carry messages to other nodes. A message may be lost, doubled or late.
type Links interface {
	// Send never blocks. Of a message with Content, Send takes the content over: it
	// transfers and closes it. Once the receiver has closed what it received, or the
	// connection to it is lost, Send calls Runner.ReportSnapshot.
	Send(messages []Message)
}

// A Handler is notified about what concerns the node as a whole. Its methods run in the
// runner's loop: they must not block.
type Handler interface {
	// Led: this node leads in a term, and has applied all entries of former terms.
	Led(term uint64)
	// Lost: the term is over for this node, and all its proposals are answered.
	Lost(term uint64)
	// Members: the members of the group changed since Start. described is that of Applied.
	Members(conf *raftpb.ConfState, described map[uint64]string)
	// Follows: in a term this node now follows a leader, which may be itself, or none if it
	// is 0.
	Follows(term, leader uint64)
	// Failed: the node stopped because of an error. It must not be started again
	// without a look at the cause.
	Failed(err error)
}

const (
	defaultTick = 25 * time.Millisecond
	// inboxBytes and inboxEvents bound what waits for the loop. Messages beyond them
	// are dropped: raft repeats what matters.
	inboxBytes  = 64 << 20
	inboxEvents = 16384
)

// Runner drives a Core in a process: one goroutine runs the Core and appends records, four
// wait for the disk and one applies entries. Each of them is a hop of a proposal, which costs
// up to a tenth of a millisecond on a busy machine.
type Runner struct {
	*meter
	config Config
	core   *Core
	shared sharedFence
	inbox  *queue
	tasks  *queue
	number chan written
	quit   chan struct{}
	done   chan struct{}
	once   sync.Once
	work   sync.WaitGroup

	// What follows belongs to the loop.
	err     error
	over    bool
	led     uint64
	due     time.Time
	begun   []time.Time // when the records that are not durable were handed out
	records uint64      // how many records were appended
	synced  uint64      // how many of them are durable
	tag     uint64
	answers map[uint64]func(uint64, error)
	refused []func() // reports of proposals that were not made, after those of earlier ones
}

// Start opens a node.
func Start(config Config) (*Runner, error) {
	at := config.State.Applied()
	if err := Prepare(config.Log, at); err != nil {
		return nil, err
	}
	known, err := config.Log.Known()
	if err != nil {
		return nil, err
	}
	config.Options.Log, config.Options.Applied, config.Options.Known = config.Log, at, known
	core, err := New(config.Options)
	if err != nil {
		return nil, err
	}
	if config.Tick == 0 {
		config.Tick = defaultTick
	}
	r := &Runner{
		meter: newMeter(config.Clock, core.stats()), config: config, core: core, inbox: newQueue(), tasks: newQueue(),
		number: make(chan written, syncsMax),
		quit:   make(chan struct{}), done: make(chan struct{}),
		due: config.Clock().Add(config.Tick), answers: map[uint64]func(uint64, error){},
	}
	for range syncsMax {
		r.work.Go(r.sync)
	}
	r.work.Go(r.apply)
	go r.loop()
	return r, nil
}

// Close stops the node and waits until nothing of it runs. It does not hand over the
// leadership.
func (r *Runner) Close() {
	r.once.Do(func() { close(r.quit) })
	<-r.done
	r.work.Wait()
}

// Receive takes messages of another node. It never blocks. Refused, unless nil, is called in the
// loop if one of them is malformed, with what is wrong: this one and the later ones are not taken.
func (r *Runner) Receive(messages []Message, refused func(error)) {
	size := 0
	for _, m := range messages {
		for _, e := range m.Raft.GetEntries() {
			size += len(e.GetData())
		}
	}
	drop := func() {
		for _, m := range messages {
			if m.Content != nil {
				r.closed(m)
			}
		}
	}
	if !r.inbox.push(size, true, func() {
		if r.over {
			drop()
			return
		}
		for i, m := range messages {
			if err := r.core.Step(m); err != nil {
				messages = messages[i+1:]
				drop()
				if refused != nil {
					refused(err)
				}
				return
			}
		}
	}) {
		drop()
	}
}

// Propose proposes a payload that was made for a term. Unless it returns an error, done
// is called in the loop, in the order of the proposals: with the index at which the
// payload is applied here, or with ErrNeverProposed, ErrFull or ErrOutcomeUnknown. The
// payload's memory, with the spare room behind it, belongs to the runner until State.Apply
// gets a copy of the payload. If that never happens, it stays the runner's.
func (r *Runner) Propose(term uint64, payload []byte, done func(index uint64, err error)) error {
	if r.inbox.push(len(payload), true, func() {
		err := ErrStopped
		if !r.over {
			err = r.core.Propose(term, payload, r.expect(done))
		}
		if errors.Is(err, ErrNotLeader) || errors.Is(err, ErrStopped) {
			err = ErrNeverProposed
		}
		if err != nil {
			delete(r.answers, r.tag)
			r.refused = append(r.refused, func() { done(0, err) })
		}
	}) {
		return nil
	}
	select {
	case <-r.done:
		return ErrStopped
	default:
		return ErrFull
	}
}

// expect registers a function for the answer to the next tag.
func (r *Runner) expect(done func(uint64, error)) (tag uint64) {
	r.tag++
	r.answers[r.tag] = done
	return r.tag
}

// Do runs a function with the Core, in the loop, and returns its error. It serves
// requests that are rare: Transfer, ChangeMembers, Status. If ctx is done before the loop, which
// may wait for the disk, has begun with the function, that is never run.
func (r *Runner) Do(ctx context.Context, f func(*Core) error) error {
	answered := make(chan error, 1)
	var taken atomic.Bool // by the loop, or by a caller that has given up
	r.inbox.push(0, false, func() {
		if !r.over && taken.CompareAndSwap(false, true) {
			answered <- f(r.core)
		}
	})
	done := ctx.Done()
	for {
		select {
		case err := <-answered:
			return err
		case <-r.done:
			return ErrStopped
		case <-done:
			if taken.CompareAndSwap(false, true) {
				return ctx.Err()
			}
			done = nil // the loop is at it
		}
	}
}

// ReportSnapshot is Core.ReportSnapshot.
func (r *Runner) ReportSnapshot(to uint64, ok bool) {
	r.inbox.push(0, false, func() {
		if !r.over {
			r.core.ReportSnapshot(to, ok)
		}
	})
}

func (r *Runner) loop() {
	r.err = errors.Join(r.err, r.run())
	r.over = true
	r.inbox.close()
	r.tasks.close()
	close(r.number)
	for _, tag := range slices.Sorted(maps.Keys(r.answers)) {
		r.answers[tag](0, errors.Join(ErrStopped, ErrOutcomeUnknown))
	}
	for _, event := range r.inbox.take() {
		event()
	}
	for _, report := range r.refused {
		report()
	}
	if r.led != 0 {
		r.config.Handler.Lost(r.led)
	}
	if r.err != nil {
		select {
		case <-r.quit: // what could not be done any more is done after the next start
		default:
			r.config.Handler.Failed(r.err)
		}
	}
	close(r.done)
}

// run handles events until the node stops.
func (r *Runner) run() (err error) {
	defer recovered(&err)
	ticker := time.NewTicker(r.config.Tick)
	defer ticker.Stop()
	for {
		select {
		case <-r.quit:
			return nil
		case <-r.inbox.ready:
			runtime.Gosched() // what others are about to bring shares a turn
		case <-ticker.C:
			r.core.Durable(r.config.State.Durable())
			r.core.Tick(r.delay(r.config.Clock()))
			r.tick.Store(r.core.stats())
		}
		for _, event := range r.inbox.take() {
			event()
		}
		if r.err != nil {
			return r.err
		}
		if err := r.turn(); err != nil {
			return err
		}
	}
}

// delay is how slow this node is at a tick.
func (r *Runner) delay(now time.Time) time.Duration {
	delay := now.Sub(r.due)
	r.due = now.Add(r.config.Tick)
	if len(r.begun) > 0 {
		delay = max(delay, now.Sub(r.begun[0]))
	}
	return delay
}

// turn carries out what the Core decided. Messages leave before the disk is asked for
// anything: what must wait for it is not among them.
func (r *Runner) turn() error {
	turn, err := r.core.Ready()
	if err != nil {
		return err
	}
	r.send(turn.Messages)
	for {
		record, ok := r.core.NextRecord()
		if !ok {
			break
		}
		number, err := r.config.Log.Append(record)
		if err != nil {
			return err
		}
		r.begun, r.records = append(r.begun, r.config.Clock()), r.records+1
		r.waiting(r.begun)
		r.number <- written{r.records, number} // there is room for as many as are not durable
	}
	if b := turn.Batch; b != nil {
		r.tasks.push(0, false, func() { r.reply(r.config.State.Apply(b.Entries, b.After), r.core.Applied) })
	}
	if content := turn.Restore; content != nil {
		r.tasks.push(0, false, func() { r.restore(content) })
	}
	for _, m := range turn.Closed { // files may have to be deleted
		r.tasks.push(0, false, func() { r.closed(m) })
	}
	for _, e := range turn.Events {
		r.report(e)
	}
	for _, report := range r.refused {
		report()
	}
	r.refused = nil
	return nil
}

func (r *Runner) send(messages []Message) {
	ready := messages[:0]
	for _, m := range messages {
		if m.Raft.GetType() == raftpb.MsgSnap {
			content, err := r.config.State.Snapshot()
			if err != nil {
				r.config.Options.Logger.Error("cannot open a snapshot", "error", err)
				r.ReportSnapshot(m.Raft.GetTo(), false)
				continue
			}
			Attach(&m, content)
		}
		ready = append(ready, m)
	}
	if len(ready) > 0 {
		r.config.Links.Send(ready)
	}
}

func (r *Runner) report(e Event) {
	switch e.Kind {
	case Led:
		r.led = e.Term
		r.config.Handler.Led(e.Term)
	case Lost:
		r.led = 0
		r.config.Handler.Lost(e.Term)
	case Members:
		r.config.Handler.Members(e.Conf, e.Described)
	case Follows:
		r.config.Handler.Follows(e.Term, e.Node)
	case Resolved, Fenced:
		done := r.answers[e.Tag]
		delete(r.answers, e.Tag)
		done(e.Index, e.Err)
	}
}
