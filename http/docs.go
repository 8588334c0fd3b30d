package http

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/valyala/fasthttp"

	"parley"
)

// The documentation page is Swagger UI 5.35.0 (Apache-2.0, see docs/LICENSE and
// docs/NOTICE), its two large files kept compressed. It works without any other
// server and runs no script but its own.
//
//go:embed docs/index.html docs/init.js docs/page.css docs/favicon.png docs/*.gz docs/*.txt docs/LICENSE docs/NOTICE
var pageFiles embed.FS

// pagePolicy lets the page load from this server only.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pageCache is how long browsers keep the page's files.
const pageCache = "public, max-age=3600"

var pageMedia = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".png": "image/png", ".txt": "text/plain; charset=utf-8", "": "text/plain; charset=utf-8"}

type pageFile struct {
	File string `path:"file" description:"A file of the page."`
}

// documentationRoutes are the table's description of itself.
func documentationRoutes(s *Server) []Route {
	return []Route{
		raw(fasthttp.MethodGet, "/openapi.json", public, jsonMedia, "This description, OpenAPI 3.1.", func(c *Call, _ *struct{}) error {
			c.SetHeader(fasthttp.HeaderCacheControl, "no-cache")
			c.send(fasthttp.StatusOK, s.document)
			return nil
		}),
		raw(fasthttp.MethodGet, "/docs", public, pageMedia[".html"], "The description as a page to read and try.", func(c *Call, _ *struct{}) error {
			return c.page("index.html")
		}),
		raw(fasthttp.MethodGet, "/docs/{file}", public, "*/*", "The files of that page.", func(c *Call, in *pageFile) error {
			return c.page(in.File)
		}),
	}
}

// page serves one file of the documentation page.
func (c *Call) page(name string) error {
	compressed := false
	body, err := pageFiles.ReadFile("docs/" + name)
	if err != nil {
		body, err = pageFiles.ReadFile("docs/" + name + ".gz")
		compressed = true
	}
	if err != nil || strings.HasSuffix(name, ".gz") {
		return parley.ErrNotFound
	}
	h := &c.ctx.Response.Header
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set(fasthttp.HeaderCacheControl, pageCache)
	h.SetContentType(pageMedia[path.Ext(name)])
	if compressed {
		h.Set(fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
		if c.ctx.Request.Header.HasAcceptEncoding("gzip") {
			h.SetContentEncoding("gzip")
		} else if body, err = inflate(body); err != nil {
			return err
		}
	}
	c.ctx.Response.SetBodyRaw(body)
	return nil
}

func inflate(compressed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("open a page file: %w", err)
	}
	return io.ReadAll(r)
}
