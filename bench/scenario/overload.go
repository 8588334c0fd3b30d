package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/wire"
)

// Press is the load of one step of Overload.
type Press struct {
	// Connections is the number of connections, which stay open all the time.
	Connections int
	// Rate is the arrivals per second of an open loop. 0 is a closed loop, in which as
	// many connections as Clients send again as soon as they have an answer.
	Rate             float64
	Clients          int
	WarmUp, Duration time.Duration
}

const (
	// pressPatience bounds the time until an answer. A server that sheds load in time
	// never needs it.
	pressPatience = 15 * time.Second
	// pressBurst bounds the requests that are sent before answers are read again.
	pressBurst = 64
	// pressRest is how long a client of the closed loop pauses after a refusal; an
	// immediate retry would not be a closed loop.
	pressRest = 20 * time.Millisecond
)

// Press sends messages over many connections from one goroutine and sets all of run
// except its CPU and memory. In the open loop, an arrival that finds every connection
// waiting for an answer is not sent. It is counted, so that the intended rate is not
// mistaken for the offered one.
//
// A proper refusal, 429 or 503 with a whole number of seconds in Retry-After, is not a
// failure: refusals are what this scenario examines. Every other answer except 201 is a
// failure.
func (h *Host) Press(ctx context.Context, p Press, window load.Watch, run *result.Run) error {
	if h.world == nil {
		return fmt.Errorf("%s does not take part in %s", h.name, Overload)
	}
	if p.Connections < 1 || p.Connections >= workersMax || p.Rate == 0 && (p.Clients < 1 || p.Clients > p.Connections) {
		return fmt.Errorf("%d clients on %d connections cannot be", p.Clients, p.Connections)
	}
	if err := h.world.freshTokens(ctx); err != nil {
		return fmt.Errorf("%s gives no tokens: %w", h.name, err)
	}
	connections, err := wire.DialConnections(ctx, h.door.Address, p.Connections)
	if err != nil {
		return err
	}
	defer connections.Close()
	key := h.nextRun()
	caller := &caller{book: h.acknowledged.begin(), payloads: h.payloads}
	press := &press{
		Press: p, connections: connections, courier: h.postCourier(caller, 0), choice: h.choice(key, 0), run: key,
		members: make([]asking, p.Connections), tally: newTally(),
	}
	watched := press.watched(window)
	err = press.all(ctx)
	<-watched
	press.tally.fill(run, p)
	return err
}

// asking is the last request of a connection.
type asking struct {
	key Key
	to  int
	// due is when the request was due.
	due time.Time
}

// press is one step in progress. One goroutine does all of its work.
type press struct {
	Press
	connections *wire.Connections
	courier     *postCourier
	choice      *rand.Rand
	run         uint16
	members     []asking
	// start of the warm-up, and the edges of the window.
	start, begin, end time.Time
	arrivals          int64     // due since start
	clients           int       // of the closed loop, asking or resting
	resting           []resting // in the order in which they continue
	tally             *tally
	seconds           chan result.Second
	opened, closed    chan struct{}
}

// resting is a client of the closed loop that was refused and pauses.
type resting struct {
	member int
	until  time.Time
}

// watched calls the methods of window in another goroutine, because its readings take
// some time. over is closed after the last call.
func (p *press) watched(window load.Watch) (over <-chan struct{}) {
	p.seconds, p.opened, p.closed = make(chan result.Second, 600), make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-p.opened:
		case <-p.closed:
			return
		}
		window.Begin()
		for second := range p.seconds {
			window.Tick(second)
		}
		window.End()
	}()
	return done
}

// all warms up, measures, and waits for the remaining answers.
func (p *press) all(ctx context.Context) error {
	p.start = time.Now()
	p.begin = p.start.Add(p.WarmUp)
	p.end = p.begin.Add(p.Duration)
	err := p.pace(ctx)
	close(p.seconds)
	close(p.closed)
	if err != nil {
		return err
	}
	for deadline := p.end.Add(pressPatience); p.connections.Asked() > 0; {
		if time.Now().After(deadline) {
			p.connections.Break(time.Now(), p.heard)
		}
		if err := p.connections.Hear(10*time.Millisecond, p.heard); err != nil {
			return err
		}
	}
	return nil
}

// pace sends requests and reads answers until the window is over.
func (p *press) pace(ctx context.Context) error {
	opened := false
	next := p.begin.Add(time.Second)
	for {
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !opened && !now.Before(p.begin):
			opened = true
			close(p.opened)
		case !now.Before(p.end):
			if now.Sub(next.Add(-time.Second)) > 100*time.Millisecond {
				p.seconds <- p.tally.second()
			}
			return nil
		case !now.Before(next):
			p.seconds <- p.tally.second()
			next = next.Add(time.Second)
			p.connections.Break(now.Add(-pressPatience), p.heard)
		}
		wait := p.ask(now)
		if err := p.connections.Hear(min(wait, p.end.Sub(now), 10*time.Millisecond), p.heard); err != nil {
			return err
		}
	}
}

// ask sends the requests that are due, at most one burst, and returns the time until the
// next is due.
func (p *press) ask(now time.Time) (wait time.Duration) {
	if p.Rate == 0 {
		return p.askAgain(now)
	}
	due := int64(now.Sub(p.start).Seconds()*p.Rate) + 1
	for burst := 0; p.arrivals < due; p.arrivals++ {
		at := p.start.Add(time.Duration(float64(p.arrivals) / p.Rate * 1e9))
		if burst++; burst > pressBurst {
			return 0
		}
		i, idle := p.connections.Take()
		if !idle {
			p.tally.notOffered(p.inside(at))
			burst-- // nothing was sent
			continue
		}
		p.send(i, at)
	}
	return p.start.Add(time.Duration(float64(p.arrivals) / p.Rate * 1e9)).Sub(now)
}

// askAgain sends for the clients of the closed loop that do not rest, and returns the
// time until the next one continues.
func (p *press) askAgain(now time.Time) (wait time.Duration) {
	for len(p.resting) > 0 && !now.Before(p.resting[0].until) {
		p.resting = p.resting[1:]
		p.clients--
	}
	for p.clients < p.Clients {
		i, idle := p.connections.Take()
		if !idle {
			break
		}
		p.clients++
		p.send(i, time.Now())
	}
	if len(p.resting) > 0 {
		return p.resting[0].until.Sub(now)
	}
	return time.Second
}

func (p *press) inside(at time.Time) bool { return !at.Before(p.begin) && at.Before(p.end) }

func (p *press) send(i int, due time.Time) {
	m := &p.members[i]
	m.key.Run, m.key.Worker = p.run, uint32(i)
	m.key.N++
	m.to, m.due = p.choice.IntN(p.courier.agents), due
	sent := p.connections.Ask(i, p.courier.request(m.to, m.key))
	if p.inside(due) {
		p.tally.sent(sent.Sub(due))
	}
}

// heard records the outcome of a request.
func (p *press) heard(h wire.Heard) {
	m := &p.members[h.Member]
	refused := false
	switch {
	case m.due.IsZero(): // not sent: the connection could not be dialled again
		p.tally.failed("no connection: " + h.Err.Error())
		return
	case h.Err != nil:
		p.courier.book.lost(m.key)
		p.tally.failed(reasonOf(h.Err))
	default:
		refused = p.judge(h, m)
	}
	m.due = time.Time{}
	switch {
	case p.Rate > 0:
	case refused:
		p.resting = append(p.resting, resting{h.Member, h.At.Add(pressRest)})
	case p.clients > 0:
		p.clients--
	}
}

// reasonOf returns the key of an error in the report. There are few different keys.
func reasonOf(err error) string {
	if errors.Is(err, wire.ErrLate) {
		return fmt.Sprintf("no answer within %v", pressPatience)
	}
	return "the connection broke: " + err.Error()
}

// judge records an answer and reports whether it is a proper refusal.
func (p *press) judge(h wire.Heard, m *asking) (refused bool) {
	inside := p.inside(m.due)
	if h.Answer.Status == 429 || h.Answer.Status == 503 {
		if fault := p.refusal(h.Answer, m); fault != "" {
			p.tally.failed(fault)
		} else {
			p.tally.refused(inside, p.inside(h.At), h.At.Sub(h.Sent))
		}
		return true
	}
	recipient := p.courier.workers[m.to]
	got, err := p.courier.told(h.Answer, m.key, recipient.box)
	if err == nil && string(got.recipientHandle) != recipient.handle {
		err = wrong("another recipient than the one asked for")
	}
	if err != nil {
		p.tally.failed(err.Error())
		return false
	}
	p.tally.accepted(inside, p.inside(h.At), h.At.Sub(h.Sent), h.At.Sub(m.due))
	return false
}

// refusal describes what is wrong with a refusal, or returns "". A proper refusal has
// had no effect and says when to retry.
func (p *press) refusal(answer wire.Answer, m *asking) (fault string) {
	err, known := refusal(answer)
	if !known {
		p.courier.book.lost(m.key)
		return err.Error()
	}
	if seconds, err := strconv.Atoi(answer.RetryAfter); err != nil || seconds < 1 {
		return fmt.Sprintf("status %d without a whole number of seconds in Retry-After", answer.Status)
	}
	return ""
}
