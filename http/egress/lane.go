package egress

import (
	"container/list"
	"net/http"
	"time"
)

// kind is what is known of how fast a target answers.
type kind uint8

const (
	quick kind = iota // the last answer came in time
	fresh             // none came yet
	slow              // the last one, or one that is awaited, is late
	kinds
)

// slowPerTarget is how many posts fly to a slow target at once.
const slowPerTarget = 2

// lane is the queue of one target with what is known of it. Guarded by the
// Sender's lock.
type lane struct {
	key     string
	waiting []entry
	flying  int
	late    int // of those flying, how many are late already
	kind    kind
	circuit circuit

	// Where it stands: in the ready list of a field when one of its posts may
	// fly, in the list of lanes at rest when it has none, else in neither.
	field *field
	place *list.Element
	rest  *list.Element
}

type entry struct {
	post  *Post
	since time.Time
}

// field is the room that all lanes of one kind share.
type field struct {
	ready  list.List // of *lane, in the order of their turns
	flying int
	max    int
}

func (l *lane) pop() entry {
	e := l.waiting[0]
	l.waiting[0] = entry{}
	if l.waiting = l.waiting[1:]; len(l.waiting) == 0 {
		l.waiting = nil
	}
	return e
}

func (l *lane) limit(perTarget int) int {
	switch l.kind {
	case fresh:
		return 1
	case slow:
		return min(slowPerTarget, perTarget)
	}
	return perTarget
}

// mayFly tells whether a post of the lane may leave now, room provided.
func (l *lane) mayFly(perTarget int, now time.Time) bool {
	return len(l.waiting) > 0 && l.flying < l.limit(perTarget) && l.circuit.wait(now) == 0 && !l.circuit.probing
}

// circuit keeps posts from a target that only fails. It is closed; after a
// number of failures in a row it opens for a while; then one post is let through
// as a probe, whose fate closes or opens it again.
type circuit struct {
	failures int
	cooldown time.Duration
	until    time.Time // zero: closed
	probing  bool
}

func (c *circuit) closed() bool { return c.until.IsZero() }

// wait is how long the circuit stays open; zero: a post may be tried.
func (c *circuit) wait(now time.Time) time.Duration {
	if c.closed() {
		return 0
	}
	return max(0, c.until.Sub(now))
}

// judge takes in the fate of a post.
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
		// The failures of posts that left before it opened open it no further.
		if c.failures++; probe || c.closed() && c.failures >= o.Failures {
			c.cooldown = min(max(2*c.cooldown, o.CooldownMin), o.CooldownMax)
			c.open(now, c.cooldown)
		}
	}
}

func (c *circuit) open(now time.Time, wait time.Duration) { c.until = now.Add(wait) }

// alive tells an answer of somebody who is there, whatever it says, from that of
// somebody who cannot keep up or has broken down.
func alive(status int) bool {
	return status != 0 && status < http.StatusInternalServerError && status != http.StatusTooManyRequests
}
