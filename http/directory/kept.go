package directory

import (
	"github.com/maypok86/otter/v2"

	"parley/http/rest"
)

const (
	// keptPagesBytes bounds the memory of rendered pages, keptPageOverhead is about how many
	// bytes one takes besides its body and its key.
	keptPagesBytes   = 16 << 20
	keptPageOverhead = 256
)

// keptPages keeps rendered pages of the directory as long as nothing has changed that any of
// them might show: strangers can ask for them as often as they like, and each takes far more to
// render than to send.
type keptPages struct {
	pages *otter.Cache[string, keptPage]
	// version counts the changes of agents, organizations, cards and the index. It has grown before
	// the answer to a change is out.
	version func() pageVersion
}

type pageVersion struct{ changes, index uint64 }

type keptPage struct {
	version pageVersion
	body    []byte
}

func newKeptPages(version func() pageVersion) *keptPages {
	return &keptPages{version: version, pages: otter.Must(&otter.Options[string, keptPage]{
		MaximumWeight: keptPagesBytes,
		Weigher: func(key string, p keptPage) uint32 {
			return uint32(keptPageOverhead + len(key) + len(p.body))
		},
	})}
}

// of returns the page of a request, which depends on Call.Target and on beside only. render renders
// it; keep says whether another request may get it too. The result is shared and must not be
// changed.
func (p *keptPages) of(c *rest.Call, beside string, render func() (body []byte, keep bool, err error)) ([]byte, error) {
	key := c.Target() + " " + beside
	body, kept, err := p.page(key, render)
	if kept {
		err = c.Reserve(len(body))
	}
	return body, err
}

func (p *keptPages) page(key string, render func() (body []byte, keep bool, err error)) (body []byte, kept bool, err error) {
	version := p.version() // before anything is read
	if page, found := p.pages.GetIfPresent(key); found && page.version == version {
		return page.body, true, nil
	}
	body, keep, err := render()
	if err == nil && keep {
		p.pages.Set(key, keptPage{version, body})
	}
	return body, false, err
}
