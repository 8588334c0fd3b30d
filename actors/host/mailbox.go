package host

import (
	"runtime"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"parley/client/parley"
)

// mailboxMax is how many messages may wait for one actor.
const mailboxMax = 4096

// mailbox queues messages for one actor. It never blocks the sender and never
// drops an ask: one that it cannot take it answers with a refusal.
//
// It starts shut: messages wait until the journal has applied the actor's
// activation.
type mailbox struct {
	invoker    actor.MessageInvoker
	dispatcher actor.Dispatcher

	mu      sync.Mutex
	user    []any
	head    int
	system  []any
	running bool
	shut    bool
	closed  bool
	// hinted is what the actor has not done yet.
	hinted hint
}

// hint is what an actor is to do besides handling requests.
type hint uint8

const (
	// toDrain: there are messages in its durable queue.
	toDrain hint = 1 << iota
	// toWork: its kind's Work has something to do.
	toWork
)

func newMailbox() *mailbox { return &mailbox{shut: true} }

// RegisterHandlers implements actor.Mailbox. It is called before anything is posted.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.invoker, m.dispatcher = invoker, dispatcher
}

// Start implements actor.Mailbox; there is nothing to start.
func (m *mailbox) Start() {}

// UserMessageCount is how many messages wait.
func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.user) - m.head
}

// PostUserMessage queues a message, or refuses it.
func (m *mailbox) PostUserMessage(message any) {
	m.mu.Lock()
	switch {
	case m.closed:
		m.mu.Unlock()
		refuse(message, errStopped)
		return
	case len(m.user)-m.head >= mailboxMax:
		m.mu.Unlock()
		if a, ok := message.(*ask); ok && !a.silent {
			a.pool.refused.Add(1)
		}
		refuse(message, parley.ErrOverloaded)
		return
	}
	if m.head > 0 && len(m.user) == cap(m.user) { // make room at the front
		left := copy(m.user, m.user[m.head:])
		clear(m.user[left:])
		m.user, m.head = m.user[:left], 0
	}
	m.user = append(m.user, message)
	m.schedule()
}

// PostSystemMessage queues a message of the actor system.
func (m *mailbox) PostSystemMessage(message any) {
	m.mu.Lock()
	m.system = append(m.system, message)
	m.schedule()
}

// hint has the actor do something before it takes another message. It reports false
// if the mailbox is closed.
func (m *mailbox) hint(what hint) bool {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return false
	}
	m.hinted |= what
	m.schedule()
	return true
}

// open lets messages through to the actor.
func (m *mailbox) open() {
	m.mu.Lock()
	m.shut = false
	m.schedule()
}

// close refuses all messages, queued and later ones, and gives the hints that the
// actor has not taken.
func (m *mailbox) close(reason error) (hinted hint) {
	m.mu.Lock()
	hinted, m.closed, m.hinted = m.hinted, true, 0
	left := m.user[m.head:]
	m.user, m.head = nil, 0
	m.mu.Unlock()
	for _, message := range left {
		refuse(message, reason)
	}
	return hinted
}

// schedule unlocks and has the actor run, unless it runs already.
func (m *mailbox) schedule() {
	start := !m.running && (len(m.system) > 0 || (!m.shut && (m.hinted != 0 || m.head < len(m.user))))
	if start {
		m.running = true
	}
	m.mu.Unlock()
	if start {
		m.dispatcher.Schedule(m.run)
	}
}

// run hands messages to the actor until none is left.
func (m *mailbox) run() {
	for handled := 1; ; handled++ {
		message, system := m.next()
		switch message.(type) {
		case nil:
			return
		case *actor.SuspendMailbox, *actor.ResumeMailbox: // a failing actor is dropped, never suspended
		default:
			if system {
				m.invoker.InvokeSystemMessage(message)
			} else {
				m.invoker.InvokeUserMessage(message)
			}
		}
		if handled%m.dispatcher.Throughput() == 0 {
			runtime.Gosched()
		}
	}
}

func (m *mailbox) next() (message any, system bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case len(m.system) > 0:
		message, m.system = m.system[0], m.system[1:]
		if len(m.system) == 0 {
			m.system = nil
		}
		return message, true
	case m.shut:
	case m.hinted != 0:
		message, m.hinted = m.hinted, 0
		return message, false
	case m.head < len(m.user):
		message = m.user[m.head]
		m.user[m.head] = nil
		if m.head++; m.head == len(m.user) {
			m.rewind()
		}
		return message, false
	}
	m.running = false
	return nil, false
}

// rewind reuses the empty queue, unless a burst has made it large.
func (m *mailbox) rewind() {
	if m.head = 0; cap(m.user) > 64 {
		m.user = nil
		return
	}
	m.user = m.user[:0]
}

// refuse answers an ask that no actor will answer. Other messages need no answer.
func refuse(message any, reason error) {
	if a, ok := message.(*ask); ok {
		a.complete(nil, reason)
	}
}
