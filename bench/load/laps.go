package load

import "time"

// Laps is where a client notes parts of its operations. Each worker has one; it
// is used only within Do.
type Laps struct {
	intended time.Time
	measured bool
	noted    map[string]*Histogram
}

// Note records that the part called name took d, usually from Intended. The same
// name may be noted several times in one operation. Notes of the warm-up are
// dropped.
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

// Intended is when the current operation should have started: its arrival in an
// open loop, its real start in a closed one.
func (l *Laps) Intended() time.Time { return l.intended }

// Measured reports whether the current operation belongs to the measured window.
func (l *Laps) Measured() bool { return l.measured }
