package host

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/client/parley"
)

// messageSink receives the messages of a mailbox.
type messageSink struct {
	mu       sync.Mutex
	messages []any
	pause    chan struct{} // if set, each message waits for it
}

func (k *messageSink) InvokeUserMessage(m any) {
	if k.pause != nil {
		<-k.pause
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.messages = append(k.messages, m)
}

func (k *messageSink) InvokeSystemMessage(m any)               { k.InvokeUserMessage(m) }
func (k *messageSink) EscalateFailure(reason any, message any) {}
func (k *messageSink) count() int                              { k.mu.Lock(); defer k.mu.Unlock(); return len(k.messages) }

func openMailbox(k *messageSink) *mailbox {
	m := newMailbox()
	m.RegisterHandlers(k, actor.NewDefaultDispatcher(300))
	m.open()
	return m
}

// post puts an ask into a mailbox and returns it.
func post(m *mailbox, pool *askPool) *ask {
	a := pool.ask(look{}, time.Now().Add(time.Minute), func() {})
	m.PostUserMessage(a)
	return a
}

func TestFullMailboxRejectsAtOnce(t *testing.T) {
	k, pool := &messageSink{pause: make(chan struct{})}, &askPool{}
	m := openMailbox(k)
	post(m, pool)
	eventually(t, "the first is being handled", func() bool { return m.UserMessageCount() == 0 })
	var waiting []*ask
	for range mailboxMax {
		waiting = append(waiting, post(m, pool))
	}
	for range 100 {
		if _, err := post(m, pool).wait(time.Minute); !errors.Is(err, parley.ErrOverloaded) {
			t.Fatalf("above the limit: %v", err)
		}
	}
	for _, a := range waiting {
		if a.state.Load() != askPending {
			t.Fatal("an accepted ask was answered already")
		}
	}
	if !m.hint(toDrain) {
		t.Error("a full mailbox rejects a hint")
	}
	close(k.pause)
	eventually(t, "all are handled", func() bool { return k.count() == mailboxMax+2 })
	if _, first := k.messages[1].(hint); !first {
		t.Errorf("the hint was handled after %T", k.messages[1])
	}
	if a := post(m, pool); a.state.Load() != askPending {
		t.Error("an emptied mailbox rejects an ask")
	}
}

func TestClosedMailboxRejectsEverything(t *testing.T) {
	k, pool := &messageSink{}, &askPool{}
	m := newMailbox() // closed: asks wait
	m.RegisterHandlers(k, actor.NewDefaultDispatcher(300))
	var waiting []*ask
	for range 10 {
		waiting = append(waiting, post(m, pool))
	}
	m.PostUserMessage(sweep{})
	m.hint(toDrain)
	m.hint(toWork)
	if m.close(errStopped) != toDrain|toWork {
		t.Error("a pending hint was lost")
	}
	for _, a := range append(waiting, post(m, pool)) {
		if _, err := a.wait(time.Minute); !errors.Is(err, errStopped) {
			t.Fatalf("rejected with %v", err)
		}
	}
	if m.hint(toDrain) || m.close(errStopped) != 0 {
		t.Error("a closed mailbox accepts hints")
	}
	m.open()
	m.PostSystemMessage(&actor.Stop{})
	eventually(t, "system messages pass", func() bool { return k.count() == 1 })
}

// TestMailboxKeepsOrderAndLosesNothing posts from many goroutines while the mailbox is
// closed.
func TestMailboxKeepsOrderAndLosesNothing(t *testing.T) {
	const posters, each, rejected = 16, 2500, 100
	var posted, handled, refused atomic.Int64
	pool := &askPool{}
	k := &orderCheck{handled: &handled, last: map[int]int{}, t: t}
	m := newMailbox()
	m.RegisterHandlers(k, actor.NewDefaultDispatcher(300))
	m.open()
	var posting sync.WaitGroup
	for p := range posters {
		posting.Go(func() {
			for n, mine := 1, 0; mine < rejected; n++ {
				a := pool.ask([2]int{p, n}, time.Now().Add(time.Minute), func() {})
				posted.Add(1)
				m.PostUserMessage(a)
				switch _, err := a.wait(time.Minute); {
				case errors.Is(err, errStopped):
					refused.Add(1)
					mine++
				case err != nil:
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	eventually(t, "many are through", func() bool { return handled.Load() > posters*each })
	m.close(errStopped)
	posting.Wait()
	if sum := handled.Load() + refused.Load(); sum != posted.Load() {
		t.Errorf("%d asks got %d answers", posted.Load(), sum)
	}
}

// orderCheck answers every ask and checks the order in which they arrive.
type orderCheck struct {
	t       *testing.T
	handled *atomic.Int64
	last    map[int]int
}

func (k *orderCheck) InvokeUserMessage(m any) {
	a := m.(*ask)
	said := a.command.([2]int)
	if said[1] <= k.last[said[0]] {
		k.t.Errorf("poster %d: %d after %d", said[0], said[1], k.last[said[0]])
	}
	k.last[said[0]] = said[1]
	k.handled.Add(1)
	a.complete(nil, nil)
}
func (k *orderCheck) InvokeSystemMessage(any)  {}
func (k *orderCheck) EscalateFailure(_, _ any) {}

// TestReusedAskIgnoresEarlierAnswer races answers against deadlines with a few asks
// that are reused.
func TestReusedAskIgnoresEarlierAnswer(t *testing.T) {
	pool := &askPool{}
	var inTime, late, rooms atomic.Int64
	var asking sync.WaitGroup
	const askers, each = 8, 2000
	for asker := range askers {
		asking.Go(func() {
			for n := range each {
				mine := asker*each + n
				a := pool.ask(mine, time.Now().Add(time.Minute), func() { rooms.Add(1) })
				patience := time.Duration(n%40) * time.Microsecond
				go func() {
					time.Sleep(20 * time.Microsecond)
					a.complete(mine, nil)
				}()
				switch reply, err := a.wait(patience); {
				case errors.Is(err, parley.ErrOutcomeUnknown):
					late.Add(1)
				case err != nil || reply != mine:
					t.Errorf("ask %d got %v, %v", mine, reply, err)
					return
				default:
					inTime.Add(1)
				}
			}
		})
	}
	asking.Wait()
	if inTime.Load() == 0 || late.Load() == 0 {
		t.Errorf("%d answers in time, %d late: there was no race", inTime.Load(), late.Load())
	}
	eventually(t, "all room is given back, once", func() bool { return rooms.Load() == askers*each })
}

// TestCapacityIsHeldUntilTheAnswer: an ask that is retried keeps its capacity. One that
// timed out returns it when the actor answers.
func TestCapacityIsHeldUntilTheAnswer(t *testing.T) {
	pool, rooms := &askPool{}, 0
	room := func() { rooms++ }
	a := pool.ask(1, time.Time{}, room)
	a.complete(nil, errStopped)
	if _, err := a.wait(time.Minute); !errors.Is(err, errStopped) || rooms != 0 {
		t.Errorf("rejected with %v, capacity returned %d times", err, rooms)
	}
	a = pool.ask(1, time.Time{}, room)
	if _, err := a.wait(0); !errors.Is(err, parley.ErrOutcomeUnknown) || rooms != 0 {
		t.Errorf("timed out with %v, capacity returned %d times", err, rooms)
	}
	a.complete(nil, errStopped)
	if rooms != 1 {
		t.Errorf("capacity returned %d times after the abandoned ask was rejected", rooms)
	}
}
