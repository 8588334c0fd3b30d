package persistence

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/journal"
	"parley/persistence/rows"
)

// TestScansOfAView: scans that follow one another or begin within each other, that end early
// or go backwards, show what a view of their own would, more of them than one iterator makes.
// What is written meanwhile is shown by Latest and not by a view.
func TestScansOfAView(t *testing.T) {
	s := mustOpen(t, "d", testOptions(vfs.NewMem(), 1))
	defer mustClose(t, s)
	if err := s.Start(func(journal.Stream) {}, nil); err != nil {
		t.Fatal(err)
	}
	put := func(key string) {
		if err := <-appended(s, &journal.Entry{Rows: []journal.Row{{Table: journal.SlugTable, Key: []byte(key), Value: []byte(key)}}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 6 {
		put(fmt.Sprintf("%d%d", i%2, i))
	}
	view, latest := s.View(), s.Latest()
	defer view.Close()
	defer latest.Close()
	read := func(v journal.View, prefix string, reverse bool, most int) (got string) {
		err := v.Rows(0, journal.SlugTable, []byte(prefix), nil, reverse, func(key, _ []byte) bool {
			got += string(key) + " "
			most--
			return most > 0
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for i := range rows.ScansMax + 10 {
		if got := read(latest, "0", false, 9); i == 5 {
			put("06") // after a scan
		} else if want := map[bool]string{true: "00 02 04 ", false: "00 02 04 06 "}[i < 5]; got != want {
			t.Fatalf("scan %d of latest: %s", i, got)
		}
		within := ""
		if err := view.Rows(0, journal.SlugTable, []byte("1"), nil, false, func(key, _ []byte) bool {
			within += string(key) + "(" + read(view, "0", false, 9) + ")"
			return true
		}); err != nil || within != "11(00 02 04 )13(00 02 04 )15(00 02 04 )" {
			t.Fatalf("scan %d: %s, %v", i, within, err)
		}
		if got := read(view, "", i%2 == 0, 2); got != []string{"15 13 ", "00 02 "}[i%2] {
			t.Fatalf("scan %d: %s", i, got)
		}
	}
}
