package http

import (
	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp"

	"parley/client/api"
	"parley/http/directory"
	"parley/http/rest"
)

// startPage describes the server: it returns a page to browsers, and the same links as
// JSON to other clients.
func (s serverInfo) startPage(c *rest.Call, in *api.GetStart) (rest.Rendered, error) {
	c.SetHeader(fasthttp.HeaderCacheControl, "no-cache")
	rest.AddVary(&c.RequestCtx().Response.Header, fasthttp.HeaderAccept)
	if !rest.AcceptsHTML([]byte(in.Accept)) {
		link := func(path string) string { return s.BaseURL + path }
		body, err := json.Marshal(api.Start{
			Name: "parley", Version: s.Version, Documentation: link("/docs"), OpenAPI: link("/openapi.json"), Health: link("/health"),
			Registration: link("/auth/register"), TokenEndpoint: link("/oauth/token"),
		})
		return rest.Rendered{JSON: body}, err
	}
	of, err := (directory.Pages{Directory: s.directory}).Home(c)
	if err != nil {
		return rest.Rendered{}, err
	}
	return c.HTML(of)
}

// ErrorPage renders a refusal of a request for a path, for httpserver.Options.
func (s *Service) ErrorPage(path string, p *rest.Problem, requestID string) rest.HTML {
	return s.directory.ErrorPage(path, p, requestID)
}
