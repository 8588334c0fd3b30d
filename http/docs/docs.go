// Package docs serves the OpenAPI document, and a page to read it and to try requests.
package docs

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

	"parley/client/parley"
	"parley/http/rest"
)

// The documentation page is Swagger UI 5.35.0 (Apache-2.0, see LICENSE and
// NOTICE), its two large files kept compressed. It works without any other
// server and runs no script but its own.
//
//go:embed index.html init.js page.css favicon.png *.gz *.txt LICENSE NOTICE
var pageFiles embed.FS

// openAPI is the document with placeholders for what differs between servers.
//
//go:embed openapi.json
var openAPI string

// Document returns the OpenAPI document of a server.
func Document(brand, version string) []byte {
	filled := strings.NewReplacer("<brand>", brand, "<Brand>", rest.HeaderWord(brand), "<version>", version).Replace(openAPI)
	return []byte(filled)
}

// pagePolicy lets the page load from this server only.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pageCache is how long browsers keep the page's files.
const pageCache = "public, max-age=3600"

var pageMedia = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".png": "image/png", ".txt": "text/plain; charset=utf-8", "": "text/plain; charset=utf-8"}

type pageFile struct {
	File string `path:"file" description:"A file of the page."`
}

const (
	// File is the path of the route that serves the page's files.
	File = "/docs/{file}"
	// Folder is a path without a route: the router cannot have one beside the others.
	// The server answers it with File's index.html.
	Folder = "/docs/"
)

// Routes are the routes of the document and the page.
func Routes(brand, version string) []rest.Route {
	document := sync.OnceValue(func() []byte { return Document(brand, version) })
	return []rest.Route{
		rest.Raw(fasthttp.MethodGet, "/openapi.json", rest.Public, rest.JSONMedia, "This description, OpenAPI 3.1.", func(c *rest.Call, _ *struct{}) error {
			c.SetHeader(fasthttp.HeaderCacheControl, "no-cache")
			c.Static(rest.JSONMedia, document())
			return nil
		}),
		rest.Raw(fasthttp.MethodGet, "/docs", rest.Public, pageMedia[".html"], "The description as a page to read and try.", func(c *rest.Call, _ *struct{}) error {
			return pageAbove(c, "index.html")
		}),
		rest.Raw(fasthttp.MethodGet, File, rest.Public, "*/*", "The files of that page.", func(c *rest.Call, in *pageFile) error {
			return page(c, in.File)
		}),
	}
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
	list, err := pageFiles.ReadDir(".")
	for _, f := range list {
		body, unread := pageFiles.ReadFile(f.Name())
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
func pageAbove(c *rest.Call, name string) error {
	err := page(c, name)
	answer := &c.RequestCtx().Response
	answer.SetBodyString(above.Replace(string(answer.Body())))
	return err
}

// page serves one file of the documentation page.
func page(c *rest.Call, name string) error {
	files, err := documents()
	if err != nil {
		return err
	}
	file, found := files[name]
	if !found {
		return parley.ErrNotFound
	}
	h := &c.RequestCtx().Response.Header
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set(fasthttp.HeaderCacheControl, pageCache)
	body := file.packed
	if body != nil {
		rest.AddVary(h, fasthttp.HeaderAcceptEncoding)
	}
	if body != nil && c.RequestCtx().Request.Header.HasAcceptEncoding("gzip") {
		h.SetContentEncoding("gzip")
	} else if body, err = file.plain(); err != nil {
		return err
	}
	c.Static(pageMedia[path.Ext(name)], body)
	return nil
}

func inflate(compressed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("open a page file: %w", err)
	}
	return io.ReadAll(r)
}
