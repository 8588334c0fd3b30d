package keylog_test

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"parley/actors/keylog"
)

// grown returns a log of n leaves, what is stored for each, and the leaves.
func grown(t testing.TB, n int) (s *keylog.State, rows [][]byte, leaves []keylog.Hash) {
	s = &keylog.State{}
	for i := 0; len(leaves) < n; i++ {
		c := keylog.Append{}
		for range min(1+i%5, n-len(leaves)) {
			leaf := sha256.Sum256(fmt.Append(nil, len(leaves)))
			c.Leaves, leaves = append(c.Leaves, leaf), append(leaves, leaf)
		}
		events, err := keylog.Decide(s, c, time.UnixMilli(1))
		if err != nil || len(events) != 1 {
			t.Fatal(events, err)
		}
		rows = append(rows, keylog.Stored(s, events[0].(*keylog.Appended).GetLeaves())...)
		keylog.Evolve(s, events[0])
	}
	return s, rows, leaves
}

func reader(rows [][]byte) keylog.Rows {
	return func(leaf uint64) ([]byte, error) {
		if leaf >= uint64(len(rows)) {
			return nil, fmt.Errorf("no row %d", leaf)
		}
		return rows[leaf], nil
	}
}

// TestTree compares the tree with that of package tlog, for every size up to 130: its root,
// and each stored hash.
func TestTree(t *testing.T) {
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) (hashes []tlog.Hash, err error) {
		for _, i := range indexes {
			hashes = append(hashes, stored[i])
		}
		return hashes, nil
	})
	for n := range 130 {
		s, rows, _ := grown(t, n)
		root, err := tlog.TreeHash(int64(n), read)
		if n == 0 {
			root, err = sha256.Sum256(nil), nil
		}
		if err != nil || s.Root() != keylog.Hash(root) || s.GetSize() != uint64(n) || s.Exists() != (n > 0) {
			t.Fatalf("%d leaves: root %x, want %x, %v", n, s.Root(), root, err)
		}
		var all []byte
		for i, row := range rows {
			if len(row) != keylog.StoredBytes(uint64(i)) {
				t.Fatalf("leaf %d: %d bytes", i, len(row))
			}
			all = append(all, row...)
		}
		var want []byte
		for _, h := range stored {
			want = append(want, h[:]...)
		}
		if string(all) != string(want) {
			t.Fatalf("%d leaves are stored otherwise", n)
		}
		leaf := sha256.Sum256(fmt.Append(nil, n))
		more, err := tlog.StoredHashes(int64(n), leaf[:], read)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, more...)
	}
}

// TestProofs verifies each proof of inclusion and of consistency in trees of up to 40
// leaves, and that none verifies for another leaf or another tree.
func TestProofs(t *testing.T) {
	const most = 40
	_, rows, leaves := grown(t, most)
	roots := make([]tlog.Hash, most+1)
	for n := range roots {
		s, _, _ := grown(t, n)
		roots[n] = tlog.Hash(s.Root())
	}
	for size := 1; size <= most; size++ {
		for i := range size {
			proof, err := keylog.ProveInclusion(uint64(size), uint64(i), reader(rows))
			if err != nil {
				t.Fatal(err)
			}
			leaf, other := leaves[i], leaves[(i+1)%most]
			if err := tlog.CheckRecord(hashes(proof), int64(size), roots[size], int64(i), tlog.RecordHash(leaf[:])); err != nil {
				t.Fatalf("leaf %d of %d: %v", i, size, err)
			}
			if tlog.CheckRecord(hashes(proof), int64(size), roots[size], int64(i), tlog.RecordHash(other[:])) == nil {
				t.Fatalf("leaf %d of %d: the proof is one of another leaf", i, size)
			}
		}
		for from := 1; from <= size; from++ {
			proof, err := keylog.ProveConsistency(uint64(from), uint64(size), reader(rows))
			if err != nil {
				t.Fatal(err)
			}
			if err := tlog.CheckTree(hashes(proof), int64(size), roots[size], int64(from), roots[from]); err != nil {
				t.Fatalf("%d in %d: %v", from, size, err)
			}
			if tlog.CheckTree(hashes(proof), int64(size), roots[size], int64(from), roots[from-1]) == nil {
				t.Fatalf("%d in %d: the proof is one of another tree", from, size)
			}
		}
	}
}

func hashes(proof []keylog.Hash) (out []tlog.Hash) {
	for _, h := range proof {
		out = append(out, tlog.Hash(h))
	}
	return out
}

// TestDamagedRows: a row of another length, and one that is missing, fail the proof.
func TestDamagedRows(t *testing.T) {
	_, rows, _ := grown(t, 8)
	if _, err := keylog.ProveInclusion(8, 6, reader(rows)); err != nil {
		t.Errorf("control: %v", err)
	}
	rows[7] = rows[7][:32]
	if _, err := keylog.ProveInclusion(8, 6, reader(rows)); err != nil {
		return
	}
	t.Error("a row that is too short was used")
}

// TestNothingToAppend: no leaves, no event. A command never changes the state.
func TestNothingToAppend(t *testing.T) {
	s, _, _ := grown(t, 3)
	before := s.Root()
	if events, err := keylog.Decide(s, keylog.Append{}, time.UnixMilli(1)); events != nil || err != nil {
		t.Error(events, err)
	}
	if _, err := keylog.Decide(s, keylog.Append{Leaves: []keylog.Hash{{1}}}, time.UnixMilli(1)); err != nil || s.Root() != before || s.GetSize() != 3 {
		t.Error("the state changed without an event")
	}
	if _, known := keylog.New(2); known {
		t.Error("an event of kind 2")
	}
}

// BenchmarkProofs makes proofs in a log of a million leaves in memory.
func BenchmarkProofs(b *testing.B) {
	const n = 1_000_000
	_, rows, _ := grown(b, n)
	at := uint64(0)
	b.Run("inclusion", func(b *testing.B) {
		for b.Loop() {
			at = (at*6364136223846793005 + 1442695040888963407)
			if _, err := keylog.ProveInclusion(n, at%n, reader(rows)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("consistency", func(b *testing.B) {
		for b.Loop() {
			at = (at*6364136223846793005 + 1442695040888963407)
			if _, err := keylog.ProveConsistency(1+at%n, n, reader(rows)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
