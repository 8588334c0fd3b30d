package apply

import (
	"slices"

	"parley/journal"
)

// lengths knows how many events streams have, those of the batch included.
type lengths struct {
	state *State
	rows  Rows
	// changed are the lengths of streams that this batch created, extended as hosted, or
	// retired: rows does not show them yet.
	changed map[journal.Stream]uint64
}

// continues reports whether the appends to hosted streams begin where those end.
func (l *lengths) continues(hosted []journal.StreamAppend) (bool, error) {
	for i := range hosted {
		c := &hosted[i]
		if again := slices.IndexFunc(hosted[:i], func(x journal.StreamAppend) bool { return x.Stream == c.Stream }); again >= 0 {
			return false, nil // one append to a stream per entry
		}
		if agrees, err := l.ends(c.Stream, c.Expect); err != nil || !agrees {
			return false, err
		}
	}
	return true, nil
}

// length is the number of events of a stream, this batch included.
func (l *lengths) length(s journal.Stream) (uint64, error) {
	if have, ok := l.state.activations[s]; ok && !have.unknown {
		return have.seq, nil
	}
	if n, ok := l.changed[s]; ok {
		return n, nil
	}
	return l.rows.Length(s)
}

// ends reports whether a stream has n events, this batch included.
func (l *lengths) ends(s journal.Stream, n uint64) (bool, error) {
	if have, ok := l.changed[s]; ok {
		return have == n, nil
	}
	return l.rows.Ends(s, n)
}

// remember keeps the length of a stream for the rest of the batch.
func (l *lengths) remember(s journal.Stream, n uint64) {
	if l.changed == nil {
		l.changed = map[journal.Stream]uint64{}
	}
	l.changed[s] = n
}
