package scenario

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"parley/bench/load"
	"parley/bench/scenario/host"
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
	payloads *host.Payloads
	patience time.Duration
	// since is the first run whose broadcasts they count.
	since   uint16
	owners  []*host.Agent
	streams []*wire.Stream
	reading sync.WaitGroup

	mu      sync.Mutex
	landed  map[host.Key]*progress
	closing bool
	trouble error
}

// progress is one broadcast in progress.
type progress struct {
	// began is when the broadcast was sent, answered when its 201 arrived, last when the
	// last stream so far received it.
	began, answered, last time.Time
	id                    host.UUID
	received              int
	measured              bool
}

// listen opens the streams of the group. They count only keys of runs with numbers from now
// on.
func (f *fanout) listen(ctx context.Context) (*listeners, error) {
	h := f.host
	e := &listeners{
		payloads: h.Payloads, patience: f.patience, since: h.Run + 1,
		owners: f.group.Spread(listenersMost, f.speakers), landed: map[host.Key]*progress{},
	}
	for _, owner := range e.owners {
		stream, err := h.Listen(ctx, owner)
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
	var last host.UUID
	for {
		m, key, err := host.NextMessage(stream, e.payloads)
		at := time.Now()
		if err == nil && key.Run < e.since {
			continue
		}
		id := host.BroadcastOf(m.ID)
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
func (e *listeners) of(key host.Key) *progress {
	l := e.landed[key]
	if l == nil {
		l = &progress{}
		e.landed[key] = l
	}
	return l
}

// answered records the 201 of a broadcast.
func (e *listeners) answered(key host.Key, id host.UUID, began, at time.Time, measured bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.of(key)
	l.id, l.began, l.answered, l.measured = id, began, at, measured
}

// await waits until every stream has received all answered broadcasts whose key satisfies
// which.
func (e *listeners) await(ctx context.Context, which func(host.Key) bool) error {
	var missing int
	inTime, err := host.Poll(ctx, e.patience, copiesPause, func() (_ bool, err error) {
		missing, err = e.missing(which)
		return missing == 0, err
	})
	if err == nil && !inTime {
		err = fmt.Errorf("%d broadcasts were not with all of %d members within %v", missing, len(e.owners), e.patience)
	}
	return err
}

func (e *listeners) missing(which func(host.Key) bool) (n int, err error) {
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
func (e *listeners) progress(key host.Key) progress {
	e.mu.Lock()
	defer e.mu.Unlock()
	return *e.of(key)
}

// answers returns the answered broadcasts of one run.
func (e *listeners) answers(run uint16) map[host.Key]progress {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[host.Key]progress{}
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
	expected := map[host.Key]host.UUID{}
	for _, run := range []uint16{f.alone, f.concurrent} {
		for key, l := range f.listeners.answers(run) {
			expected[key] = l.id
		}
	}
	lost := map[host.Key]bool{} // messages without an answer may be stored
	for _, c := range f.host.Log.OpenLostBroadcasts() {
		lost[c.Key] = true
	}
	for _, owner := range f.group.Spread(sampleMost, f.speakers) {
		err := f.checkInbox(ctx, owner, expected, lost)
		if refused := (load.Refused{}); errors.As(err, &refused) {
			f.run.Failures++
			host.AddReason(f.run, refused.Reason, 1)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkInbox reads one inbox, newest first, back to the messages of earlier runs.
func (f *fanoutRun) checkInbox(ctx context.Context, owner *host.Agent, expected map[host.Key]host.UUID, lost map[host.Key]bool) error {
	found := 0
	var newer host.UUID
	err := host.ReadInbox(ctx, f.host.Endpoint().Address, owner, func(m host.Message) error {
		key, sound := f.host.Payloads.Read(m.Payload)
		if sound && key.Run < f.alone {
			return host.ErrEnough
		}
		id := host.BroadcastOf(m.ID)
		want, known := expected[key]
		switch {
		case !sound:
			return host.Wrong("a copy with a payload that nobody sent")
		case newer != (host.UUID{}) && bytes.Compare(id[:], newer[:]) >= 0:
			return host.Wrong("copies twice or not in the order of the group")
		case known && id != want, !known && !lost[key]:
			return host.Wrong("a copy of no broadcast")
		case known:
			found++
		}
		newer = id
		return nil
	})
	if err == nil && found != len(expected) {
		err = host.Wrong("an inbox that lacks acknowledged broadcasts")
	}
	return err
}
