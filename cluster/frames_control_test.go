package cluster

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"parley/cluster/consensus"
)

// TestPlantedIndexErrors: the mutations of TestMalformedFrames find an index error in each
// decoder. Each of these reads a length, or counts on one, and does not check it, behind what the
// real decoder lets pass first.
func TestPlantedIndexErrors(t *testing.T) {
	m := consensus.Message{
		Floor: 9, Known: consensus.Known{{ID: 1, Place: placeOf(7, 6, 5)}, {ID: 2, Place: placeOf(7, 6, 5)}},
		Raft: &raftpb.Message{
			Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(uint64(6)), Commit: new(uint64(7)), Context: make([]byte, 8),
		},
	}
	beat, err := encodeMessage(m)
	if err != nil {
		t.Fatal(err)
	}
	types := registeredTypes()
	claim, err := types.Append(nil, askAcknowledged{ID: 2, Index: 5, Term: 1})
	if err != nil {
		t.Fatal(err)
	}
	reply, err := types.Append(nil, answer{Content: acknowledgedUpTo{Index: 5, Term: 1, Member: true}, Visible: 5})
	if err != nil {
		t.Fatal(err)
	}
	content := append([]byte{1}, append(binary.AppendUvarint(nil, 40), make([]byte, 40)...)...)
	for name, c := range map[string]struct {
		input  []byte
		decode func(b []byte)
	}{
		"the floor of a message": {beat, func(b []byte) { _ = binary.BigEndian.Uint64(b) }},
		"the round of a heartbeat": {beat, func(b []byte) { // as raft reads it
			if m, err := decodeMessage(2, b); err == nil && len(m.Raft.GetContext()) > 0 {
				_ = binary.LittleEndian.Uint64(m.Raft.GetContext())
			}
		}},
		"the standings of members": {beat, func(b []byte) {
			if m, err := decodeMessage(2, b); err == nil {
				_ = m.Known[1]
			}
		}},
		"the type of a message": {beat, func(b []byte) { // as raft looks it up
			if m, err := decodeMessage(2, b); err == nil && m.Raft.GetType() < 24 {
				_ = make([]bool, 24)[m.Raft.GetType()]
			}
		}},
		"the body of a frame": {batchOf(1, claim), func(b []byte) {
			_, n := binary.Uvarint(b)
			if b = b[max(n, 0):]; len(b) > 1 {
				size, n := binary.Uvarint(b[1:])
				_ = b[1+max(n, 0):][:size]
			}
		}},
		"a call": {claim, func(b []byte) { _ = b[2 : 2+int(b[1])] }},
		"an answer": {reply, func(b []byte) {
			if v, err := types.Value(b); err == nil {
				_ = v.(answer).Content.(acknowledgedUpTo).Index
			}
		}},
		"a content": {content, func(b []byte) {
			size, n := binary.Uvarint(b[1:])
			_ = b[1+max(n, 0):][:size]
		}},
	} {
		rng, found := rand.New(rand.NewPCG(1, 2)), 0
		try := func(b []byte) (panicked bool) {
			defer func() { panicked = recover() != nil }()
			c.decode(b)
			return
		}
		if try(bytes.Clone(c.input)) {
			t.Errorf("%s: the input itself is not decoded", name)
		}
		const most = 2000
		began := time.Now()
		for found < most {
			b := mutateBytes(rng, c.input)
			if rng.IntN(3) > 0 && &c.input[0] == &beat[0] {
				b = mutateMessage(rng, c.input, 2)
			}
			if found++; try(b) {
				break
			}
		}
		if found == most {
			t.Errorf("%s: the index error is not found by %d inputs", name, most)
		}
		t.Logf("%s: found by input %d, %s", name, found, time.Since(began))
	}
}
