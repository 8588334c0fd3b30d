package raftlog

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/disk"
)

// FuzzTurn decodes any bytes as a turn. What can be decoded is encoded to the same turn.
func FuzzTurn(f *testing.F) {
	t := turn{hardState{3, 1, 7}, Position{5, 2}, hasHard | hasCut | hasEntries | hasNote, 6, entriesOf(6, 3, 20), "note"}
	f.Add(t.append(nil))
	f.Add(turn{cut: Position{9, 9}, parts: hasCut | hasReset}.append(nil))
	f.Add(summary{hardState{1, 2, 3}, Position{4, 5}, 6, "note"}.append(nil))
	f.Add([]byte{kindTurn, hasEntries, 1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, ok := decodeBase(b); ok {
			if again, ok := decodeBase(s.append(nil)); !ok || again != s {
				t.Errorf("base %+v, then %+v", s, again)
			}
		}
		decoded, err := decodeTurn(b)
		if err != nil {
			return
		}
		encoded := decoded.append(nil)
		again, err := decodeTurn(encoded)
		if err != nil || !bytes.Equal(again.append(nil), encoded) {
			t.Errorf("%x, then %+v (%v)", encoded, again, err)
		}
	})
}

// FuzzSegment puts any bytes behind the last synced record: what was synced is there, and
// the bytes are not part of the log. In a second log they take the place of all from an
// offset on: that is refused.
func FuzzSegment(f *testing.F) {
	fs := vfs.NewCrashableMem()
	l := mustOpen(f, testOptions(fs))
	appended, err := l.Append(Record{Entries: entriesOf(1, 4, 300)})
	must(f, errors.Join(err, l.Sync(appended)))
	name, end := segmentName(l.tail.number), l.tail.end
	print := fingerprint(f, l)
	must(f, l.Close())
	framed := turn{parts: hasEntries, first: 5, entries: entriesOf(5, 1, 50)}.append(make([]byte, headerBytes))
	frame(framed, disk.Head{Number: 3}, 2, seedOf(7, 1))
	f.Add(framed, uint16(0))
	f.Add(bytes.Repeat([]byte{0}, 100), uint16(40))
	f.Add([]byte{0, 0, 0, 9, 1, 2, 3, 4}, uint16(200))
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		torn := copyOf(fs)
		whole := readFile(t, torn, name)
		writeFile(t, torn, name, append(whole[:end:end], b...))
		l, err := Open(testOptions(torn))
		if err != nil {
			t.Fatal(err)
		}
		if fingerprint(t, l) != print {
			t.Error("another log")
		}
		must(t, l.Close())

		rotten := copyOf(fs)
		from := int64(at) % end
		content := append(whole[:from:from], b...)
		writeFile(t, rotten, name, content)
		if _, err := Open(testOptions(rotten)); !errors.Is(err, disk.ErrDamaged) && !bytes.HasPrefix(content, whole[:end]) {
			t.Errorf("%v", err)
		}
	})
}
