package raftlog

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
)

// BenchmarkAppend appends records of 64 entries of 1.7 KB on a real disk, with four syncs
// in flight. An operation is an entry.
func BenchmarkAppend(b *testing.B) {
	dir := b.TempDir()
	l := mustOpen(b, Options{FS: vfs.Default, Dir: dir, ID: 1, New: true})
	data := entry(1, 1, 1740).Data
	b.SetBytes(1740)
	flights := make(chan chan error, syncsMax-1)
	b.ResetTimer()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for flight := range flights {
			if err := <-flight; err != nil {
				b.Error(err)
			}
		}
	}()
	for i := 0; i < b.N; i += 64 {
		r := Record{HardState: &raftpb.HardState{Term: new(uint64(1)), Commit: new(uint64(i))}}
		for n := range 64 {
			r.Entries = append(r.Entries, &raftpb.Entry{Index: new(uint64(i + n + 1)), Term: new(uint64(1)), Data: data})
		}
		if i > 1<<16 {
			r.Cut.Index = uint64(i - 1<<16)
		}
		turn, err := l.Append(r)
		must(b, err)
		flight := make(chan error, 1)
		go func() { flight <- l.Sync(turn) }()
		flights <- flight
	}
	close(flights)
	<-done
	b.StopTimer()
	s := l.Stats()
	b.ReportMetric(float64(s.Syncs)/float64(s.Turns), "syncs/record")
	b.ReportMetric(float64(s.Bytes)/float64(1740*b.N), "bytes/payload")
	must(b, l.Close())
}
