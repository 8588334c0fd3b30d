package cluster

import (
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"parley/cluster/consensus"
)

// TestDecodeMessage: a message is decoded as protobuf decodes it, whole, cut off or damaged.
func TestDecodeMessage(t *testing.T) {
	term, index, normal := uint64(7), uint64(300), raftpb.EntryNormal
	entries := []*raftpb.Entry{
		{Term: &term, Index: &index, Type: &normal, Data: []byte("batch")}, {Term: &term}, {Data: []byte{}}, {},
	}
	for name, m := range map[string]*raftpb.Message{
		"appends":   {Type: raftpb.MsgApp.Enum(), From: new(uint64(2)), To: new(uint64(3)), Index: &index, Commit: &term, Entries: entries},
		"an answer": {Type: raftpb.MsgAppResp.Enum(), From: new(uint64(2)), Reject: new(true), RejectHint: &index},
		"a fence":   {Type: raftpb.MsgReadIndex.Enum(), From: new(uint64(2)), Entries: entries[:1], Context: []byte("context")},
		"a content": {Type: raftpb.MsgSnap.Enum(), From: new(uint64(2)), Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &index}}},
		"of others": {From: new(uint64(4))},
		"nothing":   {},
	} {
		whole, err := encodeMessage(consensus.Message{Raft: m, Floor: 9})
		if err != nil {
			t.Fatal(err)
		}
		inputs := [][]byte{whole}
		for i := range whole {
			inputs = append(inputs, whole[:i])
			for bit := range 8 {
				damaged := append([]byte(nil), whole...)
				damaged[i] ^= 1 << bit
				inputs = append(inputs, damaged)
			}
		}
		for _, b := range inputs {
			want := &raftpb.Message{}
			readable := len(b) >= floorBytes && proto.Unmarshal(b[floorBytes:], want) == nil
			got, err := decodeMessage(2, append([]byte(nil), b...))
			if taken := readable && want.GetFrom() == 2; taken != (err == nil) {
				t.Fatalf("%s, %x: error %v, want %v", name, b, err, taken)
			} else if taken && !proto.Equal(got.Raft, want) {
				t.Fatalf("%s, %x: %v, want %v", name, b, got.Raft, want)
			}
		}
		got, err := decodeMessage(m.GetFrom(), whole)
		if err != nil || got.Floor != 9 {
			t.Errorf("%s: floor %d, %v", name, got.Floor, err)
		}
		for _, e := range got.Raft.GetEntries() { // raft's log may append to one
			if cap(e.Data) != len(e.Data) {
				t.Errorf("%s: behind an entry of %d bytes there is room for %d", name, len(e.Data), cap(e.Data))
			}
		}
	}
}
