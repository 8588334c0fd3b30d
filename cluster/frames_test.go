package cluster

import (
	"context"
	"errors"
	"flag"
	"hash/crc32"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"parley/cluster/consensus"
)

var (
	frameInputs = flag.Int("frames.inputs", 2_500, "inputs of each type of frame in TestMalformedFrames")
	frameSeed   = flag.Uint64("frames.seed", 1, "the seed of TestMalformedFrames; the members' own timing is not part of it")
)

// The types of frames.
const (
	messageFrames = iota
	callFrames
	answerFrames
	contentFrames
	frameTypes
)

// groupInputs bounds the inputs of one group.
const groupInputs = 25_000

// budget is how many inputs of each type are left.
type budget struct {
	mu   sync.Mutex
	left [frameTypes]int
	// ofGroup are those that are left to the group.
	ofGroup int
}

func (b *budget) next(rng *rand.Rand) (kind int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ofGroup--; b.ofGroup < 0 {
		return 0, false
	}
	first := rng.IntN(frameTypes)
	for n := range frameTypes {
		if kind = (first + n) % frameTypes; b.left[kind] > 0 {
			b.left[kind]--
			return kind, true
		}
	}
	return 0, false
}

// worker sends inputs as one member to another.
func (a *attacked) worker(seed uint64, inputs *budget, counts *tally) {
	rng := rand.New(rand.NewPCG(seed, 7))
	conns, requests := map[[2]int]*grpc.ClientConn{}, a.requests()
	var header, content []byte
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for sent := 0; a.failed.Load() == nil; sent++ {
		kind, ok := inputs.next(rng)
		if !ok {
			return
		}
		from, to := rng.IntN(3), rng.IntN(2)
		if to >= from {
			to++
		}
		pair := [2]int{from, to}
		if conns[pair] == nil {
			conns[pair] = a.dial(from, to)
		}
		if a.members[to].term() != 0 {
			counts.toLeader.Add(1)
		} else {
			counts.toFollower.Add(1)
		}
		counts.of[kind].Add(1)
		switch kind {
		case messageFrames:
			send(conns[pair], "Messages", malformedMessage(rng, a.lies, a.record(rng, from, to), uint64(from+1)))
		case callFrames:
			b := batchOf(1, mutateBytes(rng, requests[rng.IntN(len(requests))]))
			if request, err := a.nodes[to].Types.Append(nil, randomRequest(rng)); err == nil && rng.IntN(2) == 0 {
				b = batchOf(1, request)
			}
			if rng.IntN(10) == 0 {
				b = mutateBytes(rng, b)
			}
			send(conns[pair], "Calls", b)
		case answerFrames:
			ctx, stop := context.WithTimeout(context.Background(), 10*time.Millisecond)
			peer := malformedAnswer{rng, a.nodes[from]}
			if rng.IntN(2) == 0 {
				_, _ = a.nodes[to].exchange(ctx, uint64(from+1), peer, false)
			} else {
				_, _ = a.nodes[to].call(ctx, peer, askState{})
			}
			stop()
		case contentFrames:
			if sent%64 == 0 || content == nil {
				header, content = a.content(from, to)
			}
			if rng.IntN(2) == 0 {
				send(conns[pair], "Content", mutateMessage(rng, header, uint64(from+1)), content)
			} else {
				send(conns[pair], "Content", header, mutateBytes(rng, content))
			}
		}
	}
}

// malformedMessage mutates a message and returns the batch with it. A message that is damaged keeps
// the checksum that it had, one that lies gets that which it has now.
func malformedMessage(rng *rand.Rand, lies bool, b []byte, from uint64) []byte {
	id := checksum(b)
	if rng.IntN(2) == 0 {
		b = mutateBytes(rng, b)
	} else {
		b = mutateMessage(rng, b, from)
	}
	if lies {
		id = checksum(b)
	}
	if b = batchOf(id, b); rng.IntN(10) == 0 {
		b = mutateBytes(rng, b)
	}
	return b
}

type tally struct {
	toLeader, toFollower atomic.Int64
	of                   [frameTypes]atomic.Int64
}

// TestMalformedFrames: a damaged frame of one member never ends another. In every other group members
// lie: their messages are mutated before they get their checksums. Then a member may end, but only as
// one that differs from the group, or was made to commit what it cannot apply.
func TestMalformedFrames(t *testing.T) {
	ids, logged, counts := identities(t, 3), &counting{}, &tally{}
	inputs := &budget{}
	for kind := range inputs.left {
		inputs.left[kind] = *frameInputs
	}
	left := func() (all int) {
		for _, n := range inputs.left {
			all += n
		}
		return all
	}
	deceived, began := 0, time.Now()
	for life := uint64(0); left() > 0; life++ {
		a := attack(t, ids, logged)
		a.lies = life%2 == 1
		inputs.ofGroup = min(groupInputs, *frameInputs) // each liar raises the term, which is bounded
		ctx, stop := context.WithCancel(t.Context())
		var work, writing sync.WaitGroup
		writing.Go(func() { a.write(ctx) })
		for n := range uint64(4) {
			work.Go(func() { a.worker(*frameSeed<<32+4*life+n, inputs, counts) })
		}
		work.Wait()
		err, before := a.failed.Load(), a.written.Load()
		for waited := time.Now(); err == nil && a.written.Load() == before; time.Sleep(time.Millisecond) {
			if err = a.failed.Load(); time.Since(waited) > 30*time.Second {
				t.Errorf("the group does not go on after malformed frames")
				break
			}
		}
		stop()
		writing.Wait()
		a.close()
		switch {
		case err == nil:
		case a.lies && (errors.Is(*err, ErrDiverged) || errors.Is(*err, consensus.ErrEntry)):
			deceived++
		default:
			t.Fatalf("a member ended with %d inputs left: %v", left(), *err)
		}
	}
	t.Logf("%d inputs of each type in %s: %d to leaders, %d to followers; %d messages, %d calls, %d answers, %d contents; %d were named in the log; %d groups were deceived",
		*frameInputs, time.Since(began).Round(time.Second), counts.toLeader.Load(), counts.toFollower.Load(),
		counts.of[messageFrames].Load(), counts.of[callFrames].Load(), counts.of[answerFrames].Load(), counts.of[contentFrames].Load(), logged.dropped.Load(), deceived)
	if logged.dropped.Load() == 0 || logged.unnamed.Load() > 0 {
		t.Errorf("%d malformed frames were logged, %d of them without the node and what was wrong", logged.dropped.Load(), logged.unnamed.Load())
	}
}

// TestDamagedMessages: a message that does not have its checksum is refused before it is decoded.
// With the checksum that it has after the damage it may be a valid one.
func TestDamagedMessages(t *testing.T) {
	logged := &counting{}
	a := attack(t, identities(t, 3), logged)
	defer a.close()
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() { a.write(ctx) })
	defer writing.Wait()
	defer stop()
	rng := rand.New(rand.NewPCG(1, 3))
	conn := a.dial(0, 1)
	defer func() { _ = conn.Close() }()
	const count = 200
	for sent := 0; sent < count; {
		b := a.record(rng, 0, 1)
		if len(b) == 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		sum := checksum(b)
		b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		if sent++; sent%2 == 0 {
			sum = checksum(b)
		}
		send(conn, "Messages", batchOf(sum, b))
	}
	if n := logged.damaged.Load(); n != count/2 {
		t.Errorf("%d of %d damaged messages were refused", n, count/2)
	}
}

func checksum(b []byte) uint64 { return uint64(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))) }
