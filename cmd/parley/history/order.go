package history

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// judgeInboxes takes the newest whole reading of each inbox as its order and
// holds all others against it.
func (j *judgement) judgeInboxes() {
	for _, p := range j.pages {
		if o := j.inboxes[p.Agent]; p.Top && p.End && (o == nil || o.read.Asked < p.Asked) {
			rows := slices.Clone(p.Rows)
			slices.Reverse(rows)
			j.inboxes[p.Agent] = newOrder(p.Agent, p.Span, rows)
		}
	}
	for id, o := range j.inboxes {
		if len(o.place) < len(o.rows) {
			j.complain(Copies, "the inbox of %s has %d rows of %d messages", id, len(o.rows), len(o.place))
		}
		for _, m := range o.rows {
			if m.To != id {
				j.complain(Copies, "%s to %s is in the inbox of %s", m.ID, m.To, id)
			}
		}
		o.acked = j.floor(o, j.settle)
		j.inTimeOrder(o, "the inbox", j.settle)
	}
	for _, p := range j.pages {
		if o := j.inboxes[p.Agent]; o != nil {
			j.judgePage(o, p)
		} else {
			j.complain(Unjudged, "the inbox of %s was never read whole", p.Agent)
		}
	}
}

// judgePage: a page is a run of the inbox, and shows what was there before it
// was asked for.
func (j *judgement) judgePage(o *order, p Page) {
	newest, last := -1, -1
	for i, m := range p.Rows {
		at, ok := o.place[m.ID]
		switch {
		case !ok:
			j.complain(Vanished, "a page asked for at %v showed %s, which is not in the inbox of %s", p.Asked, m.ID, o.id)
			return
		case i == 0:
			newest = at
		case at != last-1:
			j.complain(Order, "in the inbox of %s, a page shows place %d after place %d", o.id, at, last)
			return
		}
		last = at
	}
	if want := o.acked.at(p.Asked); p.Top && newest < want {
		j.complain(Stale, "a page asked for at %v ends at place %d of the inbox of %s, place %d was acknowledged before", p.Asked, newest, o.id, want)
	}
	if p.End && last > 0 {
		j.complain(Order, "a reading of the inbox of %s ends at place %d", o.id, last)
	}
}

// floor tells up to which place an order had been acknowledged at a time.
type floor struct {
	times  []time.Duration
	places []int // the highest so far
}

func (f *floor) at(t time.Duration) int {
	i := sort.Search(len(f.times), func(i int) bool { return f.times[i] >= t })
	if i == 0 {
		return -1
	}
	return f.places[i-1]
}

// floor gathers the acknowledgements of an order that took settle at most; zero
// stands for any time.
func (j *judgement) floor(o *order, settle time.Duration) *floor {
	type ack struct {
		at    time.Duration
		place int
	}
	var acks []ack
	for place, m := range o.rows {
		f := j.messages[m.ID]
		if f.key == nil {
			continue
		}
		for _, s := range f.key.attempts {
			if f.key.proves(s, settle) {
				acks = append(acks, ack{s.Answered, place})
			}
		}
	}
	slices.SortFunc(acks, func(a, b ack) int { return cmp.Compare(a.at, b.at) })
	f, highest := &floor{}, -1
	for _, a := range acks {
		highest = max(highest, a.place)
		f.times, f.places = append(f.times, a.at), append(f.places, highest)
	}
	return f
}

// inTimeOrder: no message stands before one that was acknowledged before its
// own send began.
func (j *judgement) inTimeOrder(o *order, what string, settle time.Duration) {
	var soonest *Send // of those that stand later
	for _, m := range slices.Backward(o.rows) {
		k := j.messages[m.ID].key
		if k == nil {
			continue
		}
		if soonest != nil && k.began() > soonest.Answered {
			j.complain(RealTime, "in %s of %s, %s stands before %s, which was acknowledged %v before it was sent",
				what, o.id, m.ID, soonest.Result.ID, k.began()-soonest.Answered)
			return
		}
		for i := range k.attempts {
			s := &k.attempts[i]
			if k.proves(*s, settle) && (soonest == nil || s.Answered < soonest.Answered) {
				soonest = s
			}
		}
	}
}

// judgeConversations takes the newest whole transcript of each conversation as its
// order and holds the other readings of all readers against it.
func (j *judgement) judgeConversations() {
	for _, t := range j.transcripts {
		if o := j.conversations[t.Conversation]; t.Whole && (o == nil || o.read.Asked < t.Asked) {
			j.conversations[t.Conversation] = newOrder(t.Conversation, t.Span, t.Rows)
		}
	}
	for _, o := range j.conversations {
		j.judgeConversation(o)
		o.acked = j.floor(o, 0)
	}
	for _, t := range j.transcripts {
		o := j.conversations[t.Conversation]
		if o == nil {
			j.complain(Unjudged, "the transcript of %s was never read whole", t.Conversation)
			continue
		}
		j.judgeTranscript(o, t)
	}
	for _, f := range j.messages {
		if o := j.conversations[f.Conversation]; o != nil && !in(o, f.ID) {
			j.complain(Vanished, "%s was shown, but the transcript of its conversation %s has a gap there", f.ID, f.Conversation)
		}
	}
}

// judgeConversation: the order of a conversation is that of its ids and its times, what
// is answered comes before its answer, and every message is in one inbox, in
// the same order.
func (j *judgement) judgeConversation(o *order) {
	feeds := map[ID]int{}
	for i, m := range o.rows {
		if m.Conversation != o.id {
			j.complain(Altered, "%s of conversation %s is in the transcript of %s", m.ID, m.Conversation, o.id)
		}
		if i > 0 && (!o.rows[i-1].ID.before(m.ID) || o.rows[i-1].CreatedAt > m.CreatedAt) {
			j.complain(Order, "in the transcript of %s, %s of %s comes after %s of %s", o.id, m.ID, m.CreatedAt, o.rows[i-1].ID, o.rows[i-1].CreatedAt)
		}
		if k := j.messages[m.ID].key; k != nil && !k.replyTo.Zero() {
			if at, ok := o.place[k.replyTo]; !ok || at >= i {
				j.complain(Order, "%s of conversation %s is not after %s, which it answers", m.ID, o.id, k.replyTo)
			}
		}
		inbox := j.inboxes[m.To]
		if inbox == nil {
			continue
		}
		at, ok := inbox.place[m.ID]
		if !ok {
			j.complain(Copies, "%s of conversation %s is not in the inbox of %s", m.ID, o.id, m.To)
			continue
		}
		if last, before := feeds[m.To]; before && at <= last {
			j.complain(Order, "in the inbox of %s, %s does not stand where conversation %s has it", m.To, m.ID, o.id)
		}
		feeds[m.To] = at
	}
	j.inTimeOrder(o, "conversation", 0)
}

func (j *judgement) judgeTranscript(o *order, t Transcript) {
	for i, m := range t.Rows {
		if at, ok := o.place[m.ID]; !ok {
			j.complain(Vanished, "%s saw %s, which is not in the transcript of %s", t.Reader, m.ID, o.id)
			return
		} else if at != i {
			j.complain(Order, "%s saw %s at place %d of conversation %s, where it is at %d", t.Reader, m.ID, i, o.id, at)
			return
		}
	}
	if want := o.acked.at(t.Asked); t.Whole && len(t.Rows) <= want {
		j.complain(Stale, "%s saw %d messages of conversation %s, %d were acknowledged before", t.Reader, len(t.Rows), o.id, want+1)
	}
}
