package http

import (
	"iter"
	"strings"

	"parley/actors/query"
	"parley/actors/record"
	"parley/http/api"
	"parley/http/rest"
	"parley/http/search"
)

// getProfile returns what anyone may see of a public group.
// // spec: Directory and discovery (all public, no auth)
func (s groupDirectory) getProfile(c *rest.Call, in *api.GetProfile) (api.GroupProfile, error) {
	// The caller is anonymous, so it is no member.
	g, err := readGroupAs(s.core, c, in.ID, accessExists, seeGroup)
	if err != nil {
		return api.GroupProfile{}, err
	}
	handle, err := s.groupHandle(c.Context(), g.owner, g.Name)
	return api.GroupProfile{
		ID: g.ID, Name: g.Name, Handle: handle, OrgID: g.owner, Description: g.Description, EnrollmentPolicy: g.EnrollmentPolicy,
		VoteDurationHours: g.VoteDurationHours, MemberCount: g.MemberCount, CreatedAt: g.CreatedAt,
	}, err
}

// findGroups returns a page of the public groups that match a query, or of all public
// groups if there is no query. The work of one request is bounded: if it ends before
// the last group, the page may be short or empty, and its cursor continues with the
// next group.
// // spec: Directory and discovery (all public, no auth)
func (s groupDirectory) findGroups(c *rest.Call, in *api.FindGroups) (api.Page[api.GroupProfile], error) {
	page := api.Page[api.GroupProfile]{Items: []api.GroupProfile{}}
	words := ""
	if in.Query != nil {
		words = strings.TrimSpace(*in.Query)
	}
	list := "directory groups " + words
	position, err := s.lists.Position(list, in.Cursor, search.PositionBytes, search.StretchPositionBytes)
	if err != nil {
		return page, err
	}
	leave, err := s.queries.Enter(c.Account(), c.Draining())
	if err != nil {
		return page, err
	}
	defer leave()
	l := search.NewStep(search.PositionOf(position), search.NewQuery(words), in.Limit, s.searchWork)
	err = s.Node.Groups.Public(c.Context(), l.Beyond(), func(groups iter.Seq2[*record.PublicGroup, query.GroupOwner]) {
		l.Scan(groups, s.Domain)
		if !s.queriesLinger {
			leave() // before waiting for the disk and the socket
		}
	})
	for _, g := range l.Page() {
		page.Items = append(page.Items, profileOf(g.Group, g.Handle))
	}
	if next, more := l.Next(); more {
		page.HasMore, page.NextCursor = true, new(s.Cursors.Seal(list, next.Bytes()))
	}
	return page, err
}

func profileOf(g *record.PublicGroup, handle string) api.GroupProfile {
	return api.GroupProfile{
		ID: g.GroupID(), Name: g.GetName(), Handle: handle, OrgID: g.Owner(), Description: orNull(g.GetDescription()),
		EnrollmentPolicy: g.GetPolicy(), VoteDurationHours: int(g.GetVoteHours()), MemberCount: int(g.GetMembers()),
		CreatedAt: atMillis(g.GetCreatedMs()),
	}
}
