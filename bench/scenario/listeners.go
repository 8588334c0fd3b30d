package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"parley/bench/load"
	"parley/bench/wire"
)

const (
	// listenersMost is the maximum number of members that have a stream while broadcasts are
	// measured.
	listenersMost = 8
	// copiesPatience bounds the time until all copies have arrived, and copiesPause is
	// the pause between two checks.
	copiesPatience = 30 * time.Second
	copiesPause    = 200 * time.Microsecond
)

// listeners are members of a group that receive broadcasts on their streams: some from all
// over the seats, and the last member.
type listeners struct {
	payloads *payloads
	patience time.Duration
	// since is the first run whose broadcasts they count.
	since   uint16
	owners  []*agent
	streams []*wire.Stream
	reading sync.WaitGroup

	mu      sync.Mutex
	landed  map[Key]*progress
	closing bool
	trouble error
}

// progress is one broadcast in progress.
type progress struct {
	// began is when the broadcast was sent, answered when its 201 arrived, last when the
	// last stream so far received it.
	began, answered, last time.Time
	id                    uuid
	received              int
	measured              bool
}

// listen opens the streams of the group. They count only keys of runs with numbers from now
// on.
func (f *fanout) listen(ctx context.Context) (*listeners, error) {
	h := f.host
	e := &listeners{
		payloads: h.payloads, patience: f.patience, since: h.run + 1,
		owners: f.group.spread(listenersMost, f.speakers), landed: map[Key]*progress{},
	}
	for _, owner := range e.owners {
		stream, err := h.listen(ctx, owner)
		if err != nil {
			e.close()
			return nil, fmt.Errorf("%s: a member's stream cannot be opened: %w", h.Name(), err)
		}
		e.streams = append(e.streams, stream)
		e.reading.Go(func() { e.listen(stream) })
	}
	return e, nil
}

// listen records the events of one stream until it ends. It checks that each member
// receives each broadcast once, and all in the order of their ids.
func (e *listeners) listen(stream *wire.Stream) {
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
		l.received++
		l.last = at
		e.mu.Unlock()
	}
}

// of returns the progress of key. The caller holds the lock.
func (e *listeners) of(key Key) *progress {
	l := e.landed[key]
	if l == nil {
		l = &progress{}
		e.landed[key] = l
	}
	return l
}

// answered records the 201 of a broadcast.
func (e *listeners) answered(key Key, id uuid, began, at time.Time, measured bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.of(key)
	l.id, l.began, l.answered, l.measured = id, began, at, measured
}

// await waits until every stream has received all answered broadcasts whose key satisfies
// which.
func (e *listeners) await(ctx context.Context, which func(Key) bool) error {
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
		time.Sleep(copiesPause)
	}
}

func (e *listeners) missing(which func(Key) bool) (n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, l := range e.landed {
		if which(key) && !l.answered.IsZero() && l.received < len(e.owners) {
			n++
		}
	}
	return n, e.trouble
}

// progress returns the state of one broadcast.
func (e *listeners) progress(key Key) progress {
	e.mu.Lock()
	defer e.mu.Unlock()
	return *e.of(key)
}

// answers returns the answered broadcasts of one run.
func (e *listeners) answers(run uint16) map[Key]progress {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[Key]progress{}
	for key, l := range e.landed {
		if key.Run == run && !l.answered.IsZero() {
			all[key] = *l
		}
	}
	return all
}

func (e *listeners) close() {
	e.mu.Lock()
	e.closing = true
	for _, stream := range e.streams {
		_ = stream.Close()
	}
	e.mu.Unlock()
	e.reading.Wait()
}

// sampleMost is the maximum number of members whose inboxes are read back after each run.
const sampleMost = 16

// check reads the inboxes of a sample of the members back to the start of the run and
// compares them with the acknowledged messages. Each difference is a failure of the run.
func (f *fanoutRun) check(ctx context.Context) error {
	expected := map[Key]uuid{}
	for _, run := range []uint16{f.alone, f.concurrent} {
		for key, l := range f.listeners.answers(run) {
			expected[key] = l.id
		}
	}
	var lost map[Key]bool // messages without an answer may be stored
	for _, c := range f.host.acknowledged.openLostCasts() {
		if lost == nil {
			lost = map[Key]bool{}
		}
		lost[c.key] = true
	}
	for _, owner := range f.group.spread(sampleMost, f.speakers) {
		err := f.checkInbox(ctx, owner, expected, lost)
		if refused := (load.Refused{}); errors.As(err, &refused) {
			f.run.Failures++
			addReason(f.run, refused.Reason, 1)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkInbox reads one inbox, newest first, back to the messages of earlier runs.
func (f *fanoutRun) checkInbox(ctx context.Context, owner *agent, expected map[Key]uuid, lost map[Key]bool) error {
	conn, err := wire.DialHTTP(ctx, f.host.Endpoint().Address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	found, over := 0, false
	var newer uuid
	base := "/agents/" + owner.id.String() + "/messages?limit=100"
	for path := base; !over; {
		if err := ctx.Err(); err != nil {
			return err
		}
		answer, err := conn.Do(wire.Request("GET", path, owner.org.token, nil, nil))
		if err != nil {
			return err
		}
		if answer.Status != 200 {
			err, _ := refusal(answer)
			return err
		}
		p, err := readPage(answer.Body, func(m message) error {
			key, sound := f.host.payloads.read(m.payload)
			if over = over || sound && key.Run < f.alone; over {
				return nil
			}
			id := broadcastOf(m.id)
			want, known := expected[key]
			switch {
			case !sound:
				return wrong("a copy with a payload that nobody sent")
			case newer != (uuid{}) && bytes.Compare(id[:], newer[:]) >= 0:
				return wrong("copies twice or not in the order of the group")
			case known && id != want, !known && !lost[key]:
				return wrong("a copy of no broadcast")
			case known:
				found++
			}
			newer = id
			return nil
		})
		if err != nil {
			return err
		}
		over = over || !p.hasMore
		path = base + "&cursor=" + escapeCursor(p.cursor)
	}
	if found != len(expected) {
		return wrong("an inbox that lacks acknowledged broadcasts")
	}
	return nil
}
