package egress

import (
	"container/list"
	"net/http"
	"time"
)

// kind classifies a target by how fast it has answered so far.
type kind uint8

const (
	quick kind = iota // the last answer was in time
	fresh             // there is no answer yet
	slow              // the last answer was late, or a pending one is
	kinds
)

// slowPerTarget is how many posts may be in flight to a slow target.
const slowPerTarget = 2

// queue holds the waiting posts of one target and its state. Guarded by the
// Sender's lock.
type queue struct {
	key     string
	waiting []entry
	flying  int
	late    int // how many of the posts in flight are late
	kind    kind
	circuit circuit

	// A queue is in the ready list of a field while one of its posts may be sent, in
	// the list of resting queues while it has no posts, and otherwise in neither.
	field *field
	place *list.Element
	rest  *list.Element
}

type entry struct {
	post  *Post
	since time.Time
}

// field bounds the posts in flight of all queues of one kind.
type field struct {
	ready  list.List // of *queue, in the order of their turns
	flying int
	max    int
}

func (l *queue) pop() entry {
	e := l.waiting[0]
	l.waiting[0] = entry{}
	if l.waiting = l.waiting[1:]; len(l.waiting) == 0 {
		l.waiting = nil
	}
	return e
}

func (l *queue) limit(perTarget int) int {
	switch l.kind {
	case fresh:
		return 1
	case slow:
		return min(slowPerTarget, perTarget)
	}
	return perTarget
}

// mayFly reports whether a post of the queue may be sent now if its field has room.
func (l *queue) mayFly(perTarget int, now time.Time) bool {
	return len(l.waiting) > 0 && l.flying < l.limit(perTarget) && l.circuit.wait(now) == 0 && !l.circuit.probing
}

// circuit is a circuit breaker: it opens after a number of failures in a row. After
// a cooldown one post is sent as a probe, whose result closes the circuit or opens it
// again.
type circuit struct {
	failures int
	cooldown time.Duration
	until    time.Time // zero: closed
	probing  bool
}

func (c *circuit) closed() bool { return c.until.IsZero() }

// wait returns how long the circuit stays open; 0 if a post may be sent.
func (c *circuit) wait(now time.Time) time.Duration {
	if c.closed() {
		return 0
	}
	return max(0, c.until.Sub(now))
}

// judge updates the circuit with the result of a post.
func (c *circuit) judge(r Result, probe bool, now time.Time, o *Options) {
	if probe {
		c.probing = false
	}
	switch {
	case r.Held:
	case alive(r.Status):
		*c = circuit{}
	case r.RetryAfter > 0:
		c.failures++
		c.open(now, max(min(r.RetryAfter, o.CooldownMax), c.wait(now)))
	default:
		// Failures of posts that were sent before it opened do not prolong the cooldown.
		if c.failures++; probe || c.closed() && c.failures >= o.Failures {
			c.cooldown = min(max(2*c.cooldown, o.CooldownMin), o.CooldownMax)
			c.open(now, c.cooldown)
		}
	}
}

func (c *circuit) open(now time.Time, wait time.Duration) { c.until = now.Add(wait) }

// alive reports whether a status shows that the target works: any answer but 429 and
// 5xx.
func alive(status int) bool {
	return status != 0 && status < http.StatusInternalServerError && status != http.StatusTooManyRequests
}
