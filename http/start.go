package http

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp"

	"parley/http/api"
	"parley/http/rest"
)

// The start page is one file with its style inside: it loads nothing else.
var (
	//go:embed start/index.html
	startHTML string
	//go:embed start/page.css
	startStyle string
)

// startPolicy is the content security policy of the page: it allows the page's own style
// and nothing else.
var startPolicy = sync.OnceValue(func() string {
	sum := sha256.Sum256([]byte(startStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
})

// startPage describes the server: it returns a page to browsers, and the same links as
// JSON to other clients.
func (s serverInfo) startPage(c *rest.Call, in *api.GetStart) (rest.Rendered, error) {
	c.SetHeader(fasthttp.HeaderCacheControl, "no-cache")
	c.SetHeader(fasthttp.HeaderVary, fasthttp.HeaderAccept)
	if !strings.Contains(strings.ToLower(in.Accept), "text/html") {
		link := func(path string) string { return s.BaseURL + path }
		body, err := json.Marshal(api.Start{
			Name: "parley", Version: s.Version, Documentation: link("/docs"), OpenAPI: link("/openapi.json"), Health: link("/health"),
			Registration: link("/auth/register"), TokenEndpoint: link("/oauth/token"),
		})
		return rest.Rendered{JSON: body}, err
	}
	c.SetHeader("Content-Security-Policy", startPolicy())
	c.SetHeader(fasthttp.HeaderContentType, "text/html; charset=utf-8")
	page := strings.NewReplacer("{{style}}", startStyle, "{{version}}", html.EscapeString(s.Version), "{{base}}", html.EscapeString(s.BaseURL)).Replace(startHTML)
	return rest.Rendered{JSON: []byte(page)}, nil
}
