package groups

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/content"
	"parley/http/rest"
)

// List returns a page of the groups that the organization owns, oldest first,
// followed by those in which it has a seat, as the request selects. A caller that is limited to
// some agents gets those in which they have a seat. // spec: Groups
func (s Groups) List(c *rest.Call, in *api.ListGroups) (api.Page[api.Group], error) {
	if c.Caller.Only != nil {
		in.Scope = "seated"
	}
	l := &groupList{service: s, call: c, scope: in.Scope, limit: in.Limit, page: api.Page[api.Group]{Items: []api.Group{}}}
	position, err := s.Lists.Position("groups "+c.Caller.Name()+" "+in.Scope, in.Cursor, 8, 16)
	if err != nil {
		return l.page, err
	}
	var next []byte
	if in.Scope != "seated" && len(position) != 16 {
		next, err = l.owned(position)
	}
	if err == nil && next == nil && in.Scope != "owned" {
		next, err = l.seated(position)
	}
	if err == nil && next != nil {
		l.page.HasMore, l.page.NextCursor = true, new(s.Cursors.Seal("groups "+c.Caller.Name()+" "+in.Scope, next))
	}
	return l.page, err
}

// groupList is a page that is being filled. A cursor of 8 bytes is a position among the
// owned groups. A cursor of 16 bytes is the last seen group of the others.
type groupList struct {
	service Groups
	call    *rest.Call
	scope   string
	limit   int
	page    api.Page[api.Group]
	size    int // bound on the page, in bytes
}

const (
	// groupFrame bounds the bytes that a group takes in a page besides its description,
	// escapeMax the bytes that one byte of the description takes.
	groupFrame = 1 << 10
	escapeMax  = 6
	// groupsRead is how many groups are read at a time.
	groupsRead = 16
)

// full reports whether groupsRead more groups might exceed the bound of the page.
func (l *groupList) full() bool {
	const largest = groupFrame + escapeMax*2000
	return len(l.page.Items) >= l.limit || l.size+groupsRead*largest > parley.PageBytesMax
}

// groupRowsMax bounds how many deleted groups a page skips.
const groupRowsMax = 1000

// owned adds the organization's own groups and returns the position at which they
// continue.
func (l *groupList) owned(position []byte) (next []byte, err error) {
	after := uint64(0)
	if len(position) == 8 {
		after = binary.BigEndian.Uint64(position)
	}
	for seen := 0; ; {
		room := l.limit - len(l.page.Items)
		if l.full() || seen >= groupRowsMax {
			return binary.BigEndian.AppendUint64(nil, after), nil
		}
		ids, following, err := l.service.Node.Groups.Owned(l.call.Context(), l.call.Caller.Org, after, min(room, groupsRead))
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			if err := l.add(id, false); err != nil {
				return nil, err
			}
		}
		if following == 0 {
			return nil, nil
		}
		seen, after = seen+len(ids), following
	}
}

// seated adds groups in which the organization has a seat and returns the position at
// which they continue. If the request selects both kinds, its own groups are left out
// here.
func (l *groupList) seated(position []byte) (next []byte, err error) {
	var after parley.GroupID
	if len(position) == 16 {
		after = parley.GroupID(position)
	}
	ids, err := l.service.seats(l.call)
	if err != nil {
		return nil, err
	}
	last := after
	for _, id := range ids {
		if bytes.Compare(id[:], after[:]) <= 0 {
			continue
		}
		if l.full() {
			return last.Bytes(), nil
		}
		if err := l.add(id, l.scope == "all"); err != nil {
			return nil, err
		}
		last = id
	}
	return nil, nil
}

// seats returns the groups that the caller's agents are in, in the order of their ids.
func (s Groups) seats(c *rest.Call) (ids []parley.GroupID, err error) {
	err = s.Agents.EachActive(c, 0, func(_ uint64, a *agent.State) bool {
		for _, m := range a.GetGroups() {
			ids = append(ids, m.GroupID())
		}
		return true
	})
	slices.SortFunc(ids, func(a, b parley.GroupID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(ids), err
}

// add adds a group unless it is deleted or to be left out.
func (l *groupList) add(id parley.GroupID, foreign bool) error {
	g, owner, err := l.service.readGroup(l.call, id)
	switch {
	case errors.Is(err, group.ErrUnknown), errors.Is(err, group.ErrDeleted), errors.Is(err, parley.ErrNotOwner):
		return nil
	case err == nil && !(foreign && owner == l.call.Caller.Org):
		l.page.Items = append(l.page.Items, g)
		if l.size += groupFrame; g.Description != nil {
			l.size += len(content.AppendText(nil, *g.Description))
		}
	}
	return err
}
