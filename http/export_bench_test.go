package http

import (
	"fmt"
	"io"
	stdhttp "net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkExport exports 60,000 messages of 1,500 bytes, and measures what that adds to
// the heap at most.
func BenchmarkExport(b *testing.B) {
	h := harnessInMemory(b, 1)
	defer h.close()
	p := h.tenant("first")
	ann := p.agent("ann")
	for i := range 8 {
		p.agent(fmt.Sprint("b", i))
	}
	body := func(i int) string {
		return `{"to_handle":"` + p.handle(fmt.Sprint("b", i%8)) + `","type":"a.b.c","encrypted_payload":"` + strings.Repeat("QUJD", 500-130) + `"}`
	}
	var writers sync.WaitGroup
	for w := range 32 {
		writers.Go(func() {
			for i := range 60_000 / 32 {
				p.ask("POST", "/messages", body(i+w), as(ann)).want(201)
			}
		})
	}
	writers.Wait()
	hour := 0
	h.service.exports.clock = func() time.Time { hour++; return time.Now().Add(time.Duration(hour) * exportWindow) }
	var size, peak int64
	for b.Loop() {
		runtime.GC()
		before, done := heapNow(), make(chan struct{})
		var watch sync.WaitGroup
		watch.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
					peak = max(peak, heapNow()-before)
				}
			}
		})
		answer := p.startExport()
		n, err := io.Copy(io.Discard, answer.Body)
		close(done)
		watch.Wait()
		if err != nil || answer.StatusCode != stdhttp.StatusOK {
			b.Fatal(answer.Status, err)
		}
		_ = answer.Body.Close()
		size = n
	}
	b.SetBytes(size)
	b.ReportMetric(float64(peak)/(1<<20), "MiB-heap")
	b.ReportMetric(float64(size)/(1<<20), "MiB")
}

func heapNow() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
