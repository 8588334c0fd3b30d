package web

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strings"

	"parley/client/api"
	"parley/client/parley"
)

// Policy is the Content-Security-Policy of every page: it loads only files of this server,
// runs no inline script or style, and its script cannot turn texts into HTML.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// Site is what the pages say about the server.
type Site struct {
	Version string
	// BaseURL is the public address, without a trailing slash.
	BaseURL string
	// Domain is the domain in handles.
	Domain string
	// Brand is the word in message types.
	Brand string
}

//go:embed templates/*.html
var templateFiles embed.FS

// pages are the templates of pages by name. Each consists of the layout and its own main
// part.
var pages = parsed("home", "agents", "agent", "groups", "group", "refusal")

func parsed(names ...string) map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	all := map[string]*template.Template{}
	for _, name := range names {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return all
}

var functions = template.FuncMap{
	"visible": visible, "line": line, "excerpt": excerpt, "web": web, "host": host, "date": date, "day": day, "sentence": sentence,
	"plural": plural, "pricing": pricing, "policy": enrollment, "number": number, "bare": bareHandle,
	"rows": func(root string, rows []Row) rowList { return rowList{root, rows} }, "pricings": func() []string { return pricings },
}

// frame is what the layout needs, with the page's own values.
type frame struct {
	Site
	// Root is the relative address of the start page: a proxy may add a prefix to paths.
	Root string
	// Title is the page's name, "" for the start page.
	Title string
	// Here names the part of the navigation that is current.
	Here string
	// Style, Script and Icon are the names of the files.
	Style, Script, Icon string
	// Live: the page searches while the visitor types.
	Live bool
	// Hidden: search engines should not list the page.
	Hidden bool
	Main   any
}

func (s Site) render(name string, f frame) ([]byte, error) {
	f.Site, f.Style, f.Script, f.Icon = s, style.Name, script.Name, icon.Name
	var b bytes.Buffer
	err := pages[name].ExecuteTemplate(&b, "layout.html", f)
	return b.Bytes(), err
}

// rowList is a list of agents in a page.
type rowList struct {
	Root string
	Rows []Row
}

// rootAbove is the address of the start page on pages one level below it.
const rootAbove = "../"

// Home is the start page.
type Home struct {
	// Newest are the last published cards.
	Newest []Row
	// Total is how many cards there are, nil if that is not known.
	Total      *int
	Categories []api.CategoryCount
}

// Home renders the start page.
func (s Site) Home(p Home) ([]byte, error) {
	return s.render("home", frame{Root: "./", Here: "home", Live: true, Main: p})
}

// Agents renders a page of found agents.
func (s Site) Agents(p Agents) ([]byte, error) {
	return s.render("agents", frame{Root: rootAbove, Title: "Agents", Here: "agents", Live: true, Hidden: p.Search.filtered(), Main: p})
}

// Agent renders the page of an agent of the directory.
func (s Site) Agent(card api.ListedAgent) ([]byte, error) {
	return s.render("agent", frame{Root: rootAbove, Title: line(card.Name), Here: "agents", Main: newAgent(card)})
}

// Groups is a page of public groups.
type Groups struct {
	// Q is what was looked for, "" if all are listed.
	Q    string
	Page api.Page[api.GroupProfile]
	// Next is the query of the next page, "" on the last one. First: it is the first page.
	Next  template.URL
	First bool
}

// Groups renders a page of public groups.
func (s Site) Groups(p Groups) ([]byte, error) {
	return s.render("groups", frame{Root: rootAbove, Title: "Groups", Here: "groups", Hidden: p.Q != "" || !p.First, Main: p})
}

// Group renders the page of a public group.
func (s Site) Group(g api.GroupProfile) ([]byte, error) {
	return s.render("group", frame{Root: rootAbove, Title: g.Handle, Here: "groups", Main: g})
}

// Refusal is a request that was refused.
type Refusal struct {
	Status int
	// Detail says why, RequestID is the one in the server's log.
	Detail, RequestID string
}

// Heading returns what happened, in a few words.
func (r Refusal) Heading() string {
	switch {
	case r.Status == http.StatusNotFound:
		return "Not found"
	case r.Status == http.StatusGone:
		return "Deleted"
	case r.Status == http.StatusTooManyRequests:
		return "Too many requests"
	case r.Status >= http.StatusInternalServerError:
		return "Not possible at the moment"
	}
	return "This request is not valid"
}

// depthMax bounds how far below the start page relative links are made.
const depthMax = 16

// Refusal renders the refusal of a request for a path.
func (s Site) Refusal(path string, r Refusal) ([]byte, error) {
	root := "/"
	if depth := strings.Count(path, "/") - 1; depth == 0 {
		root = "./"
	} else if 0 < depth && depth <= depthMax {
		root = strings.Repeat("../", depth)
	}
	return s.render("refusal", frame{Root: root, Title: r.Heading(), Hidden: true, Main: r})
}

// agentHandle parses the handle of an agent. On a card of this server it is always valid.
func agentHandle(text string) parley.Handle {
	h, _ := parley.ParseHandle(text)
	return h
}
