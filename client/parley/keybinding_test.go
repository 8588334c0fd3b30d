package parley_test

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"parley/client/parley"
)

func TestParseSignedAt(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2026-11-22T09:00:00Z":        time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC),
		"2026-11-22T09:00:00.5Z":      time.Date(2026, 11, 22, 9, 0, 0, 5e8, time.UTC),
		"2026-11-22T09:00:00.000000Z": time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC),
		"2026-11-22T09:00:00.123456Z": time.Date(2026, 11, 22, 9, 0, 0, 123456e3, time.UTC),
		"2024-02-29T23:59:59.999999Z": time.Date(2024, 2, 29, 23, 59, 59, 999999e3, time.UTC),
		"0001-01-01T00:00:00Z":        {},
	} {
		if got, err := parley.ParseSignedAt(text); err != nil || !got.Equal(want) {
			t.Errorf("%s reads as %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "Z", "2026-11-22", "2026-11-22T09:00Z", "2026-11-22T09:00:00", "2026-11-22T09:00:00z", "2026-11-22t09:00:00Z",
		"2026-11-22 09:00:00Z", "2026-11-22T09:00:00+00:00", "2026-11-22T09:00:00.Z", "2026-11-22T09:00:00.1234567Z",
		"2026-11-22T09:00:00,5Z", "2026-11-22T09:00:00.5", "2026-11-22T09:00:00.5 Z", "2026-11-22T24:00:00Z", "2026-11-22T09:60:00Z",
		"2026-11-22T09:00:60Z", "2026-13-22T09:00:00Z", "2026-02-29T09:00:00Z", "2026-11-00T09:00:00Z", "20261122T090000Z",
		" 2026-11-22T09:00:00Z", "2026-11-22T09:00:00Z ", "2026-11-22T09:00:00Z\n", "+026-11-22T09:00:00Z", "2026-1-022T09:00:00Z",
		"2026-11-22T09:00:0०Z", "2026-11-22T09:00:00.12\x00Z", "12026-11-22T09:00:00Z",
	} {
		if at, err := parley.ParseSignedAt(text); !errors.Is(err, parley.ErrSignedAt) {
			t.Errorf("%q reads as %v (%v)", text, at, err)
		}
	}
}

var signedAtForm = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$`)

// FuzzParseSignedAt compares the parser with a regular expression of the form and with
// the standard library's parser of RFC 3339.
func FuzzParseSignedAt(f *testing.F) {
	for _, text := range []string{
		"2026-11-22T09:00:00Z", "2026-11-22T09:00:00.123456Z", "2026-02-30T09:00:00Z", "2026-11-22T09:00:00+00:00",
		"2026-11-22T09:00:00,1Z", "2026-11-22T25:00:00Z", "0000-01-01T00:00:00.0Z",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parley.ParseSignedAt(text)
		want, standard := time.Parse(time.RFC3339Nano, text)
		if sound := signedAtForm.MatchString(text) && standard == nil; sound != (err == nil) {
			t.Fatalf("%q: %v, the form and RFC 3339 say %v", text, err, sound)
		}
		if err == nil && (!got.Equal(want) || got.Nanosecond()%1000 != 0 || got.Location() != time.UTC) {
			t.Fatalf("%q reads as %v, want %v", text, got, want)
		}
	})
}
