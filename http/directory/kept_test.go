package directory

import (
	"errors"
	"fmt"
	"testing"
)

// TestPublicPagesAreKept: a page is rendered once for each version, not at all while it fails, and
// again if something changed while it was rendered.
func TestPublicPagesAreKept(t *testing.T) {
	version, rendered, keep, failure := pageVersion{}, 0, true, error(nil)
	during := func() {}
	pages := newKeptPages(func() pageVersion { return version })
	want := func(what string, want int) {
		t.Helper()
		body, _, err := pages.page("/find/agents", func() ([]byte, bool, error) {
			rendered++
			during()
			return fmt.Append(nil, rendered), keep, failure
		})
		if !errors.Is(err, failure) || rendered != want || err == nil && string(body) != fmt.Sprint(want) {
			t.Errorf("%s: page %s (%v), rendered %d times, want %d", what, body, err, rendered, want)
		}
	}
	want("the first request", 1)
	want("a second one", 1)
	version.changes++
	want("after a change of an agent", 2)
	version.index++
	want("after a change of the index", 3)
	want("again", 3)
	version.changes++
	during = func() { version.changes++ }
	want("a change while it is rendered", 4)
	during = func() {}
	want("after that", 5)
	keep = false
	version.changes++
	want("a page that is not to be kept", 6)
	want("again", 7)
	keep, failure = true, errors.New("broken")
	want("a failure", 8)
	failure = nil
	want("after it", 9)
	want("at last", 9)
}
