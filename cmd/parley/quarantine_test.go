package main

import (
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/client/parley"
	"parley/cmd/parley/datadir"
	"parley/cmd/parley/operator"
	"parley/cmd/parley/program"
	"parley/journal"
	"parley/persistence"
)

// withQuarantine creates a data directory with two rows in quarantine.
func withQuarantine(t *testing.T) (data string, owner parley.AnyID) {
	t.Helper()
	data = t.TempDir()
	store, err := persistence.Open(filepath.Join(data, "journal"), persistence.Options{Clock: time.Now, Logger: slog.New(slog.DiscardHandler), Journals: 2})
	if err == nil {
		err = store.Start(func(journal.Stream) {}, func(journal.Stream, time.Time) {})
	}
	if err != nil {
		t.Fatal(err)
	}
	owner = parley.AnyID(parley.NextID(parley.OrgID{}, time.Now(), [10]byte{1}))
	for number, word := range []string{"hello", "\xff\xff"} {
		key := append([]byte{byte(journal.OrgStream)}, owner[:]...)
		row := journal.Row{
			Slot: owner.Slot(), Table: journal.QuarantineTable, Key: binary.BigEndian.AppendUint64(key, uint64(number)),
			Value: append(binary.BigEndian.AppendUint64(nil, 1_700_000_000_000), word...),
		}
		stored := make(chan error, 1)
		store.Append(&journal.Entry{Slot: row.Slot, At: time.Now(), Rows: []journal.Row{row}, Release: func(err error) { stored <- err }})
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return data, owner
}

// ran runs the program and returns its exit code, output and errors.
func ran(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var o, e strings.Builder
	code = run(t.Context(), func() {}, args, &program.Streams{In: strings.NewReader(""), RawOut: &o, RawErr: &e})
	return code, o.String(), e.String()
}

// TestQuarantineIsAcknowledged: verify fails while the quarantine has rows. An operator
// can drop a row, which is reported and logged; then verify finds no fault.
func TestQuarantineIsAcknowledged(t *testing.T) {
	data, owner := withQuarantine(t)
	verify := func(want int, words string) {
		t.Helper()
		if code, out, said := ran(t, "verify", "--data", data); code != want || !strings.Contains(out+said, words) {
			t.Fatalf("verify: exit %d, want %d\n%s%s", code, want, out, said)
		}
	}
	verify(program.ExitUnexpected, "2 stored effects in "+data+" could not be decoded")
	first, second := "organization-"+owner.String()+"/0", "organization-"+owner.String()+"/1"
	code, out, said := ran(t, "quarantine", "--data", data)
	for _, word := range []string{first, second, "for          organization " + owner.String(), "5 bytes  68656c6c6f", "2 bytes  ffff"} {
		if code != 0 || !strings.Contains(out, word) {
			t.Errorf("list: exit %d, without %q:\n%s%s", code, word, out, said)
		}
	}
	for _, args := range [][]string{{first, "organization-" + owner.String() + "/7"}, {"*"}} {
		if code, out, said := ran(t, append([]string{"quarantine", "drop", "--data", data}, args...)...); code != program.ExitNotFound || out != "" || !strings.Contains(said, "nothing was dropped") {
			t.Errorf("%q: exit %d, %s%s", args, code, out, said)
		}
	}
	for _, args := range [][]string{nil, {"--all", first}} {
		if code, _, said := ran(t, append([]string{"quarantine", "drop", "--data", data}, args...)...); code != program.ExitUsage {
			t.Errorf("%q: exit %d, %s", args, code, said)
		}
	}
	verify(program.ExitUnexpected, "2 stored effects")
	code, out, said = ran(t, "quarantine", "drop", "--data", data, first, first)
	if code != 0 || !strings.Contains(out, "68656c6c6f") || !strings.Contains(out, "dropped 1") || strings.Contains(out, second) {
		t.Errorf("drop: exit %d\n%s%s", code, out, said)
	}
	// The SHA-256 of hello.
	if strings.Count(said, "level=WARN") != 1 || !strings.Contains(said, "row="+first) || !strings.Contains(said, "sha256=2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824") {
		t.Errorf("the log says\n%s", said)
	}
	verify(program.ExitUnexpected, "1 stored effects")
	code, out, said = ran(t, "quarantine", "drop", "--data", data, "--all", "--json")
	var listed struct{ Items []operator.QuarantineRow }
	if err := json.Unmarshal([]byte(out), &listed); err != nil || code != 0 || len(listed.Items) != 1 || listed.Items[0].Row != second || string(listed.Items[0].Data) != "\xff\xff" || !json.Valid([]byte(said)) {
		t.Errorf("drop --all --json: exit %d, %v\n%s%s", code, err, out, said)
	}
	verify(0, "is in order")
	if code, out, _ := ran(t, "quarantine", "list", "--data", data, "--json"); code != 0 || out != "{\"items\":[]}\n" {
		t.Errorf("list: exit %d, %s", code, out)
	}
}

// TestQuarantineNeedsTheDirectory: while a server has the directory open, the command
// neither reads nor drops rows.
func TestQuarantineNeedsTheDirectory(t *testing.T) {
	data, _ := withQuarantine(t)
	store, err := datadir.Open(data, &program.Streams{RawErr: &strings.Builder{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"list"}, {"drop", "--all"}} {
		if code, out, said := ran(t, append(append([]string{"quarantine"}, args...), "--data", data)...); code != program.ExitUnexpected || out != "" || !strings.Contains(strings.ToLower(said), "stop the server first") {
			t.Errorf("%q: exit %d, %s%s", args, code, out, said)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := ran(t, "quarantine", "list", "--data", data); code != 0 || strings.Count(out, "put aside") != 2 {
		t.Errorf("afterwards: exit %d, %s", code, out)
	}
}
