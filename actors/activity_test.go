package actors

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// hourCount is a journal that counts the hours of activity that are appended.
type hourCount struct {
	journal.Journal
	mu sync.Mutex
	n  int
}

func (j *hourCount) wrap(of journal.Journal) journal.Journal {
	j.Journal = of
	return journal.Of(j)
}

func (j *hourCount) Append(e *journal.Entry) {
	j.mu.Lock()
	for _, w := range e.Effects {
		if row, ok := w.(journal.PutRow); ok && row.Table == journal.ActivityTable {
			j.n++
		}
	}
	j.mu.Unlock()
	j.Journal.Append(e)
}

func (j *hourCount) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.n
}

// TestHourOfActivity sends in every way, with one journal and with four, and reads the
// hours of the senders before and after a restart. Each agent's hour is written once.
func TestHourOfActivity(t *testing.T) {
	for _, journals := range []int{1, 4} {
		at, hours := newManualClock(noon.Add(17*time.Minute)), &hourCount{}
		r := newTestNode(t, withClock(at.now), withJournals(journals), withWrap(hours.wrap))
		owner, ids := r.agents("acme", 4)
		want := make([]time.Time, len(ids))
		check := func(what string) {
			t.Helper()
			for i, id := range ids {
				if got := must(r.node.Agents.LastActive(context.Background(), id))(t); !got.Equal(want[i]) {
					t.Errorf("%d journals, %s: agent %d was active at %v, want %v", journals, what, i, got, want[i])
				}
			}
		}
		check("before any message")
		g := must(r.createGroup(owner, ids[0], "all", group.Open, false))(t)
		for _, id := range ids[1:] {
			must(g.join(id))(t)
		}
		check("after joining")
		first := must(r.send(direct(owner, ids[0], ids[1], "hello", "k")))(t)
		want[0] = noon
		check("after a message")
		at.advance(time.Hour)
		must(r.send(direct(owner, ids[0], ids[1], "hello", "k")))(t)
		check("after a repeat")
		reply := must(r.reply(answerTo(owner, first.Message, "hello back", "")))(t)
		want[1] = noon.Add(time.Hour)
		check("after a reply")
		must(g.say(ids[2], "hello all", ""))(t)
		want[2] = noon.Add(time.Hour)
		check("after a broadcast")
		at.advance(time.Hour)
		must(r.reply(answerTo(owner, reply.Message, "and again", "")))(t)
		want[0] = noon.Add(2 * time.Hour)
		copied := r.inbox(ids[3])[0].Record
		must(r.reply(ReplyTo{
			Content: Content{Type: "svc.v1.dm", Body: []byte("thanks"), FromOrg: owner, ToOrg: owner}, Conversation: copied.Conversation(),
			Host: g.id, From: ids[3], To: ids[2], Original: copied.MessageID(),
		}))(t)
		want[3] = noon.Add(2 * time.Hour)
		check("after a reply in the group")
		if written := hours.count(); written != 5 {
			t.Errorf("%d journals: %d hours were written, want 5", journals, written)
		}
		for range 5 {
			must(r.send(direct(owner, ids[0], ids[1], "more", "")))(t)
			must(r.reply(answerTo(owner, reply.Message, "more", "")))(t)
		}
		if written := hours.count(); written != 5 {
			t.Errorf("%d journals: %d hours were written in the same hour, want 5", journals, written)
		}
		r.restart()
		check("after a restart")
		must(r.send(direct(owner, ids[0], ids[1], "more", "")))(t)
		at.advance(43 * time.Minute)
		must(g.say(ids[2], "late", ""))(t)
		want[2] = noon.Add(3 * time.Hour)
		check("later")
		must(r.node.Agents.Change(context.Background(), ids[2], agent.Revoke{}))(t)
		want[2] = time.Time{}
		check("after the agent was revoked")
	}
}

// TestHourOfActivityUnderWay: a message does not rely on the hour of another that may
// still be lost.
func TestHourOfActivityUnderWay(t *testing.T) {
	at, hours, gate := newManualClock(noon), &hourCount{}, &fullJournal{}
	r := newTestNode(t, withClock(at.now), withWrap(func(j journal.Journal) journal.Journal { return gate.wrap(hours.wrap(j)) }))
	owner, ids := r.agents("acme", 2)
	gate.hold()
	answer := inBackground(func() (Posted, error) { return r.send(direct(owner, ids[0], ids[1], "waits", "")) })
	eventually(t, "the hour is appended", func() bool { return hours.count() == 1 })
	second := inBackground(func() (Posted, error) { return r.send(direct(owner, ids[0], ids[1], "waits too", "")) })
	eventually(t, "the second message has the hour too", func() bool { return hours.count() == 2 })
	gate.release()
	<-answer
	<-second
	must(r.send(direct(owner, ids[0], ids[1], "knows", "")))(t)
	if hours.count() != 2 {
		t.Errorf("the hour was written %d times", hours.count())
	}
}

func TestActivityIsBounded(t *testing.T) {
	a := &activity[parley.AgentID]{}
	name := func(i int) (id parley.AgentID) {
		id[0], id[1], id[2] = byte(i>>16), byte(i>>8), byte(i)
		return id
	}
	for i := range activeMax + 10 {
		a.add(name(i), 7)
		if !a.has(name(i), 7) || a.has(name(i), 8) {
			t.Fatalf("agent %d is not remembered for its hour alone", i)
		}
	}
	if len(a.active) != activeMax {
		t.Errorf("%d agents are remembered, want %d", len(a.active), activeMax)
	}
	a.add(name(1), 8)
	if len(a.active) != 1 || a.has(name(2), 7) || !a.has(name(1), 8) {
		t.Errorf("%d agents are remembered in the next hour", len(a.active))
	}
}

func TestHourRow(t *testing.T) {
	at := time.Date(2026, 3, 14, 12, 59, 59, 999, time.UTC)
	if got, ok := record.HourOf(record.HourRow(record.Hour(at))); !ok || got != noon {
		t.Errorf("the hour of %v is %v", at, got)
	}
	for _, row := range [][]byte{nil, {1}, slices.Repeat([]byte{1}, 5)} {
		if _, ok := record.HourOf(row); ok {
			t.Errorf("%x is read", row)
		}
	}
}
