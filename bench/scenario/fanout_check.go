package scenario

import (
	"bytes"
	"context"
	"errors"

	"parley/bench/load"
	"parley/bench/wire"
)

// sampleMost is the maximum number of members whose inboxes are read back after each run.
const sampleMost = 16

// check reads the inboxes of a sample of the members back to the start of the run and
// compares them with the acknowledged messages. Each difference is a failure of the run.
func (f *fanout) check(ctx context.Context) error {
	expected := map[Key]uuid{}
	for _, run := range []uint16{f.alone, f.concurrent} {
		for key, l := range f.ears.answers(run) {
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
	for _, owner := range f.group.spread(sampleMost, f.host.speakers) {
		err := f.checkInbox(ctx, owner, expected, lost)
		if refused := (load.Refused{}); errors.As(err, &refused) {
			f.run.Failures++
			if f.run.Reasons == nil {
				f.run.Reasons = map[string]int64{}
			}
			f.run.Reasons[refused.Reason]++
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openLostCasts returns the broadcasts without an answer of the run that is not settled
// yet.
func (l *acknowledgedLog) openLostCasts() (all []cast) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.open {
		all = append(all, b.lostCasts...)
	}
	return all
}

// checkInbox reads one inbox, newest first, back to the messages of earlier runs.
func (f *fanout) checkInbox(ctx context.Context, owner *agent, expected map[Key]uuid, lost map[Key]bool) error {
	conn, err := wire.DialHTTP(ctx, f.host.door.Address)
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
