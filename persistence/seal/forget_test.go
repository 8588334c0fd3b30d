package seal

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"parley/client/parley"
)

// entries returns the cached ciphers of an organization.
func (s *Sealer) entries(org parley.OrgID) (all []*derived) {
	for i := range s.shards {
		shard := &s.shards[i]
		shard.mu.RLock()
		for _, d := range shard.entries {
			if d.owners.Has(org) {
				all = append(all, d)
			}
		}
		shard.mu.RUnlock()
	}
	return all
}

// checkCache compares index, entries and places of all shards, and returns the number
// of entries.
func checkCache(t *testing.T, s *Sealer) (size int) {
	t.Helper()
	for i := range s.shards {
		shard := &s.shards[i]
		if len(shard.entries) > shardMax || len(shard.index) != len(shard.entries) {
			t.Errorf("a shard has %d entries and an index of %d, at most %d are allowed", len(shard.entries), len(shard.index), shardMax)
		}
		for place, d := range shard.entries {
			if d.place != place || shard.index[d.owners] != d || d.owners.shard() != uint64(i) || wiped(d.cipher) {
				t.Errorf("the entry at %d of shard %d is %+v", place, i, d)
			}
		}
		size += len(shard.entries)
	}
	return size
}

// Forget removes and overwrites all that derives from a key, and nothing else.
func TestForget(t *testing.T) {
	s, m := newSealer(40)
	gone := org(20)
	envelopes := map[Owners][]byte{}
	for i := 1; i <= 40; i++ {
		for _, owners := range []Owners{Single(org(i)), Pair(org(i), org(i)), Pair(org(i), gone), Pair(org(i), org(2))} {
			envelopes[owners] = mustSeal(t, s, []byte("content"), owners, 'B', "id")
		}
	}
	doomed := s.entries(gone)
	if len(doomed) != 41 { // single, inner, 39 pairs in which it is the lower or the higher one
		t.Fatalf("%d ciphers of the organization are cached, want 41", len(doomed))
	}
	before := checkCache(t, s)
	m.erase(gone)
	s.Forget(gone)
	if left, size := s.entries(gone), checkCache(t, s); len(left) != 0 || size != before-len(doomed) {
		t.Errorf("%d ciphers of the organization are left, %d of %d in all", len(left), size, before)
	}
	for _, d := range doomed {
		if !wiped(d.cipher) {
			t.Errorf("the cipher of %v is not overwritten", d.owners)
		}
	}
	for owners, envelope := range envelopes {
		want := error(nil)
		if owners.Has(gone) {
			want = ErrErased
		}
		if _, err := s.AppendOpened(nil, envelope, 'B', []byte("id")); !errors.Is(err, want) {
			t.Errorf("%v: got %v, want %v", owners, err, want)
		}
	}
}

// A cipher that the cache does not take is overwritten.
func TestForgetOverwritesRejectedCiphers(t *testing.T) {
	for _, valid := range []bool{true, false} {
		s, _ := newSealer(1)
		owners, shard := Single(org(1)), &s.shards[0]
		if valid { // and not the first cipher of its owners
			x, _ := newXAES(make([]byte, keyBytes))
			shard.add(new([keyBytes]byte), owners, x, make([]byte, nonceBytes), func() bool { return true })
		}
		x, err := newXAES(make([]byte, keyBytes))
		if err != nil {
			t.Fatal(err)
		}
		if shard.add(new([keyBytes]byte), owners, x, make([]byte, nonceBytes), func() bool { return valid }) != valid || !wiped(x) {
			t.Errorf("valid: %v: the cipher is not overwritten", valid)
		}
	}
}

// A derivation that read the key before it was erased brings nothing back when it ends
// after Forget, and its caller gets ErrErased.
func TestForgetDuringDerivation(t *testing.T) {
	for _, owners := range []Owners{Single(org(1)), Pair(org(1), org(2)), Pair(org(1), org(1))} {
		if left, err := forgetDuringDerivation(t, owners, func(*Sealer) {}); !errors.Is(err, ErrErased) || left != 0 {
			t.Errorf("%v: got %v and %d ciphers, want ErrErased and none", owners, err, left)
		}
	}
}

// Without the count of calls of Forget, the same derivation brings the cipher back.
func TestForgetDuringDerivationControl(t *testing.T) {
	uncounted := func(s *Sealer) { s.forgets.Add(^uint64(0)) }
	if left, err := forgetDuringDerivation(t, Single(org(1)), uncounted); err != nil || left != 1 {
		t.Errorf("got %v and %d ciphers, want success and one cipher", err, left)
	}
}

// A derivation that read the key before it was erased brings nothing back even if it
// ends while Forget is running and has already passed its shard.
func TestForgetInProgress(t *testing.T) {
	s, m := newSealer(1000)
	inShard := func(shard uint64, besides Owners) Owners {
		for i := 2; i <= 1000; i++ {
			if owners := Pair(org(1), org(i)); owners.shard() == shard && owners != besides {
				return owners
			}
		}
		t.Fatalf("no pair is in shard %d", shard)
		return Owners{}
	}
	cached := inShard(cacheShards-2, Owners{})
	slow := inShard(cacheShards-2, cached)
	mustSeal(t, s, nil, cached, 'B', "")
	_, last := slow.Orgs()
	reached, resume := make(chan bool), make(chan bool)
	var once sync.Once
	m.setHook(func(org parley.OrgID) {
		if org == last {
			once.Do(func() {
				reached <- true
				<-resume
			})
		}
	})
	result, forgotten := make(chan error), make(chan bool)
	go func() {
		_, err := s.AppendSealed(nil, nil, slow, 'B', nil)
		result <- err
	}()
	<-reached
	m.erase(org(1))
	s.shards[cacheShards-1].mu.Lock()
	go func() {
		s.Forget(org(1))
		forgotten <- true
	}()
	passed := &s.shards[cacheShards-2]
	for empty := false; !empty; runtime.Gosched() {
		passed.mu.RLock()
		empty = len(passed.entries) == 0
		passed.mu.RUnlock()
	}
	resume <- true
	if err := <-result; !errors.Is(err, ErrErased) {
		t.Errorf("got %v, want ErrErased", err)
	}
	s.shards[cacheShards-1].mu.Unlock()
	<-forgotten
	if left := s.entries(org(1)); len(left) != 0 {
		t.Errorf("%d ciphers came back", len(left))
	}
}

// forgetDuringDerivation stops a seal after it has read its keys, forgets the first
// test organization, calls then, and lets the seal continue. It returns how many ciphers
// of the organization are cached, and the seal's error.
func forgetDuringDerivation(t *testing.T, owners Owners, then func(*Sealer)) (int, error) {
	t.Helper()
	s, m := newSealer(2)
	last, _ := owners.Orgs()
	if owners.form == formPair {
		_, last = owners.Orgs()
	}
	reached, resume := make(chan bool), make(chan bool)
	var once sync.Once
	m.setHook(func(org parley.OrgID) {
		if org == last {
			once.Do(func() {
				reached <- true
				<-resume
			})
		}
	})
	result := make(chan error)
	go func() {
		_, err := s.AppendSealed(nil, []byte("content"), owners, 'B', nil)
		result <- err
	}()
	<-reached
	m.erase(org(1))
	s.Forget(org(1))
	then(s)
	resume <- true
	err := <-result
	return len(s.entries(org(1))), err
}

// Goroutines seal and open while others erase organizations: no call that begins after
// an erasure succeeds, no call fails otherwise, and what opens is right.
func TestForgetUnderLoad(t *testing.T) {
	const orgs, workers, rounds = 64, 8, 4000
	s, m := newSealer(orgs)
	var erased [orgs + 1]atomic.Bool
	var calls atomic.Int64
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for range rounds {
				calls.Add(1)
				a, b := 1+random.IntN(orgs), 1+random.IntN(orgs)
				gone := erased[a].Load() || erased[b].Load()
				envelope, err := s.AppendSealed(nil, []byte("content"), Pair(org(a), org(b)), 'B', nil)
				if err == nil && !gone {
					gone = erased[a].Load() || erased[b].Load()
					var opened []byte
					opened, err = s.AppendOpened(nil, envelope, 'B', nil)
					if err == nil && string(opened) != "content" {
						t.Errorf("opened %q", opened)
					}
				}
				switch {
				case err == nil && gone:
					t.Errorf("a call for %d and %d succeeded after an erasure", a, b)
				case err != nil && !errors.Is(err, ErrErased):
					t.Errorf("%d and %d: %v", a, b, err)
				case err != nil && a > orgs/2 && b > orgs/2:
					t.Errorf("%d and %d are live: %v", a, b, err)
				}
			}
		})
	}
	group.Go(func() {
		for i := 1; i <= orgs/2; i++ {
			for calls.Load() < int64(i)*workers*rounds/orgs { // erase throughout the first half
				runtime.Gosched()
			}
			m.erase(org(i))
			s.Forget(org(i))
			erased[i].Store(true)
			if left := s.entries(org(i)); len(left) != 0 {
				t.Errorf("%d ciphers of organization %d are left", len(left), i)
			}
		}
	})
	group.Wait()
	checkCache(t, s)
	for i := 1; i <= orgs/2; i++ {
		if left := s.entries(org(i)); len(left) != 0 {
			t.Errorf("%d ciphers of organization %d came back", len(left), i)
		}
	}
}

// The cache has a bound, overwrites what it evicts, and keeps what is in use.
func TestCacheBound(t *testing.T) {
	const orgs = 3 * derivedMax
	s, _ := newSealer(orgs)
	hot := Pair(org(1), org(2))
	mustSeal(t, s, nil, hot, 'B', "")
	kept := s.entries(org(1))[0]
	var once []*derived
	for i := 3; i <= orgs; i++ {
		mustSeal(t, s, nil, Single(org(i)), 'B', "")
		mustSeal(t, s, nil, hot, 'B', "")
		if i%derivedMax == 3 && i < 2*derivedMax {
			once = append(once, s.entries(org(i))...)
		}
	}
	for _, d := range once {
		if !wiped(d.cipher) {
			t.Errorf("the cipher of %v was used once, %d owners ago, and is still there", d.owners, derivedMax)
		}
	}
	if len(once) != 2 {
		t.Errorf("observed %d ciphers, want 2", len(once))
	}
	if again := s.entries(org(1)); len(again) != 1 || again[0] != kept {
		t.Error("the pair in constant use was evicted")
	}
	if size := checkCache(t, s); size > derivedMax || size < derivedMax*9/10 {
		t.Errorf("the cache has %d entries after %d owners, want up to %d", size, orgs, derivedMax)
	}
}
