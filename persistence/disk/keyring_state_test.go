package disk

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestLongestWitness: the longest record that can be written is read back, from either
// copy.
func TestLongestWitness(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("d", 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := MakeWitness(fs, "d", Head{Number: math.MaxUint64, Chain: math.MaxUint64})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(fileHashesMax + 5) {
		w.files.synced(fileHash{math.MaxUint64 - i, math.MaxUint64, math.MaxUint64})
		w.files.finished(fileHash{math.MaxUint64 - i, math.MaxUint64, math.MaxUint64})
	}
	state := KeyringState{Identity: [16]byte{15: 1}}
	for i := range state.Generations {
		state.Generations[i] = math.MaxUint64
	}
	w.NoteKeyring(state)
	if n := len(state.append(nil)); n != keyringStateMax {
		t.Errorf("the longest state has %d bytes, and %d are reserved", n, keyringStateMax)
	}
	if n := len(w.files.append(nil)); n != fileChecksumsMax {
		t.Errorf("the longest list of files has %d bytes, and %d are reserved", n, fileChecksumsMax)
	}
	for range 2 {
		if err := w.Write(); err != nil {
			t.Fatal(err)
		}
		record, err := ReadWitness(fs, "d")
		if err != nil || record.Keyring != state || record.Head != w.Latest() || len(record.files.logs) != fileHashesMax || record.generation != w.generation {
			t.Fatalf("read back: %v", err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestKeyringState: what is recorded only rises, and what was found may be newer, never
// older.
func TestKeyringState(t *testing.T) {
	var none KeyringState
	recorded := KeyringState{Identity: [16]byte{1}, Generations: [KeyringShards]uint64{3: 7, 200: 9, 201: 9}}
	changed := func(change func(*KeyringState)) KeyringState {
		s := recorded
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		recorded, found KeyringState
		says            string
	}{
		"nothing recorded":  {none, recorded, ""},
		"the same":          {recorded, recorded, ""},
		"newer":             {recorded, changed(func(s *KeyringState) { s.Generations[3], s.Generations[0] = 8, 1 }), ""},
		"older":             {recorded, changed(func(s *KeyringState) { s.Generations[3] = 6 }), "shard 03 of the keyring has generation 6, and generation 7 was"},
		"lost":              {recorded, changed(func(s *KeyringState) { s.Generations[200], s.Generations[201] = 0, 0 }), "in its place; 1 more shards"},
		"newer and older":   {recorded, changed(func(s *KeyringState) { s.Generations[3], s.Generations[200] = 8, 8 }), "shard c8 "},
		"another keyring's": {recorded, changed(func(s *KeyringState) { s.Identity[9] = 1 }), "not the one that belongs"},
		"no keyring":        {recorded, none, "not the one that belongs"},
	} {
		err := c.recorded.Check(c.found)
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := none
	if !s.raise(recorded) || s != recorded || s.raise(recorded) || s.raise(changed(func(s *KeyringState) { s.Generations[3] = 6 })) || s != recorded {
		t.Errorf("raised to %v", s)
	}
	newer := changed(func(s *KeyringState) { s.Generations[3], s.Generations[200] = 8, 1 })
	if !s.raise(newer) || s.Generations[3] != 8 || s.Generations[200] != 9 {
		t.Errorf("raised to %v", s)
	}
	other := KeyringState{Identity: [16]byte{2}}
	if !s.raise(other) || s != other {
		t.Errorf("of another keyring: %v", s)
	}
}
