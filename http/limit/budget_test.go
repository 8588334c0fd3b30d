package limit_test

import (
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"parley/http/limit"
)

const mib = 1 << 20

func org(name string) limit.Account { return limit.Account{Name: name} }

// fill grows the caller's memory in steps of piece bytes until the budget refuses, and
// returns the bytes it holds.
func fill(b *limit.Budget, caller limit.Account, piece int) (held int) {
	h := b.Hold(caller, nil)
	for h.Grow(held + piece) {
		held += piece
	}
	return held
}

func TestSingleCallerGetsANinth(t *testing.T) {
	b := limit.NewBudget(900 * mib)
	if held := fill(b, org("greedy"), mib); held != 100*mib {
		t.Errorf("one caller holds %d MiB of 900, want 100", held/mib)
	}
	if s := b.Stats(); s.Held != 100*mib || s.Peak != 100*mib || s.Callers != 1 || s.Refused != 1 {
		t.Errorf("%+v", s)
	}
}

// TestGreedyCallersLeaveRoom: after up to twenty callers that take all they can get,
// the next one can still send the largest request.
func TestGreedyCallersLeaveRoom(t *testing.T) {
	b := limit.NewBudget(256 * mib)
	for i := range 20 {
		fill(b, org(strconv.Itoa(i)), 64<<10)
		h := b.Hold(org("next"), nil)
		if !h.Grow(mib) {
			t.Fatalf("after %d greedy callers the next caller gets nothing: %+v", i+1, b.Stats())
		}
		h.Release()
	}
}

// afterMany returns the bytes held by 256 accounts that take all they can get, and by
// an organization that comes after them. A provider that assigns a /56 gives its
// customer 256 networks.
func afterMany(strangers bool) (their, mine int) {
	b := limit.NewBudget(256 * mib)
	for i := range 256 {
		their += fill(b, limit.Account{Name: strconv.Itoa(i), Anonymous: strangers}, 64<<10)
	}
	return their, fill(b, org("mine"), 64<<10)
}

func TestStrangersShareAQuarter(t *testing.T) {
	their, mine := afterMany(true)
	if their > 64*mib || mine < (256-64)/9*mib {
		t.Errorf("strangers hold %d MiB of 256, and an organization then gets %d", their/mib, mine/mib)
	}
}

// TestStrangersShareAQuarterControl: 256 organizations, in place of strangers, leave
// almost nothing.
func TestStrangersShareAQuarterControl(t *testing.T) {
	if their, mine := afterMany(false); their < 240*mib || mine > mib {
		t.Errorf("256 callers without a common bound hold %d MiB of 256, and the next caller gets %d", their/mib, mine/mib)
	}
}

// takeAll lets each caller take memory for requests of size bytes until the budget
// refuses. If mayEnd is set, the budget may end a request, which then releases its
// memory.
func takeAll(b *limit.Budget, callers, size int, mayEnd bool) {
	for i := range callers {
		for {
			var h limit.Hold
			var end func() func()
			if mayEnd {
				end = func() func() { return func() { h.Release() } }
			}
			if h = b.Hold(org(strconv.Itoa(i)), end); !h.Grow(size) {
				break
			}
		}
	}
}

// TestManyCallersLeaveRoom: 64 organizations hold all the memory they can get. The next
// one still gets half of a fair share.
func TestManyCallersLeaveRoom(t *testing.T) {
	for _, mayEnd := range []bool{true, false} { // false: the control
		b := limit.NewBudget(256 * mib)
		takeAll(b, 64, 64<<10, mayEnd)
		before := b.Stats()
		if before.Held < 240*mib {
			t.Fatalf("64 organizations hold only %d MiB", before.Held/mib)
		}
		mine := fill(b, org("mine"), mib)
		after := b.Stats()
		if mayEnd && mine < 2*mib || !mayEnd && mine > 0 {
			t.Errorf("requests may be ended: %v; the next organization gets %d MiB", mayEnd, mine/mib)
		}
		if after.Leaving != 0 || after.Held > after.Total || mayEnd != (after.Ended > 0) {
			t.Errorf("%+v", after)
		}
	}
}

// TestOldestRequestIsEnded: the budget ends the oldest request of the greediest caller,
// unless that request may not be ended now.
func TestOldestRequestIsEnded(t *testing.T) {
	b := limit.NewBudget(64 * mib)
	var ended []int
	armed := false
	holds := make([]limit.Hold, 7)
	for i := range holds {
		holds[i] = b.Hold(org("greedy"), func() func() {
			if i == 0 || !armed {
				return nil
			}
			return func() { ended = append(ended, i) }
		})
		holds[i].Grow(mib)
	}
	for i := range 40 {
		fill(b, org(strconv.Itoa(i)), mib/2)
	}
	armed = true
	h := b.Hold(org("mine"), nil)
	if !h.Grow(3*mib/2) || len(ended) != 2 || ended[0] != 1 || ended[1] != 2 {
		t.Errorf("the requests ended are %v", ended)
	}
	if s := b.Stats(); s.Leaving != 2*mib {
		t.Errorf("%+v", s)
	}
	if holds[1].Grow(2*mib) || holds[1].Bytes() != mib {
		t.Error("a request that was ended takes more memory")
	}
	holds[1].Release()
	holds[2].Shrink(mib / 2)
	if s := b.Stats(); s.Leaving != mib/2 {
		t.Errorf("%+v", s)
	}
	if h := b.Hold(org("large"), nil); h.Grow(3 * mib) {
		t.Error("a caller gets more than half of what the greediest caller has left")
	}
}

// TestStrangersEndNoOrganizationsRequest: no request of an organization is ended to
// make room for a stranger.
func TestStrangersEndNoOrganizationsRequest(t *testing.T) {
	b := limit.NewBudget(64 * mib)
	ended := 0
	for i := range 20 {
		h := b.Hold(org(strconv.Itoa(i)), func() func() { ended++; return func() {} })
		h.Grow(2 * mib)
	}
	for i := range 40 {
		fill(b, limit.Account{Name: strconv.Itoa(i), Anonymous: true}, mib/4)
	}
	before := ended
	if h := b.Hold(limit.Account{Name: "mine", Anonymous: true}, nil); h.Grow(mib) || ended != before {
		t.Errorf("%d requests of organizations were ended to make room for an address", ended-before)
	}
}

func TestSmallRequestsAreNotCounted(t *testing.T) {
	b := limit.NewBudget(4 * mib)
	h := b.Hold(org("a"), nil)
	if !h.Grow(limit.Small) || b.Stats().Held != 0 {
		t.Errorf("small: %+v", b.Stats())
	}
	if !h.Grow(limit.Small+1) || b.Stats().Held != limit.Small+1 {
		t.Errorf("after it has grown: %+v", b.Stats())
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
	none := limit.NewBudget(0).Hold(org("a"), nil)
	for _, h := range []*limit.Hold{&zero, &none} {
		if !h.Grow(1 << 40) {
			t.Error("a request was refused without a budget")
		}
		h.Release()
	}
	if s := (*limit.Budget)(nil).Stats(); s != (limit.BudgetStats{}) {
		t.Errorf("%+v", s)
	}
}

// TestBudgetIsKept: after any sequence of growing and shrinking, the total and the
// quarter of strangers are kept. Memory is given back exactly once.
func TestBudgetIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := limit.NewBudget(8 * mib)
		holds, bytes := make([]limit.Hold, 6), make([]int, 6)
		for i := range holds {
			holds[i] = b.Hold(limit.Account{Name: strconv.Itoa(i % 3), Anonymous: i >= 3}, nil)
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
				t.Fatalf("%+v, of which strangers hold %d", s, public)
			}
		}
		for i := range holds {
			holds[i].Release()
			holds[i].Release()
		}
		if s := b.Stats(); s.Held != 0 || s.Callers != 0 {
			t.Fatalf("after everything was given back: %+v", s)
		}
	})
}

// TestBudgetIsKeptWhenRequestsEnd: after any sequence of growing, shrinking and ending
// requests, the bytes held and the bytes leaving are the sums over the requests.
func TestBudgetIsKeptWhenRequestsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := limit.NewBudget(8 * mib)
		holds, ended := make([]limit.Hold, 12), make([]bool, 12)
		begin := func(i int) {
			ended[i] = false
			holds[i] = b.Hold(limit.Account{Name: strconv.Itoa(i % 6), Anonymous: i%6 >= 4}, func() func() {
				if i%4 == 3 {
					return nil
				}
				return func() { ended[i] = true }
			})
		}
		for i := range holds {
			begin(i)
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, 11).Draw(t, "hold")
			h, n := &holds[i], rapid.IntRange(0, mib).Draw(t, "bytes")
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				h.Shrink(n)
			case 1:
				h.Release()
				begin(i)
			default:
				if was := ended[i]; h.Grow(n) && was && n > h.Bytes() && n > limit.Small {
					t.Fatal("a request that was ended takes more memory")
				}
			}
			held, leaving, public := 0, 0, 0
			for i := range holds {
				switch n := holds[i].Bytes(); {
				case ended[i]:
					leaving += n
				case i%6 >= 4:
					public += n
					held += n
				default:
					held += n
				}
			}
			if s := b.Stats(); s.Held != int64(held) || s.Leaving != int64(leaving) || s.Held > s.Total || s.Leaving > s.Total/8+mib || public > 2*mib {
				t.Fatalf("%+v, want %d held, %d leaving, %d held by strangers", s, held, leaving, public)
			}
		}
		for i := range holds {
			holds[i].Release()
		}
		if s := b.Stats(); s.Held != 0 || s.Leaving != 0 || s.Callers != 0 {
			t.Fatalf("after everything was given back: %+v", s)
		}
	})
}

func TestBudgetUnderContention(t *testing.T) {
	b := limit.NewBudget(4 * mib)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 2000 {
				h := b.Hold(org(strconv.Itoa(i)), nil)
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

// TestNobodyMakesRoomForTheOptional: what a request can do without ends no other's.
func TestNobodyMakesRoomForTheOptional(t *testing.T) {
	b := limit.NewBudget(256 * mib)
	takeAll(b, 64, 64<<10, true)
	before := b.Stats().Ended
	h := b.Hold(org("mine"), nil)
	if h.GrowIfFree(mib) || b.Stats().Ended != before {
		t.Errorf("%+v", b.Stats())
	}
	if !h.Grow(mib) || b.Stats().Ended == before {
		t.Errorf("control: %+v", b.Stats())
	}
}
