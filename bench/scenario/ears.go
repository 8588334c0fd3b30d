package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"parley/bench/wire"
)

const (
	// earsMost is the maximum number of members that have a stream while broadcasts are
	// measured.
	earsMost = 8
	// landingPatience bounds the time until all copies have arrived, and landingNap is
	// the pause between two checks.
	landingPatience = 30 * time.Second
	landingNap      = 200 * time.Microsecond
)

// ears are members of a group that receive broadcasts on their streams: some from all
// over the seats, and the last member.
type ears struct {
	payloads *payloads
	patience time.Duration
	// since is the first run whose broadcasts they count.
	since   uint16
	owners  []*agent
	streams []*wire.Stream
	reading sync.WaitGroup

	mu      sync.Mutex
	landed  map[Key]*landing
	closing bool
	trouble error
}

// landing is one broadcast in progress.
type landing struct {
	// began is when the broadcast was sent, answered when its 201 arrived, last when the
	// last stream so far received it.
	began, answered, last time.Time
	id                    uuid
	heard                 int
	measured              bool
}

// spread picks at most n members other than speakers, from all over the seats, including
// the last.
func (g *assembly) spread(n int, speakers []*agent) []*agent {
	var others, picked []*agent
	for _, m := range g.members {
		if !slices.Contains(speakers, m) {
			others = append(others, m)
		}
	}
	n = min(n, len(others))
	for i := range n {
		picked = append(picked, others[(i+1)*len(others)/n-1])
	}
	return picked
}

// ears opens the streams of a group. They count only keys of runs with numbers from now
// on.
func (h *Host) ears(ctx context.Context, g *assembly) (*ears, error) {
	e := &ears{
		payloads: h.payloads, patience: h.patience, since: h.run + 1,
		owners: g.spread(earsMost, h.speakers), landed: map[Key]*landing{},
	}
	for _, owner := range e.owners {
		stream, err := h.listen(ctx, owner)
		if err != nil {
			e.close()
			return nil, fmt.Errorf("%s: a member's stream cannot be opened: %w", h.name, err)
		}
		e.streams = append(e.streams, stream)
		e.reading.Go(func() { e.listen(stream) })
	}
	return e, nil
}

// listen records the events of one stream until it ends. It checks that each member
// receives each broadcast once, and all in the order of their ids.
func (e *ears) listen(stream *wire.Stream) {
	var last uuid
	for {
		m, key, err := nextMessage(stream, e.payloads)
		at := time.Now()
		if err == nil && key.Run < e.since {
			continue
		}
		id := broadcastOf(m.id)
		if err == nil && bytes.Compare(id[:], last[:]) <= 0 {
			err = errors.New("wrong answer: a stream brings copies twice or out of order")
		}
		last = id
		e.mu.Lock()
		if err != nil {
			if !e.closing && e.trouble == nil {
				e.trouble = fmt.Errorf("the stream of a member: %w", err)
			}
			e.mu.Unlock()
			return
		}
		l := e.of(key)
		l.heard++
		l.last = at
		e.mu.Unlock()
	}
}

// of returns the landing of key. The caller holds the lock.
func (e *ears) of(key Key) *landing {
	l := e.landed[key]
	if l == nil {
		l = &landing{}
		e.landed[key] = l
	}
	return l
}

// answered records the 201 of a broadcast.
func (e *ears) answered(key Key, id uuid, began, at time.Time, measured bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.of(key)
	l.id, l.began, l.answered, l.measured = id, began, at, measured
}

// await waits until every stream has received all answered broadcasts whose key satisfies
// which.
func (e *ears) await(ctx context.Context, which func(Key) bool) error {
	for patience := time.Now().Add(e.patience); ; {
		missing, err := e.missing(which)
		switch {
		case err != nil:
			return err
		case missing == 0:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(patience):
			return fmt.Errorf("%d broadcasts were not with all of %d members within %v", missing, len(e.owners), e.patience)
		}
		time.Sleep(landingNap)
	}
}

func (e *ears) missing(which func(Key) bool) (n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, l := range e.landed {
		if which(key) && !l.answered.IsZero() && l.heard < len(e.owners) {
			n++
		}
	}
	return n, e.trouble
}

// landing returns the state of one broadcast.
func (e *ears) landing(key Key) landing {
	e.mu.Lock()
	defer e.mu.Unlock()
	return *e.of(key)
}

// answers returns the answered broadcasts of one run.
func (e *ears) answers(run uint16) map[Key]landing {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[Key]landing{}
	for key, l := range e.landed {
		if key.Run == run && !l.answered.IsZero() {
			all[key] = *l
		}
	}
	return all
}

func (e *ears) close() {
	e.mu.Lock()
	e.closing = true
	for _, stream := range e.streams {
		_ = stream.Close()
	}
	e.mu.Unlock()
	e.reading.Wait()
}
