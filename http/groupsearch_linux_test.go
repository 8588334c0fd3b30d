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

// searchedGroups is the number of public groups in BenchmarkGroupSearch. Each has a
// description of the maximum length.
const searchedGroups = 2000

// searchQueries are one word from the end of each description, as many such words as a
// query may have, and a word that no group has.
var searchQueries = []struct{ name, query string }{{"1 word", "zebra0"}, {"16 words", lastWords()}, {"no match", "xyzzy"}}

func lastWords() string {
	var words []string
	for i := range 16 {
		words = append(words, fmt.Sprintf("zebra%d", i))
	}
	return strings.Join(words, " ")
}

// manyGroups makes the groups and returns the harness and a wire for the searches.
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
	h.settleGroups(searchedGroups)
	return h, w
}

// cpu returns the processor time of this process.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// nextOf returns the cursor to the next page, or "" on the last page.
func nextOf(page []byte) string {
	_, cursor, _ := bytes.Cut(page, []byte(`"next_cursor":"`))
	cursor, _, _ = bytes.Cut(cursor, []byte{'"'})
	return string(cursor)
}

// BenchmarkGroupSearch sends queries over 2,000 public groups. It reports the processor
// time of one request, and of a walk to the end that matches no group. The results are
// in docs/measurements/faults.md.
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
