package export

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestAscend compares with a sort, for lists with repetitions and every capacity.
func TestAscend(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for capacity := 2; capacity < 40; capacity++ {
		for n := range 60 {
			list := make([]int, n)
			for i := range list {
				list[i] = random.IntN(n + 1)
			}
			want := slices.Clone(list)
			slices.Sort(want)
			want = slices.Compact(want)
			var got []int
			passes := 0
			err := ascend(capacity, cmp.Compare[int], func(add func(int)) error {
				passes++
				for _, k := range list {
					add(k)
				}
				return nil
			}, func(k int) error {
				got = append(got, k)
				return nil
			})
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("capacity %d: %v becomes %v, want %v: %v", capacity, list, got, want, err)
			}
			if most := len(want)/max(capacity/2, 1) + 2; passes > most {
				t.Fatalf("capacity %d: %d passes for %d keys", capacity, passes, len(want))
			}
		}
	}
}

func TestAscendEndsWithTheFirstError(t *testing.T) {
	bad := errors.New("bad")
	none := func(int) error { return nil }
	if err := ascend(2, cmp.Compare[int], func(func(int)) error { return bad }, none); !errors.Is(err, bad) {
		t.Errorf("an error of list: %v", err)
	}
	visited := 0
	err := ascend(2, cmp.Compare[int], func(add func(int)) error { add(2); add(1); return nil }, func(int) error { visited++; return bad })
	if !errors.Is(err, bad) || visited != 1 {
		t.Errorf("an error of visit: %v after %d keys", err, visited)
	}
}
