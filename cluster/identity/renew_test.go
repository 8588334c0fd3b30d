package identity

import (
	"testing"
	"time"
)

// TestRenewAfterWrongClock: a node that renewed its certificate while its clock was far ahead
// gets one that is valid when the clock is right again.
func TestRenewAfterWrongClock(t *testing.T) {
	now := time.Now()
	id, err := Create(t.TempDir(), "a", "a:1", now, func(NodeID) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at      time.Time
		renewed bool
	}{{now, false}, {now.Add(certificateLifetime), true}, {now, true}, {now, false}, {now.Add(certificateLifetime - renewBefore), true}} {
		if renewed, err := id.Renew(c.at); renewed != c.renewed || err != nil {
			t.Errorf("%v later: renewed %v, %v", c.at.Sub(now), renewed, err)
		}
		id.files = &files{dir: id.dir} // files that change within a clock tick look unchanged
		f, err := id.files.load()
		if err != nil {
			t.Fatal(err)
		}
		if c.at.Before(f.leaf.NotBefore) || c.at.After(f.leaf.NotAfter) {
			t.Errorf("%v later: valid from %v to %v", c.at.Sub(now), f.leaf.NotBefore, f.leaf.NotAfter)
		}
	}
}
