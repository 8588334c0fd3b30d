package raftlog

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"

	"parley/persistence/disk"
)

// placed is where a record lies.
type placed struct {
	path            string
	at, size        int64
	number, durable uint64
}

// filled makes a log with a few segments and returns where its records are, the witness as
// it was before them, and the log's fingerprint. It is closed.
func filled(t *testing.T, fs *vfs.MemFS) (records []placed, witness []byte, print uint64) {
	t.Helper()
	l := mustOpen(t, testOptions(fs))
	witness = readFile(t, fs, disk.WitnessName)
	for i := range uint64(30) {
		r := Record{Entries: entriesOf(1+2*i, 2, 200+int(i%7))}
		turn, err := l.Append(r)
		must(t, err)
		if i%5 > 0 { // otherwise the record is synced with the next one
			must(t, l.Sync(turn))
		}
	}
	must(t, l.Sync(l.appended))
	print = fingerprint(t, l)
	for _, s := range l.segments {
		file, err := openReader(fs, s, l.o.ID)
		must(t, err)
		for {
			at := file.at
			rec, ok, err := file.next()
			must(t, err)
			if !ok {
				break
			}
			records = append(records, placed{s.path, at, file.at - at, rec.head.Number, rec.synced})
		}
		must(t, file.close())
	}
	must(t, l.Close())
	return records, witness, print
}

func entriesOf(first uint64, n, size int) (r []*raftpb.Entry) {
	for i := range uint64(n) {
		r = append(r, entry(first+i, 1, size))
	}
	return r
}

func readFile(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(fs.PathJoin(testDir, name))
	must(t, err)
	b, err := io.ReadAll(f)
	must(t, errors.Join(err, f.Close()))
	return b
}

func writeFile(t *testing.T, fs vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := fs.Create(fs.PathJoin(testDir, name), "test")
	must(t, err)
	_, err = f.Write(b)
	must(t, errors.Join(err, f.Sync(), f.Close()))
}

// flip changes one bit of a file.
func flip(t *testing.T, fs *vfs.MemFS, path string, at int64, bit byte) {
	t.Helper()
	b, err := fs.UnsafeGetFileDataBuffer(path)
	must(t, err)
	b[at] ^= bit
}

// copyOf returns a disk with the same files.
func copyOf(fs *vfs.MemFS) *vfs.MemFS { return fs.CrashClone(vfs.CrashCloneCfg{}) }

// TestRot flips bits of every record of a log that was closed: it is refused by name.
func TestRot(t *testing.T) {
	fs := vfs.NewCrashableMem()
	records, _, print := filled(t, fs)
	rng := rand.New(rand.NewPCG(1, 1))
	for _, r := range records {
		for _, at := range []int64{0, 3, 4, 9, 17, 25, headerBytes, headerBytes + rng.Int64N(r.size-headerBytes), r.size - 1} {
			rotten := copyOf(fs)
			flip(t, rotten, r.path, r.at+at, 1<<rng.IntN(8))
			if l, err := verified(t, testOptions(rotten)); !errors.Is(err, disk.ErrDamaged) {
				t.Fatalf("record %d, byte %d: %v, %v", r.number, at, l, err)
			}
		}
	}
	// Space behind the last record holds nothing.
	last := records[len(records)-1]
	rotten := copyOf(fs)
	name := fs.PathBase(last.path)
	writeFile(t, rotten, name, append(readFile(t, fs, name)[:last.at+last.size], "some bytes that nobody has written as a record of this log"...))
	if l := mustOpen(t, testOptions(rotten)); fingerprint(t, l) != print {
		t.Error("bytes behind the log change it")
	}
}

// TestRotAfterCrash flips bits of a log whose witness lags as far as it can. What later
// records prove to be synced is refused; the rest, which nothing shows to have been
// acknowledged, may be dropped. The control is the witness of an orderly close.
func TestRotAfterCrash(t *testing.T) {
	fs := vfs.NewCrashableMem()
	records, witness, _ := filled(t, fs)
	proven := slices.MaxFunc(records, func(a, b placed) int { return int(a.durable) - int(b.durable) }).durable
	dropped := 0
	for _, r := range records {
		rotten := copyOf(fs)
		writeFile(t, rotten, disk.WitnessName, witness)
		flip(t, rotten, r.path, r.at+r.size/2, 4)
		l, err := verified(t, testOptions(rotten))
		switch {
		case errors.Is(err, disk.ErrDamaged):
		case err != nil || r.number <= proven:
			t.Fatalf("record %d of %d, %d are known to be synced: %v", r.number, len(records), proven, err)
		default:
			dropped++
			if last, _ := l.LastIndex(); last == 60 {
				t.Fatalf("record %d is damaged and was not noticed", r.number)
			}
			must(t, l.Close())
		}
	}
	if dropped == 0 || proven < records[len(records)-1].number-3 {
		t.Errorf("%d records were dropped, %d of %d proven: the control is void", dropped, proven, len(records))
	}
}

// TestLostFiles removes, cuts and exchanges files of a log that was closed.
func TestLostFiles(t *testing.T) {
	fs := vfs.NewCrashableMem()
	records, _, _ := filled(t, fs)
	refused := func(what string, change func(fs *vfs.MemFS)) {
		t.Helper()
		rotten := copyOf(fs)
		change(rotten)
		if _, err := verified(t, testOptions(rotten)); !errors.Is(err, disk.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	var paths []string
	for _, r := range records {
		paths = append(paths, r.path)
		refused("cut before "+r.path, func(fs *vfs.MemFS) {
			name := fs.PathBase(r.path)
			writeFile(t, fs, name, readFile(t, fs, name)[:r.at])
		})
	}
	paths = slices.Compact(paths)
	if len(paths) < 3 {
		t.Fatalf("only %d segments", len(paths))
	}
	for i, path := range paths {
		refused("without "+path, func(fs *vfs.MemFS) { must(t, fs.Remove(path)) })
		refused("another log's "+path, func(fs *vfs.MemFS) {
			other := paths[(i+1)%len(paths)]
			writeFile(t, fs, fs.PathBase(path), readFile(t, fs, fs.PathBase(other)))
		})
	}
	refused("without a witness", func(fs *vfs.MemFS) { must(t, fs.Remove(fs.PathJoin(testDir, disk.WitnessName))) })
	refused("without segments", func(fs *vfs.MemFS) {
		for _, path := range paths {
			must(t, fs.Remove(path))
		}
	})
	refused("another replica", func(fs *vfs.MemFS) {
		o := testOptions(fs)
		o.Dir, o.ID = "other", 8
		must(t, mustOpen(t, o).Close())
		must(t, fs.RemoveAll("other/"+segmentName(1)))
		must(t, fs.Rename(paths[0], "other/"+segmentName(1)))
		must(t, fs.RemoveAll(testDir))
		must(t, fs.Rename("other", testDir))
	})
}
