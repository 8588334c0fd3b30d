package disk

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

func contentOf(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestLogsAreWrittenAhead: behind what was written to a log lie zeros, as many as a sync can
// afford; a log that overwrites a longer file keeps that; other files end where they end.
func TestLogsAreWrittenAhead(t *testing.T) {
	scarce := false
	fs := AheadFS{vfs.NewMem(), ".", aheadChunk, func() bool { return scarce }}
	log, err := fs.Create("000007.log", "pebble-wal")
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	for i := range 100 {
		part := bytes.Repeat([]byte{byte(i + 1)}, 10_000)
		if n, err := log.Write(part); n != len(part) || err != nil {
			t.Fatalf("it wrote %d bytes: %v", n, err)
		}
		want = append(want, part...)
		got := contentOf(t, fs, "000007.log")
		if ahead := len(got) - len(want); ahead < aheadChunk/aheadLeast || ahead > aheadChunk+aheadChunk/aheadLeast {
			t.Fatalf("%d bytes lie ahead of %d", ahead, len(want))
		}
		if !bytes.Equal(got[:len(want)], want) || !bytes.Equal(got[len(want):], make([]byte, len(got)-len(want))) {
			t.Fatalf("after %d bytes the log holds something else", len(want))
		}
	}
	size := len(contentOf(t, fs, "000007.log"))
	again, err := fs.ReuseForWrite("000007.log", "000008.log", "pebble-wal")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Write([]byte("anew")); err != nil {
		t.Fatal(err)
	}
	if got := contentOf(t, fs, "000008.log"); len(got) != size || !bytes.HasPrefix(got, []byte("anew\x01")) {
		t.Errorf("a log that overwrites another holds %d bytes, not %d", len(got), size)
	}
	scarce = true
	for at := len("anew"); at < size; {
		n, err := again.Write(want[:min(len(want), size-at)])
		if at += n; err != nil {
			t.Fatal(err)
		}
	}
	if got := contentOf(t, fs, "000008.log"); len(got) != size {
		t.Errorf("on a disk that is nearly full, %d bytes were written ahead", len(got)-size)
	}
	table, err := fs.Create("000009.sst", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Write([]byte("table")); err != nil {
		t.Fatal(err)
	}
	if got := contentOf(t, fs, "000009.sst"); string(got) != "table" {
		t.Errorf("a table holds %q", got)
	}
}

// TestLogsGoOnWithoutSpaceAhead: a log that cannot be written ahead grows as it is written.
func TestLogsGoOnWithoutSpaceAhead(t *testing.T) {
	full := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWriteAt {
			return errors.New("no space")
		}
		return nil
	})
	fs := AheadFS{errorfs.Wrap(vfs.NewMem(), full), ".", aheadChunk, func() bool { return false }}
	log, err := fs.Create("000007.log", "pebble-wal")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if n, err := log.Write([]byte("abc")); n != 3 || err != nil {
			t.Fatalf("it wrote %d bytes: %v", n, err)
		}
	}
	if got := contentOf(t, fs, "000007.log"); string(got) != "abcabcabc" {
		t.Errorf("the log holds %q", got)
	}
}
