package history

// reference is the newest connection of an agent that was followed from the
// first event on until everything was there.
type reference struct {
	Connection
	place map[ID]int // of its messages among its events
}

// judgeStreams: each connection is the feed from its resume point on, message
// by message and status by status.
func (j *judgement) judgeStreams() {
	for _, c := range j.connections {
		if r := j.refs[c.Agent]; c.Caught && c.After.Zero() && (r == nil || r.Asked < c.Asked) {
			j.refs[c.Agent] = newReference(c)
		}
	}
	got := map[string]int{}
	for _, c := range j.connections {
		o := j.inboxes[c.Agent]
		if o == nil {
			j.complain(Unjudged, "%s followed %s, whose inbox was never read whole", c.Follower, c.Agent)
			continue
		}
		if !j.judgeMessages(o, c, got) {
			continue
		}
		if r := j.refs[c.Agent]; r != nil {
			j.judgeEvents(r, c)
		}
	}
}

func newReference(c Connection) *reference {
	r := &reference{Connection: c, place: map[ID]int{}}
	for i, e := range c.Events {
		if !e.Message.Zero() {
			r.place[e.Message] = i
		}
	}
	return r
}

// judgeMessages holds the messages of a connection against the inbox. It
// remembers how far each follower has come.
func (j *judgement) judgeMessages(o *order, c Connection, got map[string]int) bool {
	next := 0
	if !c.After.Zero() {
		at, ok := o.place[c.After]
		if !ok {
			j.complain(Vanished, "%s resumed after %s, which is not in the inbox of %s", c.Follower, c.After, c.Agent)
			return false
		}
		next = at + 1
	}
	if follower := c.Follower + c.Agent.String(); next > got[follower] {
		j.complain(Unjudged, "%s resumed the stream of %s at place %d, but had come to %d only", c.Follower, c.Agent, next, got[follower])
	} else {
		defer func() { got[follower] = max(got[follower], next) }()
	}
	for _, e := range c.Events {
		if e.Message.Zero() {
			continue
		}
		switch at, ok := o.place[e.Message]; {
		case !ok:
			j.complain(Vanished, "%s received %s, which is not in the inbox of %s", c.Follower, e.Message, c.Agent)
			return false
		case at != next:
			j.complain(Stream, "%s received place %d of the inbox of %s where %d was next, after %s", c.Follower, at, c.Agent, next, c.After)
			return false
		}
		next++
	}
	if want := o.acked.at(c.Asked); c.Caught && next <= want {
		j.complain(Stream, "%s came to place %d of the inbox of %s, place %d was acknowledged before", c.Follower, next-1, c.Agent, want)
		return false
	}
	return true
}

// judgeEvents holds all events of a connection against the reference: a status
// stands where it stands, and comes as often as it comes.
func (j *judgement) judgeEvents(r *reference, c Connection) {
	next := 0
	if !c.After.Zero() {
		at, ok := r.place[c.After]
		if !ok {
			return // newer than the reference
		}
		next = at + 1
	}
	for i, e := range c.Events {
		if next+i >= len(r.Events) {
			return
		}
		if want := r.Events[next+i]; e != want {
			j.complain(Stream, "%s of %s, event %d after %s: got %v, in the whole stream it is %v", c.Follower, c.Agent, i, c.After, e, want)
			return
		}
	}
}

func (e Event) String() string {
	if e.Message.Zero() {
		return "status " + e.Status + " of " + e.Conversation.String()
	}
	return "message " + e.Message.String()
}
