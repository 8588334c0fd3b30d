package http

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"
)

// searchedGroups is how many public groups BenchmarkGroupSearch has, each with
// the longest description that there may be.
const searchedGroups = 2000

// searchQueries are one word that the end of each description has, as many of them
// as a query may have, and one that no group has.
var searchQueries = []struct{ name, query string }{{"1 word", "zebra0"}, {"16 words", lastWords()}, {"no match", "xyzzy"}}

func lastWords() string {
	var words []string
	for i := range 16 {
		words = append(words, fmt.Sprintf("zebra%d", i))
	}
	return strings.Join(words, " ")
}

// manyGroups makes them, and gives what the answer of a search is asked for with.
func manyGroups(b *testing.B) (*wired, *wire) {
	h := wireHarness(b, 1)
	w := newWire(newReceiver(false))
	h.conns <- w
	for i := range searchedGroups {
		text := ""
		for j := 0; len(text) < 2000-len(lastWords())-20; j++ {
			text += fmt.Sprintf("Wordy%c%d ", 'a'+(i+j)%26, (i*31+j*7)%100)
		}
		body := fmt.Appendf(nil, `{"name":"team%d","enrollment_policy":"open","description":%q}`, i, text+lastWords())
		w.ask(b, h.request("POST", "/groups", body), 201)
	}
	return h, w
}

// cpu is how much of the processor the process has had.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// nextOf is the cursor of a page, empty at the end.
func nextOf(page []byte) string {
	_, cursor, _ := bytes.Cut(page, []byte(`"next_cursor":"`))
	cursor, _, _ = bytes.Cut(cursor, []byte{'"'})
	return string(cursor)
}

// BenchmarkGroupSearch has queries be asked of 2,000 public groups, and tells the
// time of the processor that one request takes, and a walk to the end that no group
// fits. Its figures are in docs/guarantees.md.
func BenchmarkGroupSearch(b *testing.B) {
	h, w := manyGroups(b)
	defer h.close()
	defer w.Close()
	for _, c := range searchQueries {
		b.Run(c.name, func(b *testing.B) {
			path := "/directory/groups?q=" + url.QueryEscape(c.query)
			first := h.request("GET", path, nil)
			w.ask(b, first, 200)
			requests, before := 0, cpu(b)
			for b.Loop() {
				page := w.ask(b, first, 200)
				for requests++; c.name == "no match" && nextOf(page) != ""; requests++ {
					page = w.ask(b, h.request("GET", path+"&cursor="+nextOf(page), nil), 200)
				}
			}
			used := float64((cpu(b) - before).Microseconds()) / 1000
			b.ReportMetric(used/float64(requests), "cpu-ms/request")
			b.ReportMetric(used/float64(b.N), "cpu-ms/walk")
			b.ReportMetric(float64(requests)/float64(b.N), "requests/walk")
		})
	}
}
