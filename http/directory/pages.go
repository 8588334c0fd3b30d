package directory

import (
	"strings"
	"sync"

	index "parley/actors/directory"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
	"parley/http/web"
)

// homeRows is how many of the newest agents the start page shows, homeCategories how many
// categories.
const (
	homeRows       = 6
	homeCategories = 20
)

// assetCache is how long clients keep a file whose name has a hash of its contents.
const assetCache = "public, max-age=31536000, immutable"

// assets are the files that pages load, by name.
var assets = sync.OnceValue(func() map[string]*rest.Fixed {
	all := map[string]*rest.Fixed{}
	for _, a := range web.Assets {
		all[a.Name] = rest.NewFixed(a.Media, a.Body, a.Packed)
	}
	return all
})

// pageOf returns a rendered page with its policy.
func pageOf(body []byte, err error) (rest.HTML, error) {
	return rest.HTML{Body: body, Policy: web.Policy}, err
}

// ErrorPage renders a refusal of a request for a path, for httpserver.Options.
func (s *Directory) ErrorPage(path string, p *rest.Problem, requestID string) rest.HTML {
	body, err := s.Site.Refusal(path, web.Refusal{Status: p.Status, Detail: p.Text(), RequestID: requestID})
	if err != nil {
		s.Logger.Error("error page failed", "request_id", requestID, "error", err)
	}
	return rest.HTML{Body: body, Policy: web.Policy}
}

// Home returns the start page.
func (s Pages) Home(c *rest.Call) (rest.HTML, error) {
	return pageOf(s.kept.of(c, "", func() ([]byte, bool, error) {
		x := newAgentSearch(&api.FindAgents{Limit: homeRows, Sort: api.SortRelevance})
		rows, found, err := s.rows(c, &x)
		if err != nil {
			return nil, false, err
		}
		categories, err := s.Index.Categories()
		if err != nil {
			return nil, false, err
		}
		body, err := s.Site.Home(web.Home{Newest: rows, Total: found.Total, Categories: counts(categories[:min(len(categories), homeCategories)])})
		return body, true, err
	}))
}

// FindAgents returns a page of the agents that a search finds.
func (s Pages) FindAgents(c *rest.Call, in *web.Search) (rest.HTML, error) {
	return pageOf(s.kept.of(c, "", func() ([]byte, bool, error) { return s.renderAgents(c, in) }))
}

// renderAgents renders a page, which is to be kept as agentDirectory's is.
func (s Pages) renderAgents(c *rest.Call, in *web.Search) (body []byte, keep bool, err error) {
	x, byWords, err := s.prepare(c, in.Find())
	if err != nil {
		return nil, false, err
	}
	rows, found, err := s.rows(c, &x)
	if err != nil {
		return nil, false, err
	}
	categories, err := s.Index.Categories()
	if err != nil {
		return nil, false, err
	}
	out := web.Agents{Search: *in, Categories: counts(categories), Rows: rows, Modes: found.Modes, Total: found.Total}
	if found.Next != nil {
		out.Cursor = s.nextCursor(&x, found.Next, byWords)
	}
	body, err = s.Site.Agents(out)
	return body, !byWords, err
}

// rows finds agents, and returns what a list shows of those that may be shown now.
func (s Pages) rows(c *rest.Call, x *agentSearch) (rows []web.Row, found *index.Result, err error) {
	if found, err = s.ranked(c, x.Query); err != nil {
		return nil, nil, err
	}
	for _, one := range found.Rows {
		row, err := s.row(c.Context(), one, found.Scored)
		if err != nil {
			return nil, nil, err
		}
		if row != nil {
			rows = append(rows, web.NewRow(row))
		}
	}
	return rows, found, nil
}

func counts(of []index.Count) []api.CategoryCount {
	all := make([]api.CategoryCount, 0, len(of))
	for _, category := range of {
		all = append(all, api.CategoryCount{Name: category.Name, Count: category.Count})
	}
	return all
}

// Agent returns the page of an agent of the directory.
func (s Pages) Agent(c *rest.Call, in *web.NamedAgent) (rest.HTML, error) {
	a, err := s.Agents.ByHandle(c, in.Handle)
	if err != nil {
		return rest.HTML{}, unlistedIf(err)
	}
	active, err := s.Node.Agents.LastActive(c.Context(), a.AgentID())
	if err != nil {
		return rest.HTML{}, err
	}
	return pageOf(s.kept.of(c, active.String(), func() ([]byte, bool, error) {
		shown, err := s.listedAgent(c.Context(), a.AgentID())
		if err != nil {
			return nil, false, unlistedIf(err)
		}
		body, err := s.Site.Agent(shown)
		return body, true, err
	}))
}

// FindGroups returns a page of public groups.
func (s Pages) FindGroups(c *rest.Call, in *web.SearchGroups) (rest.HTML, error) {
	found, err := Groups(s).Find(c, in.Find())
	if err != nil {
		return rest.HTML{}, err
	}
	return pageOf(s.Site.Groups(web.Groups{
		Q: strings.TrimSpace(in.Q), Page: found, Next: web.NextGroups(in.Q, found.NextCursor), First: in.Cursor == nil,
	}))
}

// errNoGroup is the answer for every group that is not public.
var errNoGroup = parley.ErrNotFound.Saying("There is no such group in the directory.")

// Group returns the page of a public group.
func (s Pages) Group(c *rest.Call, in *web.NamedGroup) (rest.HTML, error) {
	h, err := parley.ParseHandle("#" + in.Handle)
	if err != nil {
		return rest.HTML{}, errNoGroup
	}
	id, err := s.Groups.ByHandle(c, h)
	if err == nil {
		var shown api.GroupProfile
		if shown, err = Groups(s).Profile(c, &api.GetProfile{ID: id}); err == nil {
			return pageOf(s.Site.Group(shown))
		}
	}
	if isGone(err) {
		err = errNoGroup
	}
	return rest.HTML{}, err
}

// Asset returns a file that the pages load.
func (s Pages) Asset(c *rest.Call, in *web.AssetName) error {
	file, found := assets()[in.File]
	if !found {
		return parley.ErrNotFound
	}
	return c.Static(file, assetCache)
}
