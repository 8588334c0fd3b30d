package wire

import (
	"errors"
	"time"
)

// ErrLate reports a request that was not answered in time.
var ErrLate = errors.New("wire: no answer in time")

// redialPause is how long a connection that broke stays away.
const redialPause = 200 * time.Millisecond

// dialsAtOnce bounds the concurrent dials of a Connections: more would overflow the
// listen queue.
const dialsAtOnce = 256

// Heard is the outcome of a request on one of the Connections.
type Heard struct {
	// Member is the connection that it was sent on.
	Member int
	// Sent is when its first byte went out, At when its answer was there.
	Sent, At time.Time
	// Answer is valid until Hear returns. With an error there is none, and the
	// connection is made anew.
	Answer Answer
	Err    error
}

// condition is the state of a member.
type condition uint8

const (
	away       condition = iota // until it is dialled again
	connecting                  // is being dialled
	idle                        // may be asked
	asked                       // waits for its answer
)

// member is one connection.
type member struct {
	fd        int
	condition condition
	writing   bool // its events are asked for
	// since is when it was asked, or left.
	since time.Time
	rest  []byte // of a request that the socket did not take at once
	kept  []byte // of an answer that has not come whole
}

// queue is a ring of members, first in, first out.
type queue struct {
	ring        []int32
	head, count int
}

func newQueue(n int) queue { return queue{ring: make([]int32, n)} }

func (q *queue) push(i int) {
	q.ring[(q.head+q.count)%len(q.ring)] = int32(i)
	q.count++
}

func (q *queue) pop() (i int, ok bool) {
	if q.count == 0 {
		return 0, false
	}
	i = int(q.ring[q.head])
	q.head = (q.head + 1) % len(q.ring)
	q.count--
	return i, true
}
