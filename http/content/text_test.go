package content

import (
	"testing"
	"time"
)

// TestAppendTime compares the digits with the documented layout.
func TestAppendTime(t *testing.T) {
	for _, at := range []time.Time{
		time.UnixMilli(0), time.UnixMilli(1), time.Unix(1_800_000_000, 999_999_999),
		time.Date(2026, 2, 28, 23, 59, 59, 1000, time.FixedZone("", 3600)),
		time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		want := at.UTC().Format(`"2006-01-02T15:04:05.000000Z"`)
		if got := string(AppendTime(nil, at)); got != want {
			t.Errorf("%v is %s, want %s", at, got, want)
		}
	}
}
