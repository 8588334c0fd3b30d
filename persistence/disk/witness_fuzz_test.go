package disk

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// witnessFile returns a directory with a witness of these bytes.
func witnessFile(t testing.TB, b []byte) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll("d", 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := fs.Create("d/"+WitnessName, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Write(bytes.Clone(b)) // Write may change its argument
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	return fs
}

// FuzzWitness: the witness has the content of one of its copies with a correct checksum,
// the newer one if both are correct; otherwise the directory is damaged. The fuzzer
// changes one copy.
func FuzzWitness(f *testing.F) {
	fs := witnessFile(f, nil)
	w, err := MakeWitness(fs, "d", Head{Number: 7, Chain: 9})
	if err != nil {
		f.Fatal(err)
	}
	w.files.move(5)
	w.files.settle()
	w.files.synced(fileHash{5, 100, 77})
	w.files.finished(fileHash{4, 1 << 20, 78})
	w.NoteKeyring(KeyringState{Identity: [16]byte{1}})
	w.NoteShard(3, 1<<40)
	if err := errors.Join(w.Write(), w.Write(), w.Close()); err != nil {
		f.Fatal(err)
	}
	file, err := fs.Open("d/" + WitnessName)
	if err != nil {
		f.Fatal(err)
	}
	whole, err := io.ReadAll(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, uint16(0))
	f.Add(whole[:witnessSlot+witnessBytesMin+24], uint16(witnessSlot*8-1))
	f.Add(whole[:witnessSlot], uint16(8))
	f.Add(whole[:witnessBytesMin-1], uint16(witnessBytesMin*8))
	f.Add(append(bytes.Clone(whole), whole...), uint16(77))
	f.Add([]byte{}, uint16(0xffff))
	f.Add([]byte(witnessMagic), uint16(63))
	f.Fuzz(func(t *testing.T, b []byte, bit uint16) {
		w, err := ReadWitness(witnessFile(t, b), "d")
		switch {
		case err != nil:
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("%x: %v", b, err)
			}
		case !said(b, 0, w) && !said(b, witnessSlot, w):
			t.Fatalf("%x is read as %+v of generation %d", b, w.Head, w.generation)
		}
		changed := bytes.Clone(whole)
		changed[int(bit/8)%witnessSlot] ^= 1 << (bit % 8)
		w, err = ReadWitness(witnessFile(t, changed), "d")
		if err != nil || w.Head != (Head{7, 9}) || w.Keyring.Identity != [16]byte{1} || w.Keyring.Generations[3] != 1<<40 {
			t.Fatalf("with bit %d of one copy changed: %+v, %v", bit, w, err)
		}
	})
}

// said reports whether the copy at a place has a correct checksum and equals w.
func said(b []byte, at int, w *WitnessRecord) bool {
	if len(b) < at {
		return false
	}
	is, ok := decodeWitnessRecord(b[at:min(len(b), at+witnessSlot)])
	return ok && is.generation == w.generation && is.Head == w.Head && is.Keyring == w.Keyring
}

// FuzzHead: a commit's head is 16 bytes, which encode to the same bytes after decoding;
// anything else is damage.
func FuzzHead(f *testing.F) {
	f.Add(Head{Number: 1, Chain: 2}.Append(nil), []byte("batch"))
	f.Add([]byte{}, []byte{})
	f.Add(make([]byte, 17), []byte{0})
	f.Fuzz(func(t *testing.T, b, batch []byte) {
		h, err := DecodeHead(b)
		if (err == nil) != (len(b) == 16) || err != nil && (!errors.Is(err, ErrDamaged) || h != (Head{})) {
			t.Fatalf("%x: %+v, %v", b, h, err)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(h.Append(nil), b) || h.Next(batch).Number != h.Number+1 {
			t.Fatalf("%x is read as %+v, followed by %+v", b, h, h.Next(batch))
		}
		if other := h.Next(append(bytes.Clone(batch), 0)); other == h.Next(batch) {
			t.Fatalf("two batches after %+v have the same hash", h)
		}
	})
}
