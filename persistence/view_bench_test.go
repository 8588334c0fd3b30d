package persistence

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/journal"
	"parley/persistence/journaltest"
)

// BenchmarkRead reads one row while nothing is written: through a view, which is a
// snapshot of the engine, and through Latest.
func BenchmarkRead(b *testing.B) {
	opts := testOptions(vfs.NewMem(), 1)
	opts.CacheBytes, opts.MemTableBytes = 64<<20, 8<<20
	s := mustOpen(b, "d", opts)
	defer mustClose(b, s)
	if err := s.Start(func(journal.Stream) {}, nil); err != nil {
		b.Fatal(err)
	}
	streams := make([]journal.Stream, 2000)
	for i := range streams {
		streams[i] = newStream(journaltest.SpreadSlot(i))
		stored := make(chan error, 1)
		s.Append(&journal.Entry{Slot: streams[i].Slot(), Effects: []journal.Effect{
			journal.CreateStream{Stream: streams[i], Events: []journal.StoredEvent{{Tag: 1, Data: []byte("x")}}, State: make([]byte, 200)},
		}, Release: func(err error) { stored <- err }})
		if err := <-stored; err != nil {
			b.Fatal(err)
		}
	}
	read := func(b *testing.B, open func() journal.View) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				v := open()
				if _, state, err := v.State(streams[i%len(streams)]); err != nil || len(state) != 200 {
					b.Error(err)
				}
				v.Close()
			}
		})
	}
	b.Run("view", func(b *testing.B) { read(b, s.View) })
	b.Run("latest", func(b *testing.B) { read(b, s.Latest) })
}

// BenchmarkOpenNewDirectory opens a directory for the first time, on the real file system.
func BenchmarkOpenNewDirectory(b *testing.B) {
	dir := b.TempDir()
	for i := range b.N {
		s := mustOpen(b, filepath.Join(dir, strconv.Itoa(i)), testOptions(vfs.Default, 1))
		b.StopTimer()
		mustClose(b, s)
		b.StartTimer()
	}
}
