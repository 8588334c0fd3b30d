package rest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp"
)

// Cache lifetimes of public documents. // spec: Limits
const (
	// CacheHour is for documents that change with the server or its keys.
	CacheHour = "public, max-age=3600"
	// CacheFiveMinutes is for documents about an agent.
	CacheFiveMinutes = "public, max-age=300"
	// CacheChecked makes caches revalidate a document at every use, so that senders see
	// an agent's new keys at once. // spec: Agents
	CacheChecked = "no-cache"
)

// Document answers with a public document that was last changed at modified, or with 304
// if the caller already has it. The entity tag is a hash of the body.
// // source: RFC 9110 section 13
func (c *Call) Document(of any, modified time.Time, cache string) (Rendered, error) {
	body, err := json.Marshal(of, json.Deterministic(true))
	if err != nil {
		return Rendered{}, err
	}
	return c.document(body, modified, cache), nil
}

// TextDocument is Document for a document that is not JSON. It writes the answer, for Raw
// routes.
func (c *Call) TextDocument(media string, body []byte, modified time.Time, cache string) error {
	c.SetHeader(fasthttp.HeaderContentType, media)
	return c.answer(c.document(body, modified, cache))
}

func (c *Call) document(body []byte, modified time.Time, cache string) Rendered {
	tag := entityTag(body)
	c.SetHeader(fasthttp.HeaderCacheControl, cache)
	c.SetHeader(fasthttp.HeaderETag, tag)
	date := c.documentDate(modified)
	c.SetHeader(fasthttp.HeaderLastModified, date.UTC().Format(httpTime))
	if c.has(tag, date, cache) {
		return Rendered{Code: fasthttp.StatusNotModified}
	}
	return Rendered{JSON: body}
}

// AddVary adds a request header to those that an answer depends on.
func AddVary(h *fasthttp.ResponseHeader, name string) {
	have := string(h.Peek(fasthttp.HeaderVary))
	switch {
	case have == "":
		h.Set(fasthttp.HeaderVary, name)
	case !slices.Contains(strings.Split(have, ", "), name):
		h.Set(fasthttp.HeaderVary, have+", "+name)
	}
}

// entityTag returns the entity tag of a body, which is a hash of it.
func entityTag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// documentDate returns the Last-Modified of a document. HTTP dates have no fractions, so a
// document may change again in the second in which it changed. Its date is therefore the
// end of that second, and the beginning only until then: a client that got an earlier
// version in that second fetches the last one when the second has passed.
func (c *Call) documentDate(modified time.Time) time.Time {
	second := modified.Truncate(time.Second)
	if end := second.Add(time.Second); !end.After(c.Now()) {
		return end
	}
	return second
}

// httpTime is the format of dates in headers, in UTC.
const httpTime = "Mon, 02 Jan 2006 15:04:05 GMT"

// has reports whether the caller's conditional headers match the document. A date matches
// only for documents that may be cached for a while: one that must never be stale is
// compared as a whole, by its tag.
func (c *Call) has(tag string, date time.Time, cache string) bool {
	if lines := c.ctx.Request.Header.PeekAll(fasthttp.HeaderIfNoneMatch); len(lines) > 0 {
		for have := range strings.SplitSeq(string(bytes.Join(lines, []byte{','})), ",") {
			if have = strings.TrimSpace(have); have == "*" || strings.TrimPrefix(have, "W/") == tag {
				return true
			}
		}
		return false
	}
	since, err := time.Parse(httpTime, c.Header(fasthttp.HeaderIfModifiedSince))
	return err == nil && cache != CacheChecked && !date.After(since)
}
