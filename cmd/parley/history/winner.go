package history

import (
	"cmp"
	"slices"
	"time"
)

// conversation is what is known of the status of one conversation.
type conversation struct {
	id        ID
	path      []string      // the longest that a stream showed from the first event on
	known     time.Duration // up to when the path is known, from references
	changes   []Change
	sightings []sighting
	replies   []Send
}

// sighting is a status that somebody was shown within a span. One that a stream
// showed is at a known place of the path, counted from 1, and so is an answered
// reply, whose status is not known; others have -1.
type sighting struct {
	Span
	status string
	place  int
}

// judgeStatuses: the statuses of a conversation are a path of the table, the
// same for everybody, and end at most once.
func (j *judgement) judgeStatuses() {
	conversations := j.gatherConversations()
	for _, c := range j.connections {
		paths := map[ID][]string{}
		for _, e := range c.Events {
			if e.Message.Zero() {
				paths[e.Conversation] = append(paths[e.Conversation], e.Status)
			}
		}
		for id, path := range paths {
			t := conversations[id]
			if t == nil {
				t = &conversation{id: id}
				conversations[id] = t
			}
			j.judgePath(t, c, path)
		}
	}
	for _, r := range j.refs {
		counts := map[ID]map[string]int{}
		for _, e := range r.Events {
			if e.Message.Zero() {
				if counts[e.Conversation] == nil {
					counts[e.Conversation] = map[string]int{}
				}
				counts[e.Conversation][e.Status]++
			}
		}
		for _, t := range conversations {
			if j.follows(r, t) {
				t.known = max(t.known, r.Asked)
				j.judgeCounts(r, t, counts[t.id])
			}
		}
	}
	for _, t := range conversations {
		j.judgeTerminal(t)
		j.judgeSightings(t)
	}
}

func (j *judgement) gatherConversations() map[ID]*conversation {
	conversations := map[ID]*conversation{}
	of := func(id ID) *conversation {
		if conversations[id] == nil {
			conversations[id] = &conversation{id: id}
		}
		return conversations[id]
	}
	for _, c := range j.changes {
		t := of(c.Conversation)
		t.changes = append(t.changes, c)
		switch {
		case c.Outcome == Acked:
			t.sightings = append(t.sightings, sighting{c.Span, c.To, -1})
		case c.Outcome == Refused && c.Current != "":
			t.sightings = append(t.sightings, sighting{c.Span, c.Current, -1})
			if Allowed(c.Current, c.To) {
				j.complain(Path, "conversation %s refused to move from %s to %s", c.Conversation, c.Current, c.To)
			}
		}
	}
	for _, l := range j.looks {
		t := of(l.Conversation)
		t.sightings = append(t.sightings, sighting{l.Span, l.Status, -1})
	}
	for _, k := range j.ordered {
		if k.replyTo.Zero() {
			continue
		}
		if first := j.messages[k.replyTo]; first != nil {
			t := of(first.Conversation)
			t.replies = append(t.replies, k.attempts...)
			if k.acked != nil {
				t.sightings = append(t.sightings, sighting{k.acked.Span, "", 1})
			}
		}
	}
	return conversations
}

// follows tells whether an agent takes part in a conversation.
func (j *judgement) follows(r *reference, t *conversation) bool {
	o := j.conversations[t.id]
	return o != nil && len(o.rows) > 0 && (o.rows[0].From == r.Agent || o.rows[0].To == r.Agent)
}

func (j *judgement) judgePath(t *conversation, c Connection, path []string) {
	last := Submitted
	for i, status := range path {
		if (i > 0 || c.After.Zero()) && !Allowed(last, status) {
			j.complain(Path, "%s saw conversation %s move from %s to %s", c.Follower, t.id, last, status)
			return
		}
		last = status
	}
	if !c.After.Zero() {
		return
	}
	t.sightings = append(t.sightings, sighting{c.Span, last, len(path)})
	common := min(len(path), len(t.path))
	if !slices.Equal(path[:common], t.path[:common]) {
		j.complain(Order, "%s saw the statuses %v of conversation %s, another follower %v", c.Follower, path, t.id, t.path)
	}
	if len(path) > len(t.path) {
		t.path = path
	}
}

// judgeCounts: a status is announced as often as it was reached.
func (j *judgement) judgeCounts(r *reference, t *conversation, told map[string]int) {
	least, most := map[string]int{}, map[string]int{}
	for _, c := range t.changes {
		if c.Outcome == Acked && c.Answered < r.Asked {
			least[c.To]++
		}
		if c.Outcome != Refused {
			most[c.To]++
		}
	}
	if slices.ContainsFunc(t.replies, func(s Send) bool { return s.Outcome != Refused }) {
		most["open"]++
	}
	if len(told) == 0 && slices.ContainsFunc(t.replies, func(s Send) bool { return s.Outcome == Acked && s.Answered < r.Asked }) {
		j.complain(Lost, "conversation %s was opened by a reply, which its stream to %s does not say", t.id, r.Agent)
	}
	for _, status := range Statuses() {
		if told[status] < least[status] {
			j.complain(Lost, "conversation %s was moved to %s %d times, its stream to %s says %d", t.id, status, least[status], r.Agent, told[status])
		}
		if told[status] > most[status] {
			j.complain(Invented, "conversation %s was moved to %s at most %d times, its stream to %s says %d", t.id, status, most[status], r.Agent, told[status])
		}
	}
}

// judgeTerminal: the first terminal status that was shown stays.
func (j *judgement) judgeTerminal(t *conversation) {
	var end *sighting
	winners := 0
	for i := range t.sightings {
		if s := &t.sightings[i]; Terminal(s.status) && (end == nil || s.Answered < end.Answered) {
			end = s
		}
	}
	for _, c := range t.changes {
		if c.Outcome == Acked && Terminal(c.To) {
			winners++
		}
	}
	if winners > 1 {
		j.complain(Winner, "conversation %s was ended %d times", t.id, winners)
	}
	if end == nil {
		return
	}
	for _, s := range t.sightings {
		if Terminal(s.status) && s.status != end.status || !Terminal(s.status) && s.status != "" && s.Asked > end.Answered {
			j.complain(Winner, "conversation %s was shown %s at %v and %s at %v", t.id, end.status, end.Answered, s.status, s.Answered)
			return
		}
	}
	for _, s := range t.replies {
		if s.Outcome == Acked && !s.Repeat && s.Asked > end.Answered {
			j.complain(Winner, "conversation %s was %s and then took %s", t.id, end.status, s.Result.ID)
			return
		}
	}
}

// judgeSightings checks that a request sent after an answer sees the state of that
// answer or a later one. Each sighting is given the earliest place of the path that it
// can have. What was shown after the path was read is not judged.
func (j *judgement) judgeSightings(t *conversation) {
	slices.SortStableFunc(t.sightings, func(a, b sighting) int { return cmp.Compare(a.Asked, b.Asked) })
	byEnd := make([]int, len(t.sightings))
	for i := range byEnd {
		byEnd[i] = i
	}
	slices.SortStableFunc(byEnd, func(a, b int) int { return cmp.Compare(t.sightings[a].Answered, t.sightings[b].Answered) })
	places, floor, done := make([]int, len(t.sightings)), 0, 0
	since := time.Duration(0)
	for i, s := range t.sightings {
		for ; done < len(byEnd) && t.sightings[byEnd[done]].Answered < s.Asked; done++ {
			if at := places[byEnd[done]]; at > floor {
				floor, since = at, t.sightings[byEnd[done]].Answered
			}
		}
		if s.place >= 0 {
			places[i] = s.place // a stream may be on its way through the past
			continue
		}
		at := t.find(floor, s.status)
		if at < floor && s.Answered < t.known {
			j.complain(Stale, "conversation %s was shown %s at %v, but was at place %d of %v since %v", t.id, s.status, s.Asked, floor, t.path, since)
			return
		}
		places[i] = max(at, 0)
	}
}

// find gives the first place not before floor that has a status, or -1.
func (t *conversation) find(floor int, status string) int {
	if floor == 0 && status == Submitted {
		return 0
	}
	for i := max(floor, 1); i <= len(t.path); i++ {
		if t.path[i-1] == status {
			return i
		}
	}
	return -1
}
