package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
)

// BenchmarkTransfer gives the content of a replica to a blank one on the same disk, until it
// is durable there: 256 MiB in rows of 2 KB that cannot be compressed.
func BenchmarkTransfer(b *testing.B) {
	const rows, size = 128 << 10, 2 << 10
	options := testOptions(vfs.Default, 1)
	options.MemTableBytes, options.CacheBytes, options.FreeBytesMin = 0, 0, -1
	s, from := openAloneIn(b, filepath.Join(b.TempDir(), "from"), options, 1)
	random := rand.NewChaCha8([32]byte{})
	released := make(chan error, 256)
	for n := range rows {
		value := make([]byte, size)
		_, _ = random.Read(value)
		slot := parley.Slot(n) % parley.Slots
		s.Append(&journal.Entry{
			Slot: slot, Rows: []journal.Row{{Slot: slot, Table: journal.RosterTable, Key: binary.BigEndian.AppendUint64(nil, uint64(n)), Value: value}},
			At: testStart, Release: func(err error) { released <- err },
		})
		if n >= cap(released)/2 {
			if err := <-released; err != nil {
				b.Fatal(err)
			}
		}
	}
	b.SetBytes(rows * size)
	round := 0
	for b.Loop() {
		round++
		_, to := openAloneIn(b, filepath.Join(b.TempDir(), fmt.Sprint(round)), options, 0)
		content, err := from.Snapshot()
		if err != nil {
			b.Fatal(err)
		}
		reader, writer := io.Pipe()
		go func() {
			n, err := content.WriteTo(writer)
			if n < rows*size {
				b.Errorf("%d bytes were sent", n)
			}
			writer.CloseWithError(errors.Join(err, content.Close()))
		}()
		if err := restore(to, reader); err != nil {
			b.Fatal(err)
		}
	}
}
