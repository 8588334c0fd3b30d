package host

import (
	"testing"
)

// TestAHintOutlivesItsActor: an actor goes that has been told of a word and has
// not looked; the next one does, though nobody speaks to it.
func TestAHintOutlivesItsActor(t *testing.T) {
	e, l := tallies(t, 1)
	s := streamOf(1)
	entered, leave := make(chan struct{}), make(chan struct{})
	busy := asking(e, s, hold{entered, leave})
	<-entered
	l.tell(s, 5)
	e.Drain(s)
	e.drop(e.actor(s), errStopped)
	close(leave)
	<-busy
	eventually(t, "the word is heard", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.stream(s).tray) == 0
	})
}
