package actors

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"parley"
)

// errStopped says that the actor went away before it took the message: ask again.
var errStopped = errors.New("the actor has stopped")

// askPatience is how long an asker waits for an answer whose outcome it then
// does not know.
const askPatience = 10 * time.Second

const (
	askPending int32 = iota
	askDone
	askAbandoned
)

// ask is one question to an actor and the place for its answer. Asks are
// pooled. Whoever loses the race between answer and deadline leaves the cell to
// the other, so that a late answer never reaches a cell in its next life.
type ask struct {
	command  any
	deadline time.Time
	reply    any
	err      error
	state    atomic.Int32
	ready    chan struct{}
	timer    *time.Timer
	// room is the space in the journal that was taken for the ask. It is given
	// back when the ask is answered, be the asker still there or not.
	room func()
	pool *askPool
	// silent asks have nobody waiting.
	silent bool
}

// askPool keeps used cells. Each engine has its own.
type askPool struct {
	cells sync.Pool
	// turned counts asks that a full mailbox refused, overdue those whose answer
	// nobody waited for any more.
	turned, overdue atomic.Uint64
}

func (p *askPool) ask(command any, deadline time.Time, room func()) *ask {
	a, _ := p.cells.Get().(*ask)
	if a == nil {
		a = &ask{ready: make(chan struct{}, 1), timer: time.NewTimer(time.Hour), pool: p}
		a.timer.Stop()
	}
	a.command, a.deadline, a.room = command, deadline, room
	a.state.Store(askPending)
	return a
}

// complete answers the ask. Only one call may be made per asking.
func (a *ask) complete(reply any, err error) {
	if a.silent {
		return
	}
	a.reply, a.err = reply, err
	room := a.room
	if !errors.Is(err, errStopped) {
		room()
	}
	if a.state.CompareAndSwap(askPending, askDone) {
		a.ready <- struct{}{}
		return
	}
	if errors.Is(err, errStopped) {
		room() // nobody is there to ask again
	}
	a.recycle()
}

// wait gives the answer, or ErrOutcomeUnknown when patience runs out.
func (a *ask) wait(patience time.Duration) (any, error) {
	a.timer.Reset(patience)
	select {
	case <-a.ready:
		a.timer.Stop()
	case <-a.timer.C:
		if a.state.CompareAndSwap(askPending, askAbandoned) {
			a.pool.overdue.Add(1)
			return nil, parley.ErrOutcomeUnknown // complete recycles
		}
		<-a.ready
	}
	reply, err := a.reply, a.err
	a.recycle()
	return reply, err
}

func (a *ask) recycle() {
	a.command, a.reply, a.err, a.room = nil, nil, nil, nil
	a.pool.cells.Put(a)
}
