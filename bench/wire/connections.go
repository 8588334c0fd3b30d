package wire

import (
	"errors"
	"time"
)

// ErrLate reports a request that was not answered in time.
var ErrLate = errors.New("wire: no answer in time")

// redialPause is the pause before a broken connection is dialled again.
const redialPause = 200 * time.Millisecond

// dialsAtOnce bounds the concurrent dials of a Connections, because more would overflow
// the listen queue.
const dialsAtOnce = 256

// Heard is the outcome of a request on one of the Connections.
type Heard struct {
	// Member is the connection that it was sent on.
	Member int
	// Sent is when the first byte was sent, At when the answer was complete.
	Sent, At time.Time
	// Answer is valid until Hear returns. With an error there is no answer, and the
	// connection is dialled again.
	Answer Answer
	Err    error
}

// condition is the state of a member.
type condition uint8

const (
	away       condition = iota // waits to be dialled again
	connecting                  // is being dialled
	idle                        // is ready for a request
	asked                       // waits for its answer
)

// member is one connection.
type member struct {
	fd        int
	condition condition
	writing   bool // the poll includes write events for it
	// since is when the request was sent, or when the connection broke.
	since time.Time
	rest  []byte // of a request that the socket did not accept at once
	kept  []byte // of an answer that is not complete
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
