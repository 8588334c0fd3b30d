package persistence

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/client/parley"
	"parley/journal"
	"parley/persistence/journaltest"
)

// Every write is a batch that package apply built and write applied: readers that
// follow a journal see all writes as batches.

// mayWrite are the functions that write to the storage engine, and why.
var mayWrite = map[string]string{
	"(*Store).write":         "the only way in",
	"(*Replica).replaceRows": "the content of another replica, which did come from batches, takes the place of all rows",
	"opening.openJournals":   "the format row says how this directory is laid out and how often it was opened: it is written before there is a journal, and is no part of what journals hold",
	"examination.giveUp":     "the heads of commits that were given up are this directory's own, and are dropped before there is a journal",
}

// engineWrites are the methods of the engine's database that change it, and the methods
// that commit a batch.
var engineWrites = []string{
	"Set", "Delete", "DeleteSized", "SingleDelete", "DeleteRange", "Merge", "LogData", "RangeKeySet", "RangeKeyUnset", "RangeKeyDelete",
	"Apply", "ApplyNoSyncWait", "Ingest", "IngestAndExcise", "IngestExternalFiles", "IngestWithStats", "Excise",
}

// writersIn returns the functions of a folder's product code that write to the
// engine.
func writersIn(t *testing.T, folder fs.FS) (writers []string) {
	t.Helper()
	files, err := fs.Glob(folder, "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := fs.ReadFile(folder, name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && writesToEngine(f.Body) {
				writers = append(writers, nameOf(f))
			}
		}
	}
	return writers
}

// writesToEngine reports whether code mentions a write method of something called
// db, or the commit of a batch.
func writesToEngine(body ast.Node) (writes bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		receiver := ""
		switch x := s.X.(type) {
		case *ast.Ident:
			receiver = x.Name
		case *ast.SelectorExpr:
			receiver = x.Sel.Name
		}
		writes = writes || s.Sel.Name == "Commit" || receiver == "db" && slices.Contains(engineWrites, s.Sel.Name)
		return true
	})
	return writes
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	switch of := f.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		return fmt.Sprintf("(*%s).%s", of.X, f.Name.Name)
	default:
		return fmt.Sprintf("%s.%s", of, f.Name.Name)
	}
}

// TestOnlyJournalsWriteToTheEngine: every function that writes is on the list, and every
// function on the list writes.
func TestOnlyJournalsWriteToTheEngine(t *testing.T) {
	writers := writersIn(t, os.DirFS("."))
	for _, w := range writers {
		if mayWrite[w] == "" {
			t.Errorf("%s writes without the journal: append an entry instead", w)
		}
	}
	if w := writersIn(t, os.DirFS("apply")); len(w) > 0 {
		t.Errorf("%v in package apply write to the engine: the evaluator only fills a batch", w)
	}
	for w := range mayWrite {
		if !slices.Contains(writers, w) {
			t.Errorf("%s is on the list but does not write", w)
		}
	}
	cheat := t.TempDir() + "/cheat.go"
	source := "package persistence\n\nfunc (j *journal) a() error { return j.store.db.DeleteRange(nil, nil, nil) }\n" +
		"func b(s *Store) { put := s.db.Set; _ = put }\n\nfunc c() { _ = batch.Commit(nil) }\n\nfunc fine() { _, _, _ = s.db.Get(nil); a.batch.Set() }\n"
	if err := os.WriteFile(cheat, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := writersIn(t, os.DirFS(strings.TrimSuffix(cheat, "/cheat.go"))); !slices.Equal(found, []string{"(*journal).a", "b", "c"}) {
		t.Errorf("control: the writers are %v", found)
	}
}

// pastDays opens a store with idempotency keys of two days and lets the older ones
// expire. It returns the bytes written to the engine since, and the bytes of them that
// the journals counted.
func pastDays(t *testing.T, journals int, during func(*Store)) (given, counted uint64) {
	t.Helper()
	now := atomic.Int64{}
	now.Store(time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC).UnixNano())
	opts := testOptions(vfs.NewMem(), journals)
	opts.Clock, opts.TimerEvery = func() time.Time { return time.Unix(0, now.Load()).UTC() }, time.Millisecond
	s := mustOpen(t, "d", opts)
	defer mustClose(t, s)
	before := s.db.Metrics().WAL.BytesIn
	if err := s.Start(func(journal.Stream) {}, func(journal.Stream, time.Time) {}); err != nil {
		t.Fatal(err)
	}
	today := journal.Day(opts.Clock())
	for n := range 200 {
		slot := journaltest.SpreadSlot(n)
		stored := make(chan error, 1)
		e := &journal.Entry{Slot: slot, At: opts.Clock(), Release: func(err error) { stored <- err }}
		for _, day := range []uint32{today - 1, today, today + 1} {
			e.Rows = append(e.Rows, journal.Row{Slot: slot, Table: journal.OnceTable, Key: onceKey(day), Value: []byte("x")})
		}
		s.Append(e)
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
	}
	now.Add(int64(24 * time.Hour))
	have := func(slot parley.Slot, day uint32) bool {
		_, found, err := s.Row(slot, journal.OnceTable, onceKey(day))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for n := range 200 {
		slot := journaltest.SpreadSlot(n)
		for have(slot, today-1) {
			time.Sleep(time.Millisecond)
		}
		if !have(slot, today) || !have(slot, today+1) {
			t.Errorf("slot %d: keys that are still valid are gone", slot)
		}
	}
	if during != nil {
		during(s)
	}
	// A journal counts a batch after the commit, whose effects are visible earlier: wait
	// for a later batch.
	for n := range journals {
		slot := s.homes.First(n)
		for range 2 {
			passed := make(chan error, 1)
			s.Append(&journal.Entry{Slot: slot, Release: func(err error) { passed <- err }})
			if err := <-passed; err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, j := range s.Stats().Journals {
		counted += j.Bytes
	}
	return s.db.Metrics().WAL.BytesIn - before, counted
}

func onceKey(day uint32) []byte {
	return []byte{byte(day >> 24), byte(day >> 16), byte(day >> 8), byte(day), 'k'}
}

// TestExpiredKeysAreDeletedByTheJournal: all bytes written to the engine while past
// idempotency keys are deleted are in batches of a journal.
func TestExpiredKeysAreDeletedByTheJournal(t *testing.T) {
	for _, journals := range []int{1, 4} {
		if given, counted := pastDays(t, journals, nil); given != counted {
			t.Errorf("%d journals: %d bytes were written to the engine, %d of them by journals", journals, given, counted)
		}
	}
	given, counted := pastDays(t, 1, func(s *Store) {
		if err := s.db.Delete([]byte("past the journal"), nil); err != nil {
			t.Fatal(err)
		}
	})
	if given == counted {
		t.Error("control: a write without the journal was not noticed")
	}
}
