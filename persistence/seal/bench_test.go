package seal

import (
	"fmt"
	"sync/atomic"
	"testing"
)

var benchSizes = []int{256, 1536}

func BenchmarkSeal(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, _ := newSealer(2)
			dst, plaintext, identity := make([]byte, 0, 4096), make([]byte, size), make([]byte, 16)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.AppendSealed(dst, plaintext, Pair(org(1), org(2)), 'B', identity); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, _ := newSealer(2)
			dst, identity := make([]byte, 0, 4096), make([]byte, 16)
			envelope := mustSeal(b, s, make([]byte, size), Pair(org(1), org(2)), 'B', string(identity))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.AppendOpened(dst, envelope, 'B', identity); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSealCold seals for a pair whose cipher is not in the cache: the difference
// to BenchmarkSeal is the derivation of its key, and an eviction.
func BenchmarkSealCold(b *testing.B) {
	const orgs = 4 * derivedMax
	s, _ := newSealer(orgs)
	dst, plaintext, identity := make([]byte, 0, 4096), make([]byte, 256), make([]byte, 16)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.AppendSealed(dst, plaintext, Pair(org(1+i%orgs), org(1+(i+1)%orgs)), 'B', identity); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParallel seals and opens in all processors, for one pair and for many.
func BenchmarkParallel(b *testing.B) {
	for _, pairs := range []int{1, 1000} {
		b.Run(fmt.Sprintf("pairs=%d", pairs), func(b *testing.B) {
			s, _ := newSealer(pairs + 1)
			var n atomic.Int64
			b.SetParallelism(4)
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				dst, out, plaintext, identity := make([]byte, 0, 2048), make([]byte, 0, 2048), make([]byte, 1536), make([]byte, 16)
				for i := int(n.Add(100)); p.Next(); i++ {
					envelope, err := s.AppendSealed(dst, plaintext, Pair(org(1+i%pairs), org(2+i%pairs)), 'B', identity)
					if err == nil {
						_, err = s.AppendOpened(out, envelope, 'B', identity)
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

func BenchmarkForget(b *testing.B) {
	s, _ := newSealer(2 * derivedMax)
	for i := 1; i <= 2*derivedMax; i++ {
		mustSeal(b, s, nil, Single(org(i)), 'B', "")
	}
	for b.Loop() {
		s.Forget(org(0))
	}
}

func BenchmarkMAC(b *testing.B) {
	s, _ := newSealer(1)
	agent, key := make([]byte, 16), []byte("an idempotency key of a client, 36 B")
	b.ReportAllocs()
	for b.Loop() {
		s.MAC("idempotency", agent, key)
	}
}

// Sealing and opening allocate what crypto/aes and crypto/cipher need for the key of a
// message, and nothing else; a hash allocates nothing.
func TestCost(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector drops pooled memory at random")
	}
	s, _ := newSealer(2)
	dst, plaintext, identity := make([]byte, 0, 4096), make([]byte, 1536), make([]byte, 16)
	envelope := mustSeal(t, s, plaintext, Pair(org(1), org(2)), 'B', string(identity))
	for what, cost := range map[string]struct {
		most float64
		run  func()
	}{
		"seal": {2, func() { _, _ = s.AppendSealed(dst, plaintext, Pair(org(1), org(2)), 'B', identity) }},
		"open": {2, func() { _, _ = s.AppendOpened(dst, envelope, 'B', identity) }},
		"MAC":  {0, func() { s.MAC("slug", identity, plaintext) }},
	} {
		if got := testing.AllocsPerRun(1000, cost.run); got > cost.most {
			t.Errorf("%s: %v allocations, want %v", what, got, cost.most)
		}
	}
}
