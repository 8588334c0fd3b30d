package rest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp"

	"parley/http/connlimit"
	"parley/http/limit"
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
	return c.document(body, modified, cache)
}

// TextDocument is Document for a document that is not JSON. It writes the answer, for Raw
// routes.
func (c *Call) TextDocument(media string, body []byte, modified time.Time, cache string) error {
	c.SetHeader(fasthttp.HeaderContentType, media)
	out, err := c.document(body, modified, cache)
	if err != nil {
		return err
	}
	return c.answer(out)
}

func (c *Call) document(body []byte, modified time.Time, cache string) (Rendered, error) {
	date := c.documentDate(modified)
	c.SetHeader(fasthttp.HeaderLastModified, date.UTC().Format(httpTime))
	return tagged(c, body, date, cache)
}

// tagged answers with a document in the form that the caller takes, which has an entity tag of its
// own, or with 304. It is compressed for each request: what is kept for another would outlive what
// is withdrawn or erased.
func tagged(c *Call, body []byte, date time.Time, cache string) (Rendered, error) {
	packed, tag := len(body) > packedAbove && choosesPacked(&c.ctx.Request.Header), entityTag(body)
	if packed {
		tag = packedTag(tag)
	}
	if len(body) > packedAbove {
		AddVary(&c.ctx.Response.Header, fasthttp.HeaderAcceptEncoding)
	}
	c.SetHeader(fasthttp.HeaderCacheControl, cache)
	c.SetHeader(fasthttp.HeaderETag, tag)
	switch {
	case c.has(tag, date, cache):
		return Rendered{Code: fasthttp.StatusNotModified}, nil
	case !packed:
		return Rendered{JSON: body}, nil
	}
	if err := c.Reserve(len(body)); err != nil { // it may wait for its turn
		return Rendered{}, err
	}
	return Rendered{JSON: pack(body), packed: true}, nil
}

// Fixed is a document that does not change while the server runs, in one or both of its forms.
type Fixed struct {
	media, tag string
	plain      func() ([]byte, error)
	packed     []byte // by gzip; nil if it is too small
}

// NewFixed returns a document. Of one that is compressed already, packed, the plain form may be
// nil: it is inflated for the first client that takes no gzip, and stays so.
func NewFixed(media string, body, packed []byte) *Fixed {
	f := &Fixed{media: media, packed: packed, plain: func() ([]byte, error) { return body, nil }}
	switch {
	case body == nil:
		f.tag = entityTag(packed)
		f.plain = sync.OnceValues(func() ([]byte, error) { return inflate(packed) })
		return f
	case packed == nil && len(body) > packedAbove:
		f.packed = packAt(gzip.BestCompression, body)
	}
	f.tag = entityTag(body)
	return f
}

// Static answers with a document that never changes, or with 304. Its bytes are not copied.
func (c *Call) Static(of *Fixed, cache string) error {
	packed, tag := of.packed != nil && choosesPacked(&c.ctx.Request.Header), of.tag
	if packed {
		tag = packedTag(tag)
	}
	h := &c.ctx.Response.Header
	if of.packed != nil {
		AddVary(h, fasthttp.HeaderAcceptEncoding)
	}
	h.Set(fasthttp.HeaderCacheControl, cache)
	h.Set(fasthttp.HeaderETag, tag)
	c.ctx.SetContentType(of.media)
	if c.has(tag, time.Time{}, CacheChecked) {
		c.ctx.SetStatusCode(fasthttp.StatusNotModified)
		return nil
	}
	body := of.packed
	if !packed {
		var err error
		if body, err = of.plain(); err != nil {
			return err
		}
	} else {
		h.SetContentEncoding("gzip")
	}
	c.ctx.Response.SetBodyRaw(body)
	if len(body) > limit.Small {
		connlimit.Charge(c.ctx.Conn(), c.Account())
	}
	return nil
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

// packedAbove is the size in bytes above which documents are compressed.
const packedAbove = 8 << 10

// packedTag returns the entity tag of the compressed form of the document with a tag. It needs no
// compression, so that a client that has the form costs none.
func packedTag(tag string) string { return strings.TrimSuffix(tag, `"`) + `-gzip"` }

// choosesPacked reports whether the caller takes gzip, and would not rather have what is not
// compressed.
// // source: RFC 9110 section 12.5.3
func choosesPacked(h *fasthttp.RequestHeader) bool {
	named, others, plain := -1, -1, -1
	for _, line := range h.PeekAll(fasthttp.HeaderAcceptEncoding) {
		for coding := range strings.SplitSeq(string(line), ",") {
			name, parameters, _ := strings.Cut(coding, ";")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "gzip", "x-gzip":
				named = weight(parameters)
			case "*":
				others = weight(parameters)
			case "identity":
				plain = weight(parameters)
			}
		}
	}
	if named < 0 {
		named = others
	}
	return named > 0 && named >= plain
}

// weight returns the weight in the parameters of a coding, in thousandths. What is malformed
// counts as 0: the plain form suits everybody.
func weight(parameters string) int {
	parameters = strings.ToLower(strings.TrimSpace(parameters))
	if parameters == "" {
		return 1000
	}
	value, _ := strings.CutPrefix(strings.ReplaceAll(parameters, " ", ""), "q=")
	q, err := strconv.ParseFloat(value, 64)
	if err != nil || !(q >= 0 && q <= 1) {
		return 0
	}
	return int(q * 1000)
}

var (
	// packTurns bounds how many documents are compressed at once: what compresses takes a
	// megabyte, and more than there are processors would not be faster.
	packTurns = make(chan struct{}, runtime.GOMAXPROCS(0))
	packers   = sync.Pool{New: func() any {
		w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
		return w
	}}
)

// pack compresses a document that is made for one request.
func pack(body []byte) []byte {
	packTurns <- struct{}{}
	defer func() { <-packTurns }()
	w := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	return packWith(w, body)
}

func packAt(level int, body []byte) []byte {
	w, _ := gzip.NewWriterLevel(nil, level) // the level is valid
	return packWith(w, body)
}

func packWith(w *gzip.Writer, body []byte) []byte {
	var packed bytes.Buffer
	w.Reset(&packed)
	_, _ = w.Write(body) // a buffer takes all
	_ = w.Close()
	return packed.Bytes()
}

func inflate(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("open a document: %w", err)
	}
	return io.ReadAll(r)
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
