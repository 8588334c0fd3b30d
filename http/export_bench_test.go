package http

import (
	"crypto/rand"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"net"
	stdhttp "net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var exportMessages = flag.Int("export.messages", 60_000, "how many messages BenchmarkExport exports")

// BenchmarkExport exports messages of three sizes over a TCP connection, from a store on
// the disk: a third each between agents of the organization, to others and from others.
// Each begins a conversation, which is exported too. It reports the bytes that the export
// adds to the heap at most, with garbage (MiB-heap) and without (MiB-live).
func BenchmarkExport(b *testing.B) {
	for _, letters := range []int{256, 1480, 16384} {
		b.Run(fmt.Sprint("letters=", letters), func(b *testing.B) { benchmarkExport(b, letters) })
	}
}

func benchmarkExport(b *testing.B, letters int) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	dial := func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
	h := newHarness(b, 1, ln, dial, func(o *harnessOptions) {
		o.Dir, o.Store.FS, o.Store.CacheBytes, o.Store.MemTableBytes = b.TempDir(), vfs.Default, 128<<20, 32<<20
	})
	defer h.close()
	p := fillForExport(b, h, *exportMessages, letters)
	hour := 0
	h.service.exports.Clock = func() time.Time { hour++; return time.Now().Add(time.Duration(hour) * time.Hour) }
	var size, heap, live int64
	for b.Loop() {
		heap = max(heap, heapGrowth(false, func() { size = p.discardExport() }))
	}
	live = heapGrowth(true, func() { size = p.discardExport() })
	b.SetBytes(size)
	b.ReportMetric(float64(heap)/(1<<20), "MiB-heap")
	b.ReportMetric(float64(live)/(1<<20), "MiB-live")
	b.ReportMetric(float64(size)/(1<<20), "MiB")
}

// fillForExport sends messages with so many letters of payload each.
func fillForExport(b *testing.B, h *harness, messages, letters int) *tenant {
	p, other := h.tenant("first"), h.tenant("second")
	var own, theirs []string
	for i := range 8 {
		own, theirs = append(own, p.agent(fmt.Sprint("a", i))), append(theirs, other.agent(fmt.Sprint("a", i)))
	}
	raw := make([]byte, letters*3/4)
	_, _ = rand.Read(raw)
	payload := base64.RawURLEncoding.EncodeToString(raw)
	body := func(to *tenant, i int) string {
		return `{"to_handle":"` + to.handle(fmt.Sprint("a", i%8)) + `","type":"a.b.c","encrypted_payload":"` + payload + `"}`
	}
	var writers sync.WaitGroup
	const at = 64
	for w := range at {
		writers.Go(func() {
			for i := w; i < messages; i += at {
				switch i % 3 {
				case 0:
					p.ask("POST", "/messages", body(p, i/3+1), as(own[i/3%8])).want(201)
				case 1:
					p.ask("POST", "/messages", body(other, i/7), as(own[i/3%8])).want(201)
				default:
					other.ask("POST", "/messages", body(p, i/5), as(theirs[i/3%8])).want(201)
				}
			}
		})
	}
	writers.Wait()
	return p
}

// discardExport makes an export and returns its size.
func (p *tenant) discardExport() int64 {
	answer := p.startExport()
	defer func() { _ = answer.Body.Close() }()
	n, err := io.Copy(io.Discard, answer.Body)
	if err != nil || answer.StatusCode != stdhttp.StatusOK {
		p.t.Fatal(answer.Status, err)
	}
	return n
}

// heapGrowth returns by how many bytes the heap grows at most during a call. With collect it
// collects garbage before each look.
func heapGrowth(collect bool, during func()) (peak int64) {
	runtime.GC()
	before, done := heapNow(), make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
			if collect {
				runtime.GC()
			}
			peak = max(peak, heapNow()-before)
		}
	})
	during()
	close(done)
	watch.Wait()
	return peak
}

func heapNow() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
