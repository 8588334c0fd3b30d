package load

import "time"

// Laps records the durations of parts of a client's operations. Each worker has its own,
// which is used only within Do.
type Laps struct {
	intended time.Time
	measured bool
	noted    map[string]*Histogram
}

// NewLaps returns laps for a client that is used outside of a run. They record nothing.
func NewLaps() *Laps { return &Laps{noted: make(map[string]*Histogram)} }

// Note records that the part called name took d, usually measured from Intended. The same
// name may be noted several times in one operation. Notes of the warm-up are dropped.
func (l *Laps) Note(name string, d time.Duration) {
	histogram := l.noted[name]
	if histogram == nil {
		histogram = NewHistogram()
		l.noted[name] = histogram
	}
	if l.measured {
		histogram.Record(d)
	}
}

// Intended returns when the current operation should have started: its arrival in an open
// loop, its actual start in a closed loop.
func (l *Laps) Intended() time.Time { return l.intended }

// Measured reports whether the current operation belongs to the measured window.
func (l *Laps) Measured() bool { return l.measured }
