package export

import (
	"sync"
	"time"
)

// speed is how fast a reader takes its export.
type speed struct {
	mu sync.Mutex
	// sent is how many bytes the reader has taken, waited how long the server waited for it, up to
	// since, the beginning of a write that has not ended; zero if there is none.
	sent   int64
	waited time.Duration
	since  time.Time
	// The same when judging began, at an instant.
	judged     time.Time
	sentThen   int64
	waitedThen time.Duration
}

func (p *speed) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = now
}

func (p *speed) end(now time.Time, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent, p.waited, p.since = p.sent+int64(n), p.waited+now.Sub(p.since), time.Time{}
}

// rate returns how many bytes a second the reader took since it was last asked. known is false if that
// says nothing of the reader: it was asked for the first time or too recently, or the server had less
// than half of the time something for it.
func (p *speed) rate(now time.Time) (rate float64, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waited := p.waited
	if !p.since.IsZero() {
		waited += now.Sub(p.since)
	}
	over := now.Sub(p.judged)
	if over < judgedOver {
		return 0, false
	}
	rate, known = float64(p.sent-p.sentThen)/over.Seconds(), over < 2*judgedOver && waited-p.waitedThen > over/2
	p.judged, p.sentThen, p.waitedThen = now, p.sent, waited
	return rate, known
}
