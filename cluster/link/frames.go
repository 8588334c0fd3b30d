package link

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"sync"

	"google.golang.org/grpc/mem"
)

// frame is one message, call or answer of a batch.
type frame struct {
	// id connects a call with its answer; 0 for messages.
	id uint64
	// failed marks the answer to a call that the peer could not answer.
	failed bool
	body   []byte
}

const (
	// batchBytes is the size from which on a batch is sent. It exceeds that by one frame.
	batchBytes = 1 << 20
	// batchBytesMax bounds a batch that is received, and so a frame.
	batchBytesMax = 64 << 20
	// waitingBytesMax bounds what waits to be sent to a peer. Messages beyond it are
	// dropped.
	waitingBytesMax = 64 << 20
	// frameBytes is about what a frame takes besides its body.
	frameBytes = 64
	// framesMax bounds the frames of a batch, as take does. Empty ones take far more memory when
	// they are read than on the wire.
	framesMax = batchBytes/frameBytes + 1
)

// sumOf is the id of the frame of a message: its checksum. TLS has its own, but a message that was
// damaged in the memory of its sender may still be one that raft believes.
func sumOf(message []byte) uint64 {
	return uint64(crc32.Checksum(message, crc32.MakeTable(crc32.Castagnoli)))
}

// checkSums returns ErrDamaged if one of the messages is not what its sender meant.
func checkSums(messages []frame) error {
	for _, f := range messages {
		if f.id != sumOf(f.body) {
			return ErrDamaged
		}
	}
	return nil
}

// copiedMost is the size up to which a body is copied into a batch. Larger ones are sent from
// where they are.
const copiedMost = 4096

// encodeFrames encodes a batch: of each frame its id, whether it failed, the length of its body
// and the body.
func encodeFrames(all []frame) (batch mem.BufferSlice) {
	size := 0
	for _, f := range all {
		size += frameBytes
		if len(f.body) <= copiedMost {
			size += len(f.body)
		}
	}
	b, begun := make([]byte, 0, size), 0
	for _, f := range all {
		b = binary.AppendUvarint(b, f.id)
		failed := byte(0)
		if f.failed {
			failed = 1
		}
		b = binary.AppendUvarint(append(b, failed), uint64(len(f.body)))
		if len(f.body) <= copiedMost {
			b = append(b, f.body...)
			continue
		}
		batch = append(batch, mem.SliceBuffer(b[begun:]), mem.SliceBuffer(f.body))
		begun = len(b)
	}
	if begun < len(b) {
		batch = append(batch, mem.SliceBuffer(b[begun:]))
	}
	return batch
}

// readFrames decodes a batch. The bodies share its memory.
func readFrames(b []byte) (all []frame, err error) {
	for len(b) > 0 {
		id, n := binary.Uvarint(b)
		if n <= 0 || len(b) < n+2 || len(all) == framesMax {
			return nil, ErrFrame
		}
		f := frame{id: id, failed: b[n] == 1}
		b = b[n+1:]
		size, n := binary.Uvarint(b)
		if n <= 0 || uint64(len(b)-n) < size {
			return nil, ErrFrame
		}
		f.body, b = b[n:n+int(size):n+int(size)], b[n+int(size):]
		all = append(all, f)
	}
	return all, nil
}

// outbox holds the frames that wait to be sent on a stream.
type outbox struct {
	mu     sync.Mutex
	frames []frame
	bytes  int
	max    int
	closed bool
	ready  chan struct{}
}

func newOutbox(bytesMax int) *outbox { return &outbox{max: bytesMax, ready: make(chan struct{}, 1)} }

// put adds a frame. It returns false, and does not add it, if too much waits or it is closed.
func (o *outbox) put(f frame) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	size := frameBytes + len(f.body)
	if o.closed || o.bytes > 0 && o.bytes+size > o.max {
		return false
	}
	o.frames, o.bytes = append(o.frames, f), o.bytes+size
	select {
	case o.ready <- struct{}{}:
	default:
	}
	return true
}

// take removes the next frames, about as many as one batch takes, and returns those that
// wanted, unless it is nil, reports to be wanted still.
func (o *outbox) take(wanted func(frame) bool) []frame {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, size := 0, 0
	for n < len(o.frames) && size < batchBytes {
		size += frameBytes + len(o.frames[n].body)
		n++
	}
	var taken []frame
	taken, o.frames, o.bytes = o.frames[:n:n], o.frames[n:], o.bytes-size
	if len(o.frames) == 0 {
		o.frames = nil
		select { // it is not ready any more
		case <-o.ready:
		default:
		}
	} else {
		select {
		case o.ready <- struct{}{}:
		default:
		}
	}
	if wanted == nil {
		return taken
	}
	return slices.DeleteFunc(taken, func(f frame) bool { return !wanted(f) })
}

// drop removes all frames, and returns how many those were.
func (o *outbox) drop() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	dropped := len(o.frames)
	o.frames, o.bytes = nil, 0
	return dropped
}

// close removes all frames, returns how many those were, and takes no more.
func (o *outbox) close() int {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	return o.drop()
}
