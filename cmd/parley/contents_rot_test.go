package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"parley/client/parley"
	"parley/cmd/parley/datadir"
	"parley/journal"
	"parley/persistence"
)

// TestVerifyFindsDamagedContents: verify finds a sealed content that was changed below the
// checksums of the storage engine, and names the row. Without the change it finds nothing.
func TestVerifyFindsDamagedContents(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	x := &story{liveServer: serveData(t, data, "2"), fates: map[string]fate{}, filled: map[string]bool{}}
	one, two := x.register(kept), x.register(kept)
	one.webhooks(two)
	x.stop()
	verify := func(want int, words ...string) {
		t.Helper()
		code, out, said := ran(t, "verify", "--data", data)
		for _, word := range words {
			if code != want || !strings.Contains(out+said, word) {
				t.Errorf("verify: exit %d, without %q\n%s%s", code, word, out, said)
			}
		}
	}
	verify(0, "is in order: "+checksInDocs(t)+" held") // control
	whole := changeContent(t, data, func(value []byte) []byte { value[len(value)-1] ^= 1; return value })
	verify(1, "contents: slot", "stored content is damaged")
	changeContent(t, data, func([]byte) []byte { return whole })
	verify(0, "is in order")
}

// checksInDocs returns how many checks docs/measurements/faults.md promises, as "92 checks".
func checksInDocs(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/measurements/faults.md")
	promised := regexp.MustCompile("`parley verify`: ([0-9]+ checks) ").FindSubmatch(text)
	if err != nil || promised == nil {
		t.Fatalf("docs/measurements/faults.md does not say how many checks parley verify makes: %v", err)
	}
	return string(promised[1])
}

// changeContent changes the first sealed row of a data directory, and returns it as it
// was.
func changeContent(t *testing.T, data string, change func([]byte) []byte) (was []byte) {
	t.Helper()
	master, err := datadir.FindMasterKey(data)
	if err != nil {
		t.Fatal(err)
	}
	store, _, err := datadir.OpenStore(data, master, persistence.Options{Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	err = store.Start(func(journal.Stream) {}, func(journal.Stream, time.Time) {})
	var row *journal.Row
	archive := store.Archive()
	err = errors.Join(err, archive.Tables(func(slot parley.Slot, table journal.Table, key, value []byte) error {
		if row == nil && table == journal.WebhookTable {
			was = bytes.Clone(value)
			row = &journal.Row{Slot: slot, Table: table, Key: bytes.Clone(key), Value: change(bytes.Clone(value))}
		}
		return nil
	}), archive.Close())
	if err != nil || row == nil {
		t.Fatal(row, err)
	}
	stored := make(chan error, 1)
	store.Append(&journal.Entry{Slot: row.Slot, At: time.Now(), Rows: []journal.Row{*row}, Release: func(err error) { stored <- err }})
	if err := errors.Join(<-stored, store.Close()); err != nil {
		t.Fatal(err)
	}
	return was
}
