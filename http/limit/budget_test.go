package limit_test

import (
	"strconv"
	"sync"
	"testing"

	"parley/http/limit"

	"pgregory.net/rapid"
)

const mib = 1 << 20

func org(name string) limit.Account { return limit.Account{Name: name} }

// fill has a caller take pieces until it is refused, and gives what it holds.
func fill(b *limit.Budget, caller limit.Account, piece int) (held int) {
	h := b.Hold(caller)
	for h.Grow(held + piece) {
		held += piece
	}
	return held
}

func TestACallerAloneGetsANinth(t *testing.T) {
	b := limit.NewBudget(900 * mib)
	if held := fill(b, org("greedy"), mib); held != 100*mib {
		t.Errorf("one caller holds %d MiB of 900", held/mib)
	}
	if s := b.Stats(); s.Held != 100*mib || s.Peak != 100*mib || s.Callers != 1 || s.Refused != 1 {
		t.Errorf("%+v", s)
	}
}

// TestGreedyCallersLeaveRoom: after twenty that take all they get, the next one
// gets a largest request.
func TestGreedyCallersLeaveRoom(t *testing.T) {
	b := limit.NewBudget(256 * mib)
	for i := range 20 {
		fill(b, org(strconv.Itoa(i)), 64<<10)
		h := b.Hold(org("next"))
		if !h.Grow(mib) {
			t.Fatalf("after %d greedy callers the next gets nothing: %+v", i+1, b.Stats())
		}
		h.Release()
	}
}

// afterMany is what an organization gets after 256 accounts took all that they get:
// as many networks as somebody has to whom a provider gave a /56.
func afterMany(strangers bool) (their, mine int) {
	b := limit.NewBudget(256 * mib)
	for i := range 256 {
		their += fill(b, limit.Account{Name: strconv.Itoa(i), Stranger: strangers}, 64<<10)
	}
	return their, fill(b, org("mine"), 64<<10)
}

func TestStrangersShareAQuarter(t *testing.T) {
	their, mine := afterMany(true)
	if their > 64*mib || mine < (256-64)/9*mib {
		t.Errorf("strangers hold %d MiB of 256, and an organization then gets %d", their/mib, mine/mib)
	}
}

// TestStrangersShareAQuarterControl: as many organizations leave next to nothing.
func TestStrangersShareAQuarterControl(t *testing.T) {
	if their, mine := afterMany(false); their < 240*mib || mine > mib {
		t.Errorf("256 callers without a common bound hold %d MiB of 256, and the next one gets %d", their/mib, mine/mib)
	}
}

func TestSmallIsNotCounted(t *testing.T) {
	b := limit.NewBudget(4 * mib)
	h := b.Hold(org("a"))
	if !h.Grow(limit.Small) || b.Stats().Held != 0 {
		t.Errorf("small: %+v", b.Stats())
	}
	if !h.Grow(limit.Small+1) || b.Stats().Held != limit.Small+1 {
		t.Errorf("no longer small: %+v", b.Stats())
	}
	if h.Shrink(limit.Small); b.Stats().Held != 0 {
		t.Errorf("small again: %+v", b.Stats())
	}
	if fill(b, org("full"), 32<<10); !h.Grow(limit.Small) {
		t.Error("a small request was refused")
	}
}

func TestNoBudgetRefusesNothing(t *testing.T) {
	var zero limit.Hold
	none := limit.NewBudget(0).Hold(org("a"))
	for _, h := range []*limit.Hold{&zero, &none} {
		if !h.Grow(1 << 40) {
			t.Error("refused")
		}
		h.Release()
	}
	if s := (*limit.Budget)(nil).Stats(); s != (limit.BudgetStats{}) {
		t.Errorf("%+v", s)
	}
}

// TestABudgetIsKept: in any order of growing and shrinking the total holds, and the
// quarter of strangers; what was taken is given back, once.
func TestABudgetIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := limit.NewBudget(8 * mib)
		holds, bytes := make([]limit.Hold, 6), make([]int, 6)
		for i := range holds {
			holds[i] = b.Hold(limit.Account{Name: strconv.Itoa(i % 3), Stranger: i >= 3})
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, 5).Draw(t, "hold")
			h := &holds[i]
			n := rapid.IntRange(0, 3*mib).Draw(t, "bytes")
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				if h.Grow(n) && n > limit.Small {
					bytes[i] = max(bytes[i], n)
				}
			case 1:
				if h.Shrink(n); n <= limit.Small {
					n = 0
				}
				bytes[i] = min(bytes[i], n)
			default:
				h.Release()
				bytes[i] = 0
			}
			public := bytes[3] + bytes[4] + bytes[5]
			held := bytes[0] + bytes[1] + bytes[2] + public
			if s := b.Stats(); s.Held != int64(held) || s.Held > s.Total || public > 2*mib {
				t.Fatalf("%+v, of which %d are public", s, public)
			}
		}
		for i := range holds {
			holds[i].Release()
			holds[i].Release()
		}
		if s := b.Stats(); s.Held != 0 || s.Callers != 0 {
			t.Fatalf("after all was given back: %+v", s)
		}
	})
}

func TestABudgetHoldsUnderContention(t *testing.T) {
	b := limit.NewBudget(4 * mib)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 2000 {
				h := b.Hold(org(strconv.Itoa(i)))
				h.Grow(256 << 10)
				h.Grow(512 << 10)
				h.Release()
			}
		})
	}
	group.Wait()
	if s := b.Stats(); s.Held != 0 || s.Callers != 0 || s.Peak > s.Total {
		t.Errorf("%+v", s)
	}
}
