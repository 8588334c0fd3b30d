package persistence

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/journal/report"
	"parley/persistence/layout"
	"parley/persistence/verify"
)

const blobTable = journal.Table(101)

// blobRow is a row with a value of that many bytes, which do not compress.
func blobRow(key, size int) journal.Row {
	value := make([]byte, size)
	random := rand.New(rand.NewPCG(uint64(key), uint64(size)))
	for i := range value {
		value[i] = byte(random.Uint32())
	}
	return journal.Row{Table: blobTable, Key: layout.EncodeNumber(uint64(key)), Value: value}
}

func mustAppend(t testing.TB, s *Store, rows ...journal.Row) {
	t.Helper()
	if err := <-appended(s, &journal.Entry{At: testStart, Rows: rows}); err != nil {
		t.Fatal(err)
	}
}

// blobsOf are the names of the blob files in a directory, and their bytes.
func blobsOf(t testing.TB, fs vfs.FS, dir string) (names []string, content []byte) {
	t.Helper()
	for _, name := range files(t, fs, dir) {
		if kindOf(name) == "blob" {
			b, err := readFile(fs, dir+"/"+name)
			if err != nil {
				t.Fatal(err)
			}
			names, content = append(names, name), append(content, b...)
		}
	}
	return names, content
}

// TestLargeValuesGoIntoBlobs: a flush writes records of messages and other values of
// separatedLeast or more into blob files, and smaller ones into tables; both are
// read as they were written.
func TestLargeValuesGoIntoBlobs(t *testing.T) {
	fs := vfs.NewMem()
	s := running(t, fs, "d", 1)
	small, large := blobRow(1, separatedLeast-1), blobRow(2, separatedLeast)
	message := journal.Record{ID: parley.NewID[parley.MessageID](0, testStart, testEntropy()), Data: blobRow(3, 700).Value}
	if err := <-appended(s, &journal.Entry{At: testStart, Rows: []journal.Row{small, large}, Records: []journal.Record{message}}); err != nil {
		t.Fatal(err)
	}
	if names, _ := blobsOf(t, fs, "d"); len(names) > 0 {
		t.Fatalf("%q are there before a flush", names)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	names, content := blobsOf(t, fs, "d")
	for what, c := range map[string]struct {
		value []byte
		blob  bool
	}{"a small value": {small.Value, false}, "a large value": {large.Value, true}, "a message": {message.Data, true}} {
		if bytes.Contains(content, c.value) != c.blob {
			t.Errorf("%s is in the blob files %q: %v", what, names, !c.blob)
		}
	}
	if e := s.Stats().Engine; e.Blobs != uint64(len(names)) || e.BlobBytes != uint64(len(content)) || e.DeadBytes != 0 {
		t.Errorf("the metrics count %d blob files of %d bytes, %d of them dead; there are %d of %d", e.Blobs, e.BlobBytes, e.DeadBytes, len(names), len(content))
	}
	v := s.View()
	for _, row := range []journal.Row{small, large} {
		if got, found, err := v.Row(0, blobTable, row.Key); err != nil || !found || !bytes.Equal(got, row.Value) {
			t.Errorf("%d bytes are read back as %d (%v)", len(row.Value), len(got), err)
		}
	}
	if got, _, err := recordOf(v, 0, message.ID); err != nil || !bytes.Equal(got, message.Data) {
		t.Errorf("the message is read back as %d bytes (%v)", len(got), err)
	}
	v.Close()
	mustClose(t, s)
}

// compactAll flushes and compacts everything. An error of the compaction is returned.
func compactAll(t testing.TB, s *Store) error {
	t.Helper()
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	return s.db.Compact(context.Background(), []byte{0}, []byte{0xFF, 0xFF, 0xFF}, false)
}

// TestBlobsLoseDeletedValues: the bytes of deleted and overwritten values leave the
// blob files after at most blobDepthMax further compactions of their neighbours. The
// other values stay.
func TestBlobsLoseDeletedValues(t *testing.T) {
	unraced(t)
	const rows = 400
	fs := vfs.NewMem()
	s := running(t, fs, "d", 1)
	for key := range rows {
		mustAppend(t, s, blobRow(key, 900))
	}
	if err := compactAll(t, s); err != nil {
		t.Fatal(err)
	}
	for key := 0; key < rows; key += 2 {
		row := journal.Row{Table: blobTable, Key: layout.EncodeNumber(uint64(key)), Delete: true}
		if key%4 == 0 {
			row = blobRow(key, 901)
		}
		mustAppend(t, s, row)
	}
	left := func(odd int) (n int) {
		_, content := blobsOf(t, fs, "d")
		for key := odd; key < rows; key += 2 {
			n += count(bytes.Contains(content, blobRow(key, 900).Value))
		}
		return n
	}
	rounds := 0
	for gone := left(0); gone > 0 && rounds <= blobDepthMax; rounds++ {
		if dead := s.Stats().Engine.DeadBytes; rounds == 1 && (gone != rows/2 || dead != rows/2*900) {
			t.Errorf("after one compaction %d of %d values are left, %d bytes: the test shows nothing", gone, rows/2, dead)
		}
		mustAppend(t, s, blobRow(rows+rounds, 900))
		if err := compactAll(t, s); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // the engine removes files after it has answered
		gone = left(0)
	}
	t.Logf("after %d compactions %d of %d values are left", rounds, left(0), rows/2)
	if left(0) > 0 || left(1) != rows/2 {
		t.Errorf("%d of %d values that were deleted or overwritten are left, and %d that were not", left(0), rows/2, left(1))
	}
	if n := s.db.Metrics().Compact.BlobFileRewriteCount; n > 0 {
		t.Errorf("%d blob files were rewritten, at which the engine panics if one is damaged", n)
	}
	v := s.View()
	for key := range rows {
		want := blobRow(key, 900).Value
		switch {
		case key%4 == 0:
			want = blobRow(key, 901).Value
		case key%4 == 2:
			want = nil
		}
		if got, _, err := v.Row(0, blobTable, layout.EncodeNumber(uint64(key))); err != nil || !bytes.Equal(got, want) {
			t.Errorf("row %d is read as %d bytes, want %d (%v)", key, len(got), len(want), err)
		}
	}
	v.Close()
	mustClose(t, s)
}

// TestDamagedBlobWhileRunning: a blob file that is damaged, cut or removed while the
// store runs fails the reads that need it and is reported by name. Everything else
// is served, and the process goes on.
func TestDamagedBlobWhileRunning(t *testing.T) {
	for what, change := range map[string]func([]byte) []byte{
		"flipped in a block":    func(b []byte) []byte { b[len(b)/3] ^= 8; return b },
		"flipped in the footer": func(b []byte) []byte { b[len(b)-3] ^= 8; return b },
		"cut":                   func(b []byte) []byte { return b[:len(b)/2] },
		"shorter than a footer": func(b []byte) []byte { return b[:9] },
		"empty":                 func([]byte) []byte { return nil },
		"gone":                  nil,
	} {
		t.Run(what, func(t *testing.T) {
			fs := vfs.NewMem()
			s := running(t, fs, "d", 1)
			small, large := blobRow(1, 10), blobRow(2, 5000)
			mustAppend(t, s, small, large)
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
			names, _ := blobsOf(t, fs, "d")
			if len(names) != 1 {
				t.Fatalf("blob files: %q", names)
			}
			path := "d/" + names[0]
			if change == nil {
				if err := fs.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else {
				rewrite(t, fs, path, change)
			}
			v := s.View()
			seen := 0
			_, _, got := v.Row(0, blobTable, large.Key)
			scanned := v.Rows(0, blobTable, nil, nil, false, func(_, value []byte) bool { seen += count(!bytes.Equal(value, small.Value)); return true })
			for _, err := range []error{got, scanned} {
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
					t.Errorf("the read says %v", err)
				}
			}
			if value, found, err := v.Row(0, blobTable, small.Key); err != nil || !found || !bytes.Equal(value, small.Value) || seen > 0 {
				t.Errorf("the value beside it is read as %x (%v), and %d wrong ones were shown", value, err, seen)
			}
			v.Close()
			if s.Damage() != path {
				t.Errorf("%q is reported as damaged", s.Damage())
			}
			mustAppend(t, s, blobRow(3, 5000))
			mustClose(t, s)
		})
	}
}

// TestCompactionOfADamagedBlob: where a compaction cannot copy the values out of a
// damaged blob file, the process goes on, the file is named, and the engine does not
// try again and again without a pause.
func TestCompactionOfADamagedBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		opts := testOptions(fs, 1)
		opts.Clock = time.Now
		s := mustOpen(t, "d", opts)
		if err := startQuietly(s); err != nil {
			t.Fatal(err)
		}
		for key := range 40 {
			mustAppend(t, s, blobRow(key, 900))
		}
		if err := compactAll(t, s); err != nil {
			t.Fatal(err)
		}
		names, _ := blobsOf(t, fs, "d")
		for _, name := range names {
			rewrite(t, fs, "d/"+name, func(b []byte) []byte { b[len(b)/3] ^= 8; return b })
		}
		var failed error
		for round := 0; failed == nil && round <= 2*blobDepthMax; round++ {
			mustAppend(t, s, blobRow(40+round, 900))
			failed = compactAll(t, s)
		}
		if !slices.Contains(names, strings.TrimPrefix(s.Damage(), "d/")) || failed == nil || !strings.Contains(failed.Error(), s.Damage()) {
			t.Errorf("%q is reported as damaged, and a compaction says %v", s.Damage(), failed)
		}
		time.Sleep(time.Hour)
		tries := s.db.Metrics().Compact.FailedCount
		if t.Logf("%d compactions have failed", tries); tries == 0 || tries > 3600 {
			t.Errorf("%d compactions have failed within an hour", tries)
		}
		if err := s.Trouble(); err != nil {
			t.Errorf("the store takes no writes: %v", err)
		}
		mustAppend(t, s, blobRow(999, 900))
		mustClose(t, s)
	})
}

// TestVerifyNamesADamagedBlob: parley verify finds a flipped byte of a blob file, and
// a directory that lacks one is refused by name, also by the commands that only read.
func TestVerifyNamesADamagedBlob(t *testing.T) {
	r := killed(t, 3, 60)
	tried, unused := 0, 0
	for name, content := range r.files {
		if kindOf(name) != "blob" || len(content) == 0 { // the kill may leave one that was just created
			continue
		}
		if without, err := OpenArchive("d", testOptions(r.with(t, name, nil), 0)); err == nil { // or one that is not in use yet
			unused++
			if err := without.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		tried++
		flipped := slices.Clone(content)
		flipped[len(flipped)/3] ^= 2
		a := mustOpenArchive(t, "d", testOptions(r.with(t, name, flipped), 0))
		result := &report.Verification{}
		if err := verify.Rows(a, result); err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, f := range result.First(100) {
			said += f.String() + "\n"
		}
		if !strings.Contains(said, "d/"+name) {
			t.Errorf("%s is flipped, and verification says %q", name, said)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		_, err := OpenArchive("d", testOptions(r.with(t, name, nil), 0))
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "d/"+name) {
			t.Errorf("without %s: %v", name, err)
		}
		opts := testOptions(r.with(t, name, nil), 0)
		opts.AcceptLoss = true
		refusedWith(t, "d", opts, "d/"+name)
	}
	if tried == 0 || unused > 1 {
		t.Errorf("%d blob files were in use, %d not yet", tried, unused)
	}
}

// TestBlobFaultControl: the engine alone panics where the end of a blob file cannot be
// written. The panic ends the process, so another one has it.
func TestBlobFaultControl(t *testing.T) {
	unraced(t)
	const inside = "PARLEY_TEST_OF_A_PANIC"
	if os.Getenv(inside) != "" {
		x := newFaultRuns(t, 1)
		x.run(t, fault{"sync of blob", 1, false, errIO}, nil, func(o *Options) { o.trustBlobs = true })
		return
	}
	alone := exec.Command(os.Args[0], "-test.run", "^TestBlobFaultControl$")
	alone.Env = append(os.Environ(), inside+"=1")
	said, err := alone.CombinedOutput()
	if err == nil || !bytes.Contains(said, []byte("panic: ")) || !bytes.Contains(said, []byte("blob.(*FileWriter).Close")) {
		t.Errorf("the engine does not panic: %v\n%s", err, said)
	}
}
