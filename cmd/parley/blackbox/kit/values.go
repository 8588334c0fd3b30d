package kit

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// ForEachBounded makes n calls from as many goroutines as the machine can run.
func ForEachBounded(n int, call func(i int)) {
	const workers = 24
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				call(i)
			}
		})
	}
	wg.Wait()
}

// SameSet compares lists whose order is unspecified.
func SameSet(got, want []any) bool {
	spell := func(all []any) []string {
		out := []string{}
		for _, v := range all {
			out = append(out, fmt.Sprint(v))
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(spell(got), spell(want))
}

// ConcurrentlyBounded is concurrently for more calls than a server accepts at once.
func ConcurrentlyBounded[T any](n int, call func(i int) T) []T {
	out := make([]T, n)
	ForEachBounded(n, func(i int) { out[i] = call(i) })
	return out
}

// Concurrently runs n calls at once and returns their results.
func Concurrently[T any](n int, call func(i int) T) []T {
	out := make([]T, n)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			out[i] = call(i)
		})
	}
	close(gate)
	wg.Wait()
	return out
}

// Object returns a JSON object of exactly n bytes in compact form.
func Object(n int) Obj { return Obj{"k": strings.Repeat("x", n-len(`{"k":""}`))} }

// RandomBytes returns n random bytes.
func RandomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// Moment returns the time in a field.
func Moment(t testing.TB, o Obj, field string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, Text(o, field))
	if err != nil {
		t.Fatalf("%s of %v: %v", field, o, err)
	}
	return at
}
