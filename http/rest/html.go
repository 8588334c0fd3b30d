package rest

import (
	"bytes"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// HTMLMedia is the media type of pages.
const HTMLMedia = "text/html; charset=utf-8"

// HTML is a page for people.
type HTML struct {
	Body []byte
	// Policy is its Content-Security-Policy.
	Policy string
}

// Page declares a public endpoint whose answer is a page for people. Refusals are pages
// too, if the client accepts HTML.
func Page[In any](path, summary string, h func(*Call, *In) (HTML, error)) Route {
	return Raw(fasthttp.MethodGet, path, Public, HTMLMedia, summary, func(c *Call, in *In) error {
		of, err := h(c, in)
		if err != nil {
			return err
		}
		out, err := c.HTML(of)
		if err != nil {
			return err
		}
		return c.answer(out)
	}).ForPeople()
}

// ForPeople returns the route with refusals that are pages if the client accepts HTML.
func (r Route) ForPeople() Route {
	r.people = true
	return r
}

// HTML answers with a page, or with 304 if the caller already has it. Caches ask at every
// use whether it has changed: what it shows may be withdrawn at any time.
func (c *Call) HTML(of HTML) (Rendered, error) {
	c.SetHeader(fasthttp.HeaderContentType, HTMLMedia)
	c.SetHeader("Content-Security-Policy", of.Policy)
	AddVary(&c.ctx.Response.Header, fasthttp.HeaderAccept)
	return tagged(c, of.Body, time.Time{}, CacheChecked)
}

// AcceptsHTML reports whether an Accept header names HTML, as those of browsers do.
func AcceptsHTML(accept []byte) bool {
	return bytes.Contains(bytes.ToLower(accept), []byte("text/html"))
}

// RefusedAsPage reports whether a refusal is answered with a page: on a route for people,
// or on a path without a route (r is nil), if the client accepts HTML.
func (r *Route) RefusedAsPage(accept []byte) bool {
	return (r == nil || r.people) && AcceptsHTML(accept)
}

// Text returns what the problem is, as sentences.
func (p *Problem) Text() string {
	switch detail := p.detail.(type) {
	case string:
		return detail
	case []FieldError:
		all := make([]string, 0, len(detail))
		for _, fault := range detail {
			all = append(all, fault.String())
		}
		return strings.Join(all, " ")
	}
	return ""
}
