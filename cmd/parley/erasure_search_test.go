package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/blob"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/disk"
	"parley/persistence/layout"
)

// windowBytes is the length by which a spelling is looked up. Spellings are longer.
const windowBytes = 8

// A finder finds texts in bytes, in every encoding in which one may appear there.
type finder struct {
	// begins reports which two bytes a spelling begins with.
	begins [1 << 16]bool
	by     map[uint64][]spelling
}

type spelling struct{ text, name string }

// add makes f find a text under a name.
func (f *finder) add(name, text string) {
	for _, s := range encodingsOf(text) {
		f.addExactly(name, s)
	}
}

// addExactly is add without other encodings of the text.
func (f *finder) addExactly(name, text string) {
	if f.by == nil {
		f.by = map[uint64][]spelling{}
	}
	window := binary.LittleEndian.Uint64([]byte(text))
	f.begins[uint16(window)] = true
	f.by[window] = append(f.by[window], spelling{text, name})
}

// encodingsOf returns the encodings in which a text may appear inside other data. A text
// in base64 may also appear decoded.
func encodingsOf(text string) []string {
	all := []string{text, hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text)))}
	for lead := range 3 { // preceding bytes shift the base64 encoding
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			encoded := encoding.EncodeToString([]byte("..."[:lead] + text))
			all = append(all, encoded[(lead*8+5)/6:len(encoded)-2])
		}
	}
	for lead := range 4 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			rest := text[lead:]
			if decoded, err := encoding.DecodeString(rest[:len(rest)/4*4]); err == nil && len(decoded) > windowBytes {
				all = append(all, string(decoded))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// find adds the names of the texts that occur in the bytes.
func (f *finder) find(in []byte, found map[string]bool) {
	for at := 0; at+windowBytes <= len(in); at++ {
		if !f.begins[binary.LittleEndian.Uint16(in[at:])] {
			continue
		}
		for _, s := range f.by[binary.LittleEndian.Uint64(in[at:])] {
			if bytes.HasPrefix(in[at:], []byte(s.text)) {
				found[s.name] = true
			}
		}
	}
}

// finds reports whether one of the texts occurs in the bytes.
func (f *finder) finds(in string) bool {
	found := map[string]bool{}
	f.find([]byte(in), found)
	return len(found) > 0
}

// searched is the result of a search of a directory: which names were found, and in how
// many pieces of each kind it looked.
type searched struct {
	found                         map[string]bool
	files, pairs, blocks, records int
}

// names are the found names, except those of ids.
func (s *searched) names() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.found)), func(name string) bool { return strings.HasPrefix(name, idPrefix) })
}

// idPrefix begins the names of ids, which are stored in the clear: that they are found
// shows that a search works.
const idPrefix = "id of "

// search searches every file below a directory: its bytes, and what it contains if it is
// a table, a blob file or a log of the storage engine, whatever its name is. Tables are
// read with all versions of each key, deleted ones too.
func (f *finder) search(t *testing.T, dir string) *searched {
	t.Helper()
	s := &searched{found: map[string]bool{}}
	look := func(piece []byte) { f.find(piece, s.found) }
	for path, raw := range filesOf(t, dir) {
		s.files++
		look([]byte(path))
		look(raw)
		s.pairs += eachPair(t, raw, look)
		s.blocks += eachBlock(t, raw, look)
		s.records += eachRecord(raw, look)
	}
	return s
}

// filesOf returns the content of every file below a directory, by path.
func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) { // a running server deletes files
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		files[path] = bytes.TrimRight(raw, "\x00")
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files in %s: %v", len(files), dir, err)
	}
	return files
}

// memoryFile returns a file with a content.
func memoryFile(t *testing.T, content []byte) vfs.File {
	t.Helper()
	fs := vfs.NewMem()
	f, err := fs.Create("f", vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(bytes.Clone(content))
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		f, err = fs.Open("f")
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func readerOptions() sstable.ReaderOptions {
	o := &pebble.Options{Merger: layout.Merger, FormatMajorVersion: disk.EngineFormat}
	o.EnsureDefaults()
	return o.MakeReaderOptions()
}

// eachPair calls look with the keys and values of a table, decompressed, and returns
// their number. A value in a blob file is seen there.
func eachPair(t *testing.T, raw []byte, look func([]byte)) (pairs int) {
	t.Helper()
	file, err := sstable.NewSimpleReadable(memoryFile(t, raw))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := sstable.NewReader(context.Background(), file, readerOptions())
	if err != nil {
		return 0 // no table
	}
	iter, err := reader.NewIter(sstable.NoTransforms, nil, nil, sstable.DebugHandlesBlobContext)
	if err != nil {
		t.Fatal(err)
	}
	for pair := iter.First(); pair != nil; pair = iter.Next() {
		value, _, err := pair.Value(nil)
		if err != nil {
			t.Fatal(err)
		}
		look(pair.K.UserKey)
		look(value)
		pairs++
	}
	if err := iter.Close(); err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	return pairs
}

var blockLine = regexp.MustCompile(`(?m)^block \d+: offset=(\d+) length=(\d+)$`)

// eachBlock calls look with the blocks of a blob file, decompressed, and returns their
// number.
func eachBlock(t *testing.T, raw []byte, look func([]byte)) (blocks int) {
	t.Helper()
	file, err := sstable.NewSimpleReadable(memoryFile(t, raw))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := blob.NewFileReader(context.Background(), file, blob.FileReaderOptions{ReaderOptions: readerOptions().ReaderOptions})
	if err != nil {
		return 0 // no blob file
	}
	described, err := reader.Layout()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range blockLine.FindAllStringSubmatch(described, -1) {
		var h block.Handle
		h.Offset, _ = strconv.ParseUint(line[1], 10, 64)
		h.Length, _ = strconv.ParseUint(line[2], 10, 64)
		read, err := reader.ReadValueBlock(context.Background(), block.NoReadEnv, nil, h)
		if err != nil {
			t.Fatal(err)
		}
		look(read.BlockData())
		read.Release()
		blocks++
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	return blocks
}

// eachRecord calls look with the records of a log up to the first that is not whole, and
// returns their number. In the file a record is divided where a block ends.
func eachRecord(raw []byte, look func([]byte)) (records int) {
	const numberAt = 7 // after the checksum, the length and the kind of a chunk
	if len(raw) < numberAt+4 {
		return 0
	}
	reader := openLog(record.NewReader, bytes.NewReader(raw), binary.LittleEndian.Uint32(raw[numberAt:]))
	for {
		next, err := reader.Next()
		if err != nil {
			return records
		}
		whole, err := io.ReadAll(next)
		if err != nil {
			return records
		}
		look(whole)
		records++
	}
}

// openLog calls open, whose second parameter has a type that cannot be named here.
func openLog[N ~uint64](open func(io.Reader, N) *record.Reader, r io.Reader, number uint32) *record.Reader {
	return open(r, N(number))
}

// silent is a logger of the storage engine.
type silent struct{}

func (silent) Infof(string, ...any)            {}
func (silent) Errorf(string, ...any)           {}
func (silent) Fatalf(text string, args ...any) { panic(fmt.Sprintf(text, args...)) }

// TestErasureSearchControl: the search finds a text in a log, across the ends of blocks,
// in compressed tables and in blob files, in deleted rows too, and in every encoding.
func TestErasureSearchControl(t *testing.T) {
	dir := t.TempDir()
	o := &pebble.Options{Merger: layout.Merger, FormatMajorVersion: disk.EngineFormat, DisableAutomaticCompactions: true}
	o.Logger = silent{}
	o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
		return pebble.ValueSeparationPolicy{Enabled: true, MinimumSize: 512, MaxBlobReferenceDepth: 10}
	}
	db, err := pebble.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	f, texts := &finder{}, map[string]string{}
	for _, name := range []string{"in a table", "in a blob file", "overwritten", "in a log", "divided"} {
		texts[name] = canaryText()
		f.add(name, texts[name])
	}
	set := func(key, value string) {
		t.Helper()
		if err := db.Set([]byte(key), []byte(value), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	// With its halves before it a text is compressed to two references, so that the bytes
	// of the file do not contain it.
	halves := func(name string) string {
		return strings.Repeat(texts[name][:12]+"-"+texts[name][12:]+" ", 10) + texts[name]
	}
	set("a", halves("in a table"))
	set("b", strings.Repeat("long ", 100)+halves("in a blob file"))
	set("c", texts["overwritten"])
	if err := db.Flush(); err != nil {
		t.Fatal(err)
	}
	set("c", "")
	set("d", texts["in a log"])
	set("e", strings.Repeat(" ", 40_000)+strings.Repeat(texts["divided"], 3_000))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, raw := f.search(t, dir), map[string]bool{}
	if got, want := s.names(), slices.Sorted(maps.Keys(texts)); !slices.Equal(got, want) || s.pairs == 0 || s.blocks == 0 || s.records == 0 {
		t.Errorf("found %q, want %q, among %d pairs, %d blocks and %d records", got, want, s.pairs, s.blocks, s.records)
	}
	for path, content := range filesOf(t, dir) {
		if filepath.Ext(path) == ".sst" || filepath.Ext(path) == ".blob" {
			f.find(content, raw)
		}
	}
	if raw["in a table"] || raw["in a blob file"] {
		t.Errorf("the files contain %v uncompressed, so this does not test that blocks are decompressed", raw)
	}
	text := texts["in a table"]
	for _, line := range []string{
		"token=" + text, hex.EncodeToString([]byte("x" + text)), strings.ToUpper(hex.EncodeToString([]byte(text))),
		base64.StdEncoding.EncodeToString([]byte("user:" + text + "!")), base64.URLEncoding.EncodeToString([]byte("a" + text)), base64.RawURLEncoding.EncodeToString([]byte("ab" + text)),
	} {
		if !f.finds("harmless " + line) {
			t.Errorf("not found in %q", line)
		}
	}
	if decoded, err := base64.RawURLEncoding.DecodeString("ab" + text); err != nil || !f.finds(string(decoded)) {
		t.Errorf("not found where it is decoded (%v)", err)
	}
	if f.finds("harmless") || f.finds(text[1:]) {
		t.Error("found where it is not")
	}
}
