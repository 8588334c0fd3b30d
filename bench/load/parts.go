package load

import (
	"sync"
	"time"
)

// sharedBy is how many of these there are at most in a run: a histogram takes 150 KB, and an
// overload has thousands of workers.
const sharedBy = 64

// distributions are those of the workers that share them.
type distributions struct {
	mu sync.Mutex
	// service is the same histogram as latency in a closed loop.
	latency, service *Histogram
	// parts holds the parts that clients noted.
	parts map[string]*Histogram
}

func newDistributions(rate float64) *distributions {
	d := &distributions{latency: NewHistogram(), parts: map[string]*Histogram{}}
	if d.service = d.latency; rate > 0 {
		d.service = NewHistogram()
	}
	return d
}

// operation records an operation that was due, sent and answered at these times.
func (d *distributions) operation(due, sent, answered time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.latency.Record(answered.Sub(due))
	if d.service != d.latency {
		d.service.Record(answered.Sub(sent))
	}
}

// neverSent records how long an arrival waited that was given up.
func (d *distributions) neverSent(waited time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.latency.Record(waited)
}

// part records how long a part of an operation took.
func (d *distributions) part(name string, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.parts[name] == nil {
		d.parts[name] = NewHistogram()
	}
	d.parts[name].Record(took)
}

// Parts records the durations of parts of a client's operations. Each worker has its own,
// which is used only within Do. The zero Parts record nothing.
type Parts struct {
	intended time.Time
	measured bool
	into     *distributions
}

// Note records that the part called name took d, usually measured from Intended. The same
// name may be noted several times in one operation. Notes of the warm-up are dropped.
func (l *Parts) Note(name string, d time.Duration) {
	if l.measured {
		l.into.part(name, d)
	}
}

// Intended returns when the current operation should have started: its arrival in an open
// loop, its actual start in a closed loop.
func (l *Parts) Intended() time.Time { return l.intended }

// Measured reports whether the current operation belongs to the measured window.
func (l *Parts) Measured() bool { return l.measured }
