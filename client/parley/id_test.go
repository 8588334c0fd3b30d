package parley_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"parley/client/parley"
)

var random10 = rapid.Custom(func(t *rapid.T) [10]byte {
	return [10]byte(rapid.SliceOfN(rapid.Byte(), 10, 10).Draw(t, "random"))
})

// An id contains its slot and the time it was made, and is a valid UUID of version 7.
func TestIDsContainSlotAndTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slot := parley.Slot(rapid.IntRange(0, parley.Slots-1).Draw(t, "slot"))
		at := time.UnixMilli(rapid.Int64Range(0, 1<<47).Draw(t, "ms")).UTC()
		id := parley.NewID[parley.AgentID](slot, at, random10.Draw(t, "random"))
		if id.Slot() != slot || !id.Time().Equal(at) || id.Zero() {
			t.Fatalf("%s: slot %d time %s, want %d %s", id, id.Slot(), id.Time(), slot, at)
		}
		if u := uuid.UUID(id); u.Version() != 7 || u.Variant() != uuid.RFC4122 {
			t.Fatalf("%s has version %d", id, u.Version())
		}
		back, err := parley.ParseID[parley.AgentID](id.String())
		if err != nil || back != id || parley.IDFromBytes[parley.AgentID](id.Bytes()) != id {
			t.Fatalf("%s came back as %s, %v", id, back, err)
		}
		var read parley.AgentID
		text, _ := json.Marshal(id)
		if err := json.Unmarshal(text, &read); err != nil || read != id {
			t.Fatalf("%s came back from JSON as %s, %v", id, read, err)
		}
	})
}

// Ids made by NextID sort in the order in which they were made and stay in the slot,
// even if the clock goes backwards.
func TestNextIDsSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slot := parley.Slot(rapid.IntRange(0, parley.Slots-1).Draw(t, "slot"))
		now := time.UnixMilli(1_700_000_000_000)
		last := parley.NewID[parley.MessageID](slot, now, random10.Draw(t, "first"))
		for range rapid.IntRange(1, 50).Draw(t, "n") {
			now = now.Add(time.Duration(rapid.IntRange(-5, 5).Draw(t, "step")) * time.Millisecond)
			next := parley.NextID(last, now, random10.Draw(t, "random"))
			if bytes.Compare(next[:], last[:]) <= 0 || next.Slot() != slot || next.Time().Before(last.Time()) {
				t.Fatalf("%s does not follow %s at %s", next, last, now)
			}
			last = next
		}
	})
}

// When the counter overflows within a millisecond, the next id gets the next one.
func TestNextIDOverflowsIntoTheNextMillisecond(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	last := parley.NewID[parley.MessageID](7, now, [10]byte{})
	for range 20_000 {
		next := parley.NextID(last, now, [10]byte{})
		if bytes.Compare(next[:], last[:]) <= 0 {
			t.Fatalf("%s does not follow %s", next, last)
		}
		last = next
	}
	if !last.Time().After(now) {
		t.Fatalf("20,000 ids of one millisecond end at %s", last.Time())
	}
}

func TestParseIDRejects(t *testing.T) {
	for _, text := range []string{
		"", "x", "01932f00-0000-7001-8000-00000000000", "01932f00-0000-7001-8000-00000000000g",
		"01932f0000007001800000000000000a", "{01932f00-0000-7001-8000-00000000000a}", "01932f00_0000_7001_8000_00000000000a",
	} {
		if id, err := parley.ParseID[parley.OrgID](text); err == nil {
			t.Errorf("%q was read as %s", text, id)
		}
	}
	if !parley.IDFromBytes[parley.OrgID]([]byte("short")).Zero() {
		t.Error("five bytes were read as an id")
	}
}

// SlotOf distributes names evenly, even if they differ in one character.
func TestSlotOfSpreads(t *testing.T) {
	const names = parley.Slots * 16
	var counts [parley.Slots]int
	for i := range names {
		counts[parley.SlotOf("org-"+string(rune('a'+i%26))+time.Duration(i).String())]++
	}
	for slot, n := range counts {
		if n > 64 {
			t.Fatalf("slot %d has %d of %d names", slot, n, names)
		}
	}
}

func TestRefusalsKeepTheirIdentity(t *testing.T) {
	declared := parley.Refuse(parley.Conflict, "name_taken", "Taken.")
	with := declared.With("name", "a").Saying("Taken by another.")
	switch {
	case !with.Is(declared), declared.Extra != nil, with.Extra["name"] != "a", with.With("b", 1).Extra["name"] != "a":
		t.Fatalf("%+v, declared as %+v", with, declared)
	case with.Is(parley.ErrNotFound), with.Is(parley.Refuse(parley.Gone, "name_taken", "")):
		t.Fatal("it matches another refusal")
	}
}

// TestDistinctRefusal: a distinct refusal is also its original, but no other refusal is the
// distinct one.
func TestDistinctRefusal(t *testing.T) {
	original := parley.Refuse(parley.Gone, "gone", "Gone.")
	distinct, other := original.Distinct().Saying("Erased."), original.Distinct()
	for _, same := range []error{distinct, distinct.With("name", "a"), distinct.ForOne(), fmt.Errorf("read: %w", distinct)} {
		if !errors.Is(same, distinct) || !errors.Is(same, original) {
			t.Errorf("%v is not what it was made of", same)
		}
	}
	for _, not := range []error{original, original.Saying("Deleted."), other} {
		if errors.Is(not, distinct) {
			t.Errorf("%v is the distinct one", not)
		}
	}
}
