// Package docs serves the OpenAPI document, and a page to read it and to try requests.
package docs

import (
	"embed"
	"errors"
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
	document := sync.OnceValue(func() *rest.Fixed { return rest.NewFixed(rest.JSONMedia, Document(brand, version), nil) })
	return []rest.Route{
		rest.Raw(fasthttp.MethodGet, "/openapi.json", rest.Public, rest.JSONMedia, "This description, OpenAPI 3.1.", func(c *rest.Call, _ *struct{}) error {
			return c.Static(document(), rest.CacheChecked)
		}),
		rest.Raw(fasthttp.MethodGet, "/docs", rest.Public, pageMedia[".html"], "The description as a page to read and try.", func(c *rest.Call, _ *struct{}) error {
			return page(c, front)
		}),
		rest.Raw(fasthttp.MethodGet, File, rest.Public, "*/*", "The files of that page.", func(c *rest.Call, in *pageFile) error {
			return page(c, in.File)
		}),
	}
}

// front is the first page as it is under the folder's own name. No file is called so.
const front = "/"

// documents are the files of the page by name.
var documents = sync.OnceValues(func() (map[string]*rest.Fixed, error) {
	files := map[string]*rest.Fixed{}
	list, err := pageFiles.ReadDir(".")
	for _, f := range list {
		body, unread := pageFiles.ReadFile(f.Name())
		if err = errors.Join(err, unread); err != nil {
			break
		}
		name, packed := strings.CutSuffix(f.Name(), ".gz")
		media := pageMedia[path.Ext(name)]
		switch {
		case packed:
			files[name] = rest.NewFixed(media, nil, body)
		case name == "index.html":
			files[front] = rest.NewFixed(media, []byte(above.Replace(string(body))), nil)
			fallthrough
		default:
			files[name] = rest.NewFixed(media, body, nil)
		}
	}
	return files, err
})

// above makes the links of a page of the folder those of one that is served under
// the folder's own name. Links stay relative: a proxy may add a prefix to paths.
var above = strings.NewReplacer(`href="../`, `href="`, `href="`, `href="docs/`, `src="`, `src="docs/`)

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
	c.SetHeader("Content-Security-Policy", pagePolicy)
	return c.Static(file, pageCache)
}
