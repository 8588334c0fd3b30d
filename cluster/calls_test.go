package cluster

import (
	"errors"
	"testing"

	"parley/journal"
)

// TestEntriesOfOneLeader: what only the leader that made it may store never crosses to another
// node.
func TestEntriesOfOneLeader(t *testing.T) {
	rows := []journal.Row{{Table: journal.ErasureTable, Key: []byte("a"), Value: []byte("b")}}
	if _, err := callOf(&journal.Entry{Rows: rows}); err != nil {
		t.Errorf("a row does not cross: %v", err)
	}
	if _, err := callOf(&journal.Entry{Rows: rows, Here: true}); !errors.Is(err, journal.ErrNotLeader) {
		t.Errorf("a row of one leader crosses: %v", err)
	}
}
