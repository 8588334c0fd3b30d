package http

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"

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

const (
	docsFile   = "/docs/{file}"
	docsFolder = "/docs/"
)

// documentationRoutes are the table's description of itself.
func documentationRoutes(s *Server) []Route {
	return []Route{
		raw(fasthttp.MethodGet, "/openapi.json", public, jsonMedia, "This description, OpenAPI 3.1.", func(c *Call, _ *struct{}) error {
			c.SetHeader(fasthttp.HeaderCacheControl, "no-cache")
			c.static(jsonMedia, s.document)
			return nil
		}),
		raw(fasthttp.MethodGet, "/docs", public, pageMedia[".html"], "The description as a page to read and try.", func(c *Call, _ *struct{}) error {
			return c.pageAbove("index.html")
		}),
		raw(fasthttp.MethodGet, docsFile, public, "*/*", "The files of that page.", func(c *Call, in *pageFile) error {
			return c.page(in.File)
		}),
	}
}

// static answers with bytes that never change. All answers share them: they are
// not copied.
func (c *Call) static(media string, body []byte) {
	c.ctx.SetContentType(media)
	c.ctx.Response.SetBodyRaw(body)
}

// document is one file of the page.
type document struct {
	// packed is the file compressed, nil if it is kept as it is.
	packed []byte
	// plain gives the file as it is. One that is kept compressed is inflated once,
	// for the first client that takes no gzip, and stays so.
	plain func() ([]byte, error)
}

// documents are the files of the page by name.
var documents = sync.OnceValues(func() (map[string]document, error) {
	files := map[string]document{}
	list, err := pageFiles.ReadDir("docs")
	for _, f := range list {
		body, unread := pageFiles.ReadFile("docs/" + f.Name())
		if err = errors.Join(err, unread); err != nil {
			break
		}
		if name, packed := strings.CutSuffix(f.Name(), ".gz"); packed {
			files[name] = document{packed: body, plain: sync.OnceValues(func() ([]byte, error) { return inflate(body) })}
		} else {
			files[name] = document{plain: func() ([]byte, error) { return body, nil }}
		}
	}
	return files, err
})

// above makes the links of a page of the folder those of one that is served under
// the folder's own name. Links stay relative: a proxy may add a prefix to paths.
var above = strings.NewReplacer(`href="../`, `href="`, `href="`, `href="docs/`, `src="`, `src="docs/`)

// pageAbove serves a page of the folder under the folder's own name.
func (c *Call) pageAbove(name string) error {
	err := c.page(name)
	c.ctx.Response.SetBodyString(above.Replace(string(c.ctx.Response.Body())))
	return err
}

// page serves one file of the documentation page.
func (c *Call) page(name string) error {
	files, err := documents()
	if err != nil {
		return err
	}
	file, found := files[name]
	if !found {
		return parley.ErrNotFound
	}
	h := &c.ctx.Response.Header
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set(fasthttp.HeaderCacheControl, pageCache)
	body := file.packed
	if body != nil {
		h.Set(fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
	}
	if body != nil && c.ctx.Request.Header.HasAcceptEncoding("gzip") {
		h.SetContentEncoding("gzip")
	} else if body, err = file.plain(); err != nil {
		return err
	}
	c.static(pageMedia[path.Ext(name)], body)
	return nil
}

func inflate(compressed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("open a page file: %w", err)
	}
	return io.ReadAll(r)
}
