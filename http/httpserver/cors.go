package httpserver

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"parley/http/rest"
)

// Origins are the web origins whose pages may call every route from a browser. nil are none:
// then browsers read public GETs only, from any origin.
type Origins struct {
	any    bool
	listed map[string]bool
}

// originForm is how browsers write the origins of pages. Hosts with other letters are sent in
// punycode.
var originForm = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?$`)

// ParseOrigins returns the origins of a list, of which * alone is any; an empty list is none.
func ParseOrigins(list []string) (*Origins, error) {
	o := &Origins{listed: map[string]bool{}}
	for _, origin := range list {
		origin = strings.TrimSpace(origin)
		switch {
		case origin == "*" && len(list) == 1:
			o.any = true
		case origin == "*":
			return nil, errors.New("* is any origin, so no other can stand beside it")
		case !plainOrigin(origin):
			return nil, fmt.Errorf("%q is not an origin as browsers send it, such as https://app.example or http://localhost:3000: scheme, host and port in lower case, without a path and without the scheme's own port", origin)
		}
		o.listed[origin] = true
	}
	if len(list) == 0 {
		return nil, nil
	}
	return o, nil
}

// plainOrigin accepts an origin as browsers send it: any other way to write it would never match.
func plainOrigin(origin string) bool {
	if !originForm.MatchString(origin) {
		return false
	}
	scheme, host, _ := strings.Cut(origin, "://")
	name, port := host, ""
	if at := strings.LastIndexByte(host, ':'); at > strings.LastIndexByte(host, ']') {
		name, port = host[:at], host[at+1:]
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
	}
	if inside, ok := strings.CutPrefix(name, "["); ok {
		address, err := netip.ParseAddr(strings.TrimSuffix(inside, "]"))
		return err == nil && address.Is6() && "["+address.String()+"]" == name
	}
	return !(scheme == "https" && port == "443" || scheme == "http" && port == "80")
}

// The headers that let pages of other origins read answers.
var (
	headerVary        = []byte(fasthttp.HeaderVary)
	valueOrigin       = []byte(fasthttp.HeaderOrigin)
	headerAllowOrigin = []byte(fasthttp.HeaderAccessControlAllowOrigin)
	valueAnyOrigin    = []byte("*")
	headerExposed     = []byte(fasthttp.HeaderAccessControlExposeHeaders)
	valueExposed      = []byte(strings.Join(slices.Concat([]string{fasthttp.HeaderETag, rest.ReplayedHeader}, rest.RateHeaders[:], []string{fasthttp.HeaderRetryAfter, rest.RequestIDHeader}), ", "))
)

// corsHeaders are the request headers that pages of the listed origins may send, besides those
// that begin with X-. The conditional ones are for documents.
const corsHeaders = "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, A2A-Version, Accept, If-Modified-Since, If-None-Match"

// corsMaxAge is how long browsers may remember a preflight, in seconds: as long as Chromium does
// at most. Until then an origin that was removed passes preflights, but reads no answer.
const corsMaxAge = "7200"

// permit lets the page that sends a request read its answer, if its origin is listed. Caches keep
// answers apart by origin in any case.
func (o *Origins) permit(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	h.SetCanonical(headerVary, valueOrigin)
	allowed := valueAnyOrigin
	if !o.any {
		allowed = ctx.Request.Header.Peek(fasthttp.HeaderOrigin)
		if !o.listed[string(allowed)] {
			return
		}
	}
	h.SetCanonical(headerAllowOrigin, allowed)
	h.SetCanonical(headerExposed, valueExposed)
}

// permitted reports whether permit has let a page read the answer.
func permitted(h *fasthttp.ResponseHeader) bool { return len(h.PeekBytes(headerAllowOrigin)) > 0 }

// preflight answers a browser that asks what a page may send, after permit. The router has set
// Allow to the methods of the path.
func preflight(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	h.Del(fasthttp.HeaderAccessControlExposeHeaders)
	h.SetBytesV(fasthttp.HeaderAccessControlAllowMethods, h.Peek(fasthttp.HeaderAllow))
	h.Set(fasthttp.HeaderAccessControlAllowHeaders, corsHeaders+ownHeaders(ctx.Request.Header.Peek(fasthttp.HeaderAccessControlRequestHeaders)))
	h.Set(fasthttp.HeaderAccessControlMaxAge, corsMaxAge)
}

// ownHeaders returns those of a list of header names that begin with X-, each after a comma: the
// list has no pattern for them.
func ownHeaders(asked []byte) string {
	var own strings.Builder
	for name := range bytes.SplitSeq(asked, []byte{','}) {
		name = bytes.Trim(name, " \t")
		if len(name) > 2 && bytes.EqualFold(name[:2], []byte("X-")) && !slices.ContainsFunc(name, notToken) {
			own.WriteString(", ")
			own.Write(name)
		}
	}
	return own.String()
}

// unreadHead returns the headers of permit, as they are sent, for an answer to a request that is not
// read: its origin is not known.
func (o *Origins) unreadHead() string {
	if o == nil || !o.any {
		return ""
	}
	return "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: " + string(valueExposed) + "\r\nVary: Origin\r\n"
}
