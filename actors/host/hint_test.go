package host

import (
	"testing"
)

// TestHintOutlivesItsActivation: an actor receives a hint and is passivated before it
// drains its queue. Its next activation drains the queue without a request.
func TestHintOutlivesItsActivation(t *testing.T) {
	e, l := newEngine(t, 1)
	s := streamOf(1)
	entered, leave := make(chan struct{}), make(chan struct{})
	busy := askInBackground(e, s, hold{entered, leave})
	<-entered
	l.enqueueNumber(s, 5)
	e.Drain(s)
	e.drop(e.actor(s), errStopped)
	close(leave)
	<-busy
	eventually(t, "the word is heard", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.stream(s).queue) == 0
	})
}
