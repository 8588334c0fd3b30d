package rest

import (
	"crypto/sha256"
	"encoding/base64"
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
	sum := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
	c.SetHeader(fasthttp.HeaderCacheControl, cache)
	c.SetHeader(fasthttp.HeaderETag, tag)
	c.SetHeader(fasthttp.HeaderLastModified, modified.UTC().Format(httpTime))
	if c.has(tag, modified, cache) {
		return Rendered{Code: fasthttp.StatusNotModified}, nil
	}
	return Rendered{JSON: body}, nil
}

// httpTime is the format of dates in headers, in UTC.
const httpTime = "Mon, 02 Jan 2006 15:04:05 GMT"

// has reports whether the caller's conditional headers match the document. A date matches
// only for documents that may be cached for a while: one that must never be stale can
// change twice in a second, and HTTP dates have no fractions.
func (c *Call) has(tag string, modified time.Time, cache string) bool {
	if tags := c.Header(fasthttp.HeaderIfNoneMatch); tags != "" {
		for have := range strings.SplitSeq(tags, ",") {
			if have = strings.TrimSpace(have); have == "*" || strings.TrimPrefix(have, "W/") == tag {
				return true
			}
		}
		return false
	}
	since, err := time.Parse(httpTime, c.Header(fasthttp.HeaderIfModifiedSince))
	return err == nil && cache != CacheChecked && !modified.Truncate(time.Second).After(since)
}
