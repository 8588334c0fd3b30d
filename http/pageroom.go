package http

import (
	"parley"
	"parley/actors/record"
	"parley/http/rest"
)

// What a message takes in a page besides its stored content, at most: its ids,
// instants and status, and for a copy of a broadcast the members in which copies
// differ.
const (
	messageFrame = 320
	copyFrame    = 720
)

// pageBudget keeps a page of messages within parley.PageBytesMax: it judges each
// message before it is rendered, by a bound of the bytes that it will take. From
// then on these count for the caller.
type pageBudget struct {
	call   *rest.Call
	viewer viewer
	used   int
}

// fits reports whether the page has room for one more message. A page has room for
// its first, however long.
func (p *pageBudget) fits(r *record.Message) (bool, error) {
	n := p.viewer.sizeBound(r)
	if p.used > 0 && rest.PageFrame+p.used+n > parley.PageBytesMax {
		return false, nil
	}
	p.used += n
	return true, p.call.Reserve(p.size())
}

// size is enough for the whole page.
func (p *pageBudget) size() int { return rest.PageFrame + p.used }

// sizeBound is at least as many bytes as appendMessage takes for the viewer.
func (v viewer) sizeBound(r *record.Message) int {
	n := messageFrame + len(r.GetContent())
	if v.org == r.SenderOrg() {
		n += len(r.GetSelfPayload()) // its alphabet needs no escapes
	}
	if r.Copied() {
		n += copyFrame
	}
	return n
}
