package history

import (
	"slices"
	"testing"
	"time"
)

// wholeInbox returns the read that the check uses as bob's whole inbox.
func (s *stage) wholeInbox() *Page {
	for i := range slices.Backward(s.pages) {
		if p := &s.pages[i]; p.Agent == bob && p.Top && p.End {
			return p
		}
	}
	return nil
}

func (s *stage) whole(agent ID) *Connection {
	for i := range slices.Backward(s.connections) {
		if c := &s.connections[i]; c.Agent == agent && c.Follower == "whole" {
			return c
		}
	}
	return nil
}

func (s *stage) resumed() *Connection {
	for i := range slices.Backward(s.connections) {
		if c := &s.connections[i]; c.Follower == "f" {
			return c
		}
	}
	return nil
}

// lastTranscripts returns the two final reads of a conversation that the check uses.
func (s *stage) lastTranscripts(conversation ID) []*Transcript {
	var found []*Transcript
	for i := range slices.Backward(s.transcripts) {
		if t := &s.transcripts[i]; t.Conversation == conversation && len(found) < 2 {
			found = append(found, t)
		}
	}
	return found
}

func (s *stage) sent(key string, attempt int) *Send {
	for i := range s.sends {
		if s.sends[i].Key == key {
			if attempt--; attempt < 0 {
				return &s.sends[i]
			}
		}
	}
	return nil
}

// planted lists faults, each put alone into a correct history, and the rule that must
// report it.
var planted = []struct {
	name  string
	rule  Rule
	plant func(s *stage, conversation ID)
}{
	{"an acknowledged message is not in the inbox", Lost, func(s *stage, _ ID) {
		p := s.wholeInbox()
		p.Rows = slices.Delete(slices.Clone(p.Rows), 0, 1)
	}},
	{"an acknowledged reply is not in the transcript", Lost, func(s *stage, c ID) {
		for _, t := range s.lastTranscripts(c) {
			t.Rows = t.Rows[:len(t.Rows)-1]
		}
	}},
	{"an acknowledged move is in no stream", Lost, func(s *stage, c ID) {
		for _, agent := range s.agents() {
			w := s.whole(agent)
			w.Events = slices.DeleteFunc(slices.Clone(w.Events), func(e Event) bool { return e.Status == "completed" })
		}
	}},
	{"the opening by a reply is in no stream", Lost, func(s *stage, c ID) {
		s.changes, s.looks = nil, nil
		for i := range s.connections {
			s.connections[i].Events = slices.DeleteFunc(slices.Clone(s.connections[i].Events), func(e Event) bool { return e.Message.Zero() })
		}
	}},
	{"what a page showed is gone", Vanished, func(s *stage, _ ID) {
		p := s.wholeInbox()
		p.Rows = p.Rows[:len(p.Rows)-1]
	}},
	{"a message of a stream is gone", Vanished, func(s *stage, _ ID) {
		p := s.wholeInbox()
		p.Rows = slices.Delete(slices.Clone(p.Rows), 1, 2)
	}},
	{"what a transcript showed is gone", Vanished, func(s *stage, c ID) {
		for _, t := range s.lastTranscripts(c) {
			t.Rows = t.Rows[:1]
		}
	}},
	{"what was unknown, but shown by itself, is gone", Vanished, func(s *stage, c ID) {
		m := Message{ID: s.id(), Conversation: c, From: alice, To: bob, Payload: "pk3", CreatedAt: "9"}
		s.Saw(m)
	}},
	{"a stream resumed after what is gone", Vanished, func(s *stage, _ ID) { s.resumed().After = s.id() }},
	{"two ids for one key", Doubled, func(s *stage, _ ID) {
		p := s.wholeInbox()
		twin := p.Rows[0]
		twin.ID = s.id()
		p.Rows = slices.Insert(slices.Clone(p.Rows), 0, twin)
	}},
	{"one key acknowledged as new twice", Doubled, func(s *stage, _ ID) {
		again := *s.sent("k1", 0)
		again.Span = s.span()
		s.Sent(again)
	}},
	{"a message that nobody sent", Invented, func(s *stage, _ ID) {
		p := s.wholeInbox()
		p.Rows = slices.Insert(slices.Clone(p.Rows), 0, Message{ID: s.id(), To: bob, Payload: "?"})
	}},
	{"a message whose send was refused", Invented, func(s *stage, _ ID) {
		p := s.wholeInbox()
		p.Rows = slices.Insert(slices.Clone(p.Rows), 0, Message{ID: s.id(), From: alice, To: bob, Payload: "pk4"})
	}},
	{"a move that nobody made", Invented, func(s *stage, c ID) {
		s.changes = slices.DeleteFunc(s.changes, func(c Change) bool { return c.To == "paused" })
	}},
	{"another payload than before", Altered, func(s *stage, _ ID) {
		p := s.wholeInbox()
		p.Rows = slices.Clone(p.Rows)
		p.Rows[0].Payload = "pk1"
	}},
	{"another recipient than it was sent to", Altered, func(s *stage, _ ID) { s.sent("k1", 0).To = alice }},
	{"the answer to one key shows the message of another", Altered, func(s *stage, _ ID) {
		s.sent("k5", 0).Result = s.sent("k1", 0).Result
	}},
	{"a reply in another conversation", Altered, func(s *stage, _ ID) { s.sent("k5", 0).ReplyTo = s.sent("k1", 0).Result.ID }},
	{"a message twice in an inbox", Copies, func(s *stage, _ ID) {
		p := s.wholeInbox()
		p.Rows = slices.Insert(slices.Clone(p.Rows), 0, p.Rows[0])
	}},
	{"a message in another's inbox", Copies, func(s *stage, _ ID) {
		p := s.wholeInbox()
		p.Rows = append(slices.Clone(p.Rows), s.inbox[alice][0])
	}},
	{"a message of a conversation in no inbox", Copies, func(s *stage, c ID) {
		p := s.wholeInbox()
		p.Rows = slices.DeleteFunc(slices.Clone(p.Rows), func(m Message) bool { return m.Payload == "pr2" })
	}},
	{"two readers see two orders", Order, func(s *stage, c ID) {
		t := s.lastTranscripts(c)[0]
		t.Rows[1], t.Rows[2] = t.Rows[2], t.Rows[1]
	}},
	{"a reader sees a gap", Order, func(s *stage, c ID) {
		t := s.lastTranscripts(c)[1]
		t.Rows = slices.Delete(slices.Clone(t.Rows), 1, 2)
	}},
	{"a conversation against its ids", Order, func(s *stage, c ID) {
		for _, t := range s.transcripts {
			if t.Conversation == c && len(t.Rows) > 2 {
				t.Rows[1], t.Rows[2] = t.Rows[2], t.Rows[1]
			}
		}
	}},
	{"an answer before its question", Order, func(s *stage, _ ID) { s.sent("r2", 0).ReplyTo = s.sent("r3", 0).Result.ID }},
	{"a page leaves one out", Order, func(s *stage, _ ID) {
		p := s.wholeInbox()
		s.Paged(Page{Span: s.span(), Agent: bob, Rows: []Message{p.Rows[0], p.Rows[2]}, Top: true})
	}},
	{"a reading ends too soon", Order, func(s *stage, _ ID) {
		s.Paged(Page{Span: Span{1, 2}, Agent: bob, Rows: s.wholeInbox().Rows[:2], Top: true, End: true})
	}},
	{"the inbox has a conversation in another order", Order, func(s *stage, _ ID) {
		p := s.wholeInbox()
		p.Rows = slices.Clone(p.Rows)
		p.Rows[len(p.Rows)-1], p.Rows[len(p.Rows)-3] = p.Rows[len(p.Rows)-3], p.Rows[len(p.Rows)-1]
	}},
	{"two followers see two histories", Order, func(s *stage, _ ID) {
		w := s.whole(alice)
		w.Events = slices.Clone(w.Events)
		for i := range w.Events {
			if w.Events[i].Status == "paused" {
				w.Events[i].Status = "input_required"
			}
		}
	}},
	{"a later send stands first", RealTime, func(s *stage, _ ID) {
		p := s.wholeInbox()
		p.Rows = slices.Clone(p.Rows)
		slices.Reverse(p.Rows)
	}},
	{"a page without what was acknowledged before", Stale, func(s *stage, _ ID) {
		s.Paged(Page{Span: s.span(), Agent: bob, Rows: s.wholeInbox().Rows[1:2], Top: true})
	}},
	{"a transcript without what was acknowledged before", Stale, func(s *stage, c ID) {
		t := *s.lastTranscripts(c)[0]
		t.Span, t.Rows = Span{t.Asked - time.Microsecond, t.Asked}, t.Rows[:2]
		s.Read(t)
	}},
	{"a status from before the one shown", Stale, func(s *stage, c ID) {
		for i := range s.looks {
			if s.looks[i].Conversation == c && s.looks[i].Status == "open" {
				s.looks[i].Status = Submitted
				return
			}
		}
	}},
	{"a stream tells twice", Stream, func(s *stage, _ ID) {
		c := s.resumed()
		c.Events = slices.Insert(slices.Clone(c.Events), 1, c.Events[0])
	}},
	{"a stream leaves a message out", Stream, func(s *stage, _ ID) {
		c := s.resumed()
		c.Events = slices.DeleteFunc(slices.Clone(c.Events), func(e Event) bool { return e.Message == s.sent("r2", 0).Result.ID })
	}},
	{"a stream leaves a status out", Stream, func(s *stage, _ ID) {
		c := s.resumed()
		c.Events = slices.DeleteFunc(slices.Clone(c.Events), func(e Event) bool { return e.Status == "paused" })
	}},
	{"a stream ends before the newest", Stream, func(s *stage, _ ID) {
		c := s.resumed()
		c.Events = c.Events[:len(c.Events)-1]
	}},
	{"a stream in another order", Stream, func(s *stage, _ ID) {
		c := s.whole(bob)
		c.Events = slices.Clone(c.Events)
		c.Events[0], c.Events[1] = c.Events[1], c.Events[0]
	}},
	{"a move that the table does not have", Path, func(s *stage, c ID) {
		for _, agent := range s.agents() {
			w := s.whole(agent)
			for i := range w.Events {
				if w.Events[i].Status == "paused" {
					w.Events[i].Status = "rejected"
				}
			}
		}
	}},
	{"a refusal of a move that the table has", Path, func(s *stage, c ID) {
		s.Changed(Change{Span: s.span(), Conversation: c, To: "open", Outcome: Refused, Current: "paused"})
	}},
	{"two ends", Winner, func(s *stage, c ID) {
		for i := range s.changes {
			if s.changes[i].To == "failed" {
				s.changes[i].Outcome, s.changes[i].Current = Acked, ""
			}
		}
	}},
	{"open after its end", Winner, func(s *stage, c ID) { s.Looked(Look{Span: s.span(), Conversation: c, Status: "open"}) }},
	{"a message after its end", Winner, func(s *stage, c ID) {
		s.state[c] = "open"
		s.reply("late", bob, s.sent("k1", 0).Result)
		s.readAll()
	}},
	{"an inbox that nobody read", Unjudged, func(s *stage, _ ID) {
		s.pages = slices.DeleteFunc(s.pages, func(p Page) bool { return p.Agent == bob })
	}},
	{"an acknowledgement after the last reading", Unjudged, func(s *stage, _ ID) { s.send("late", alice, bob) }},
	{"a conversation that nobody read", Unjudged, func(s *stage, c ID) {
		s.transcripts = slices.DeleteFunc(s.transcripts, func(t Transcript) bool { return t.Conversation == c })
	}},
	{"a follower that jumps", Unjudged, func(s *stage, _ ID) {
		s.connections = slices.DeleteFunc(s.connections, func(c Connection) bool { return c.Follower == "f" && c.After.Zero() })
	}},
}

func TestEveryPlantedFaultIsNamed(t *testing.T) {
	covered := map[Rule]bool{}
	for _, f := range planted {
		s, conversation := play()
		f.plant(s, conversation)
		faults := s.Check()
		if !slices.ContainsFunc(faults, func(found Fault) bool { return found.Rule == f.rule }) {
			t.Errorf("%s: not reported as %s, only:\n%s", f.name, f.rule, Report(faults))
		}
		covered[f.rule] = true
	}
	for _, rule := range []Rule{Lost, Vanished, Doubled, Invented, Altered, Copies, Order, RealTime, Stale, Stream, Path, Winner, Unjudged} {
		if !covered[rule] {
			t.Errorf("no fault was planted against %s", rule)
		}
	}
}
