package host

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"parley/client/parley"
)

// errStopped means that the actor was dropped before it took the message: ask again.
var errStopped = errors.New("the actor has stopped")

// AnswerTimeout is how long a caller waits for an answer before it is told
// parley.ErrOutcomeUnknown.
const AnswerTimeout = 10 * time.Second

const (
	askPending int32 = iota
	askDone
	askAbandoned
)

// ask is one request to an actor and the place for its answer. Asks are pooled. When
// the answer and the timeout race, the loser leaves the ask to the winner, so that a
// late answer never reaches an ask that is in use again.
type ask struct {
	command  any
	payer    *parley.Payer
	deadline time.Time
	reply    any
	err      error
	state    atomic.Int32
	ready    chan struct{}
	timer    *time.Timer
	// release frees the room that was admitted for the request. It is called when
	// the request is answered, even if its caller has given up.
	release func()
	pool    *askPool
	// silent: no caller waits for the answer.
	silent bool
}

// askPool keeps asks for reuse. Each engine has its own.
type askPool struct {
	cells sync.Pool
	// refused counts asks that a full mailbox rejected, overdue those that timed out.
	refused, overdue atomic.Uint64
}

func (p *askPool) ask(command any, deadline time.Time, release func()) *ask {
	a, _ := p.cells.Get().(*ask)
	if a == nil {
		a = &ask{ready: make(chan struct{}, 1), timer: time.NewTimer(time.Hour), pool: p}
		a.timer.Stop()
	}
	a.command, a.deadline, a.release = command, deadline, release
	a.state.Store(askPending)
	return a
}

// complete answers the ask. It is called exactly once for each use.
func (a *ask) complete(reply any, err error) {
	if a.silent {
		return
	}
	a.reply, a.err = reply, err
	release := a.release
	if !errors.Is(err, errStopped) {
		release()
	}
	if a.state.CompareAndSwap(askPending, askDone) {
		a.ready <- struct{}{}
		return
	}
	if errors.Is(err, errStopped) {
		release() // no caller is there to ask again
	}
	a.recycle()
}

// wait gives the answer, or parley.ErrOutcomeUnknown after the timeout.
func (a *ask) wait(timeout time.Duration) (any, error) {
	a.timer.Reset(timeout)
	select {
	case <-a.ready:
		a.timer.Stop()
	case <-a.timer.C:
		if a.state.CompareAndSwap(askPending, askAbandoned) {
			a.pool.overdue.Add(1)
			return nil, parley.ErrOutcomeUnknown // complete recycles the ask
		}
		<-a.ready
	}
	reply, err := a.reply, a.err
	a.recycle()
	return reply, err
}

func (a *ask) recycle() {
	a.command, a.payer, a.reply, a.err, a.release = nil, nil, nil, nil, nil
	a.pool.cells.Put(a)
}
