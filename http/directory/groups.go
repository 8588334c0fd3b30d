package directory

import (
	index "parley/actors/directory"
	"parley/actors/group"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
	"parley/http/view"
)

// Profile returns what anyone may see of a public group.
// // spec: Directory and discovery (all public, no auth)
func (s Groups) Profile(c *rest.Call, in *api.GetProfile) (api.GroupProfile, error) {
	// The caller is anonymous, so it is no member.
	v, err := s.Groups.View(c, in.ID, group.Onlooker)
	if err != nil {
		return api.GroupProfile{}, err
	}
	g := view.Group(v)
	handle, err := s.Groups.Handle(c.Context(), v.Org, v.Name)
	return api.GroupProfile{
		ID: g.ID, Name: g.Name, Handle: handle, OrgID: v.Org, Description: g.Description, EnrollmentPolicy: g.EnrollmentPolicy,
		VoteDurationHours: g.VoteDurationHours, MemberCount: g.MemberCount, CreatedAt: g.CreatedAt, MLSEnabled: g.MLSEnabled,
	}, err
}

// Find returns a page of the public groups that match a query, or of all public
// groups if there is no query. The index gives the order; the groups are read as they are
// now.
// // spec: Directory and discovery (all public, no auth)
func (s Groups) Find(c *rest.Call, in *api.FindGroups) (api.Page[api.GroupProfile], error) {
	page := api.Page[api.GroupProfile]{Items: []api.GroupProfile{}}
	words := trimmed(in.Query)
	list := "directory groups " + words
	position, err := s.Lists.Position(list, in.Cursor)
	if err != nil {
		return page, err
	}
	first, err := s.named(c, words, true)
	if err != nil {
		return page, err
	}
	found, err := s.placed(c, func() (*index.Result, error) {
		return s.Index.Groups(index.Query{Text: words, First: first, Limit: in.Limit, Position: position})
	})
	if err != nil {
		return page, err
	}
	ids := make([]parley.GroupID, len(found.Rows))
	for i, row := range found.Rows {
		ids[i] = parley.GroupID(row.ID)
	}
	listed, err := s.Node.Groups.Listed(c.Context(), ids)
	for _, g := range listed {
		page.Items = append(page.Items, view.Profile(g.PublicGroup, parley.Handle{Name: g.GetName(), Slug: g.Slug, Domain: s.Site.Domain, Group: true}.String()))
	}
	if found.Next != nil {
		page.HasMore, page.NextCursor = true, new(s.Cursors.Seal(list, found.Next))
	}
	return page, err
}
