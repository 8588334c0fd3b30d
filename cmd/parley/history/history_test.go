package history

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"
)

const settle = 90 * time.Millisecond

// stage simulates a small, correct service and records what its clients see.
type stage struct {
	*History
	now           time.Duration
	ids           uint64
	inbox         map[ID][]Message // oldest first
	feed          map[ID][]Event
	conversations map[ID][]Message
	sides         map[ID][2]ID
	state         map[ID]string
}

func newStage() *stage {
	return &stage{
		History: New(settle), inbox: map[ID][]Message{}, feed: map[ID][]Event{}, conversations: map[ID][]Message{},
		sides: map[ID][2]ID{}, state: map[ID]string{},
	}
}

func (s *stage) id() ID {
	var id ID
	s.ids++
	binary.BigEndian.PutUint64(id[8:], s.ids)
	return id
}

// span advances the clock by ten milliseconds for each request.
func (s *stage) span() Span {
	s.now += 10 * time.Millisecond
	return Span{s.now, s.now + 5*time.Millisecond}
}

// deliver stores a message without recording it in the history.
func (s *stage) deliver(send Send, conversation ID) Message {
	m := Message{ID: s.id(), Conversation: conversation, From: send.From, To: send.To, Payload: send.Payload, CreatedAt: fmt.Sprintf("%020d", s.now)}
	s.inbox[m.To] = append(s.inbox[m.To], m)
	s.feed[m.To] = append(s.feed[m.To], Event{Message: m.ID})
	s.conversations[conversation] = append(s.conversations[conversation], m)
	if s.state[conversation] == Submitted && !send.ReplyTo.Zero() {
		s.move(conversation, "open")
	}
	return m
}

func (s *stage) move(conversation ID, to string) {
	s.state[conversation] = to
	for _, side := range s.sides[conversation] {
		s.feed[side] = append(s.feed[side], Event{Conversation: conversation, Status: to})
	}
}

func (s *stage) send(key string, from, to ID) Message {
	conversation := s.id()
	s.sides[conversation], s.state[conversation] = [2]ID{from, to}, Submitted
	send := Send{Span: s.span(), Key: key, Payload: "p" + key, From: from, To: to, Outcome: Acked}
	send.Result = s.deliver(send, conversation)
	s.Sent(send)
	return send.Result
}

func (s *stage) reply(key string, by ID, m Message) Message {
	to := m.From
	if to == by {
		to = m.To
	}
	send := Send{Span: s.span(), Key: key, Payload: "p" + key, From: by, To: to, ReplyTo: m.ID, Outcome: Acked}
	send.Result = s.deliver(send, m.Conversation)
	s.Sent(send)
	return send.Result
}

func (s *stage) change(conversation ID, to string) {
	c := Change{Span: s.span(), Conversation: conversation, To: to, Outcome: Refused, Current: s.state[conversation]}
	if Allowed(c.Current, to) {
		c.Outcome, c.Current = Acked, ""
		s.move(conversation, to)
	}
	s.Changed(c)
}

func (s *stage) look(conversation ID) {
	s.Looked(Look{Span: s.span(), Conversation: conversation, Status: s.state[conversation]})
}

// page reads an inbox, newest first: n rows or all.
func (s *stage) page(agent ID, n int) {
	rows := slices.Clone(s.inbox[agent])
	slices.Reverse(rows)
	n = min(n, len(rows))
	s.Paged(Page{Span: s.span(), Agent: agent, Rows: rows[:n], Top: true, End: n == len(rows)})
}

func (s *stage) transcript(conversation ID) {
	for _, side := range s.sides[conversation] {
		s.Read(Transcript{Span: s.span(), Conversation: conversation, Reader: side, Rows: slices.Clone(s.conversations[conversation]), Whole: true})
	}
}

// follow reads n events after a position of the feed; -1 means all of them.
func (s *stage) follow(follower string, agent ID, from, n int) {
	c := Connection{Span: s.span(), Follower: follower, Agent: agent}
	for i := range from {
		if e := s.feed[agent][i]; !e.Message.Zero() {
			c.After = e.Message
		}
	}
	rest := s.feed[agent][from:]
	if c.Caught = n < 0; c.Caught {
		n = len(rest)
	}
	c.Events = slices.Clone(rest[:n])
	s.Streamed(c)
}

// readAll makes the final reads of all agents, after the last write.
func (s *stage) readAll() {
	for _, agent := range s.agents() {
		s.page(agent, 1<<30)
		s.follow("whole", agent, 0, -1)
	}
	for id := range s.conversations {
		s.transcript(id)
		s.look(id)
	}
}

func (s *stage) agents() []ID { return []ID{alice, bob} }

var alice, bob = ID{1}, ID{2}

// play returns a correct history with every kind of operation: a send whose first answer
// was lost, one that was never stored, a conversation that both sides change and one side
// ends.
func play() (*stage, ID) {
	s := newStage()
	first := s.send("k1", alice, bob)
	s.page(bob, 10)
	lost := Send{Span: s.span(), Key: "k2", Payload: "pk2", From: alice, To: bob}
	s.Sent(lost)
	conversation := s.id()
	s.sides[conversation], s.state[conversation] = [2]ID{alice, bob}, Submitted
	again := lost
	again.Result = s.deliver(lost, conversation)
	again.Span, again.Outcome, again.Repeat = s.span(), Acked, true
	s.Sent(again)
	s.Sent(Send{Span: s.span(), Key: "k3", Payload: "pk3", From: alice, To: bob})
	s.Sent(Send{Span: s.span(), Key: "k4", Payload: "pk4", From: alice, To: bob, Outcome: Refused})
	s.follow("f", bob, 0, 2)
	s.look(first.Conversation)
	r1 := s.reply("r1", bob, first)
	s.reply("r2", alice, r1)
	s.look(first.Conversation)
	s.change(first.Conversation, "paused")
	s.transcript(first.Conversation)
	s.change(first.Conversation, "input_required")
	s.change(first.Conversation, "open")
	s.reply("r3", bob, first)
	s.change(first.Conversation, "completed")
	s.change(first.Conversation, "failed")
	s.look(first.Conversation)
	s.send("k5", alice, bob)
	s.page(bob, 2)
	s.Saw(first)
	s.follow("f", bob, 2, -1)
	s.readAll()
	return s, first.Conversation
}

func TestASoundHistoryHasNoFault(t *testing.T) {
	s, _ := play()
	if faults := s.Check(); len(faults) > 0 {
		t.Error(Report(faults))
	}
	if faults := s.Clone().Check(); len(faults) > 0 {
		t.Error("a clone: " + Report(faults))
	}
}

func TestWhatSlowAnswersProveNothing(t *testing.T) {
	s := newStage()
	a := s.send("k1", alice, bob)
	b := s.send("k2", alice, bob)
	s.inbox[bob] = []Message{b, a}
	s.feed[bob] = []Event{{Message: b.ID}, {Message: a.ID}}
	s.readAll()
	if faults := s.Check(); len(faults) != 1 || faults[0].Rule != RealTime {
		t.Errorf("prompt answers out of order: %v", faults)
	}
	s.sends[0].Asked -= settle
	if faults := s.Check(); len(faults) != 0 {
		t.Errorf("the first answer took longer than SettleWait: %v", faults)
	}
}

func TestUnread(t *testing.T) {
	s, _ := play()
	p := *s.wholeInbox()
	if n := s.Unread(p); n != 0 {
		t.Errorf("of a whole inbox, %d are unread", n)
	}
	if p.Rows = p.Rows[2:]; s.Unread(p) != 2 {
		t.Errorf("of an inbox without two, %d are unread", s.Unread(p))
	}
}

func TestIDs(t *testing.T) {
	const text = "0190a5b2-7c3d-7e4f-8a9b-0c1d2e3f4a5b"
	id, err := ParseID(text)
	if err != nil || id.String() != text || id.Zero() {
		t.Errorf("%s is read as %s: %v", text, id, err)
	}
	for _, wrong := range []string{"", text[1:], text + "0", "0190a5b2-7c3d-7e4f-8a9b-0c1d2e3f4a5g", "0190a5b2x7c3d-7e4f-8a9b-0c1d2e3f4a5b", "0190a5b2-7c3d-7e4f-8a9b-0c1d-e3f4a5b"} {
		if _, err := ParseID(wrong); err == nil {
			t.Errorf("%q is read as an id", wrong)
		}
	}
}

func TestTheTableOfMoves(t *testing.T) {
	moves := 0
	for _, from := range Statuses() {
		for _, to := range Statuses() {
			if Allowed(from, to) {
				moves++
			}
			if Allowed(from, to) && Terminal(from) {
				t.Errorf("%s is final and leads to %s", from, to)
			}
		}
	}
	if moves != 17 {
		t.Errorf("the table has %d transitions, the specification 17", moves)
	}
}
