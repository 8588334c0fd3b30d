package messages

import (
	"parley/actors/record"
	"parley/client/parley"
	"parley/http/rest"
	"parley/http/view"
)

// pageBudget keeps a page of messages within parley.PageBytesMax. Before a message is
// rendered, it checks an upper bound of its size and reserves that from the caller's
// memory budget.
type pageBudget struct {
	call   *rest.Call
	viewer view.Viewer
	used   int
}

// fits reports whether the page has room for one more message. The first message always
// fits, however long it is.
func (p *pageBudget) fits(r *record.Message) (bool, error) {
	n := p.viewer.SizeBound(r)
	if p.used > 0 && rest.PageFrame+p.used+n > parley.PageBytesMax {
		return false, nil
	}
	p.used += n
	return true, p.call.Reserve(p.size())
}

// size returns an upper bound of the size of the page in bytes.
func (p *pageBudget) size() int { return rest.PageFrame + p.used }
