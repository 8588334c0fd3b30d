package api

import (
	"maps"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// These rows of the access matrix cover groups: a private, closed group of the owner's,
// in which the counterpart has a seat.
func init() {
	of := func(rest string, body any) func(*accessScene) accessAsk {
		return func(c *accessScene) accessAsk { return accessAsk{c.group().Path(rest), body} }
	}
	ofMLS := func(rest string) func(*accessScene) accessAsk {
		return func(c *accessScene) accessAsk { return accessAsk{grouptest.NewMLS(c.alice, c.bob).Path(rest), nil} }
	}
	maps.Copy(accessAsks, map[string]func(*accessScene) accessAsk{
		"GET /groups":         plainAsk("/groups"),
		"GET /groups/invites": plainAsk("/groups/invites"),
		"POST /groups":        func(*accessScene) accessAsk { return accessAsk{"/groups", obj{"name": grouptest.NewName()}} },
		"GET /groups/{id}":    of("", nil),
		"PATCH /groups/{id}":  of("", obj{"description": "new"}),
		"DELETE /groups/{id}": of("", nil),

		"GET /groups/{id}/members":  of("/members", nil),
		"GET /groups/{id}/requests": of("/requests", nil),
		"POST /groups/{id}/join":    of("/join", nil),
		"POST /groups/{id}/invite": func(c *accessScene) accessAsk {
			return accessAsk{c.group().Path("/invite"), obj{"agent_id": c.newRecipient().ID}}
		},
		"PATCH /groups/{id}/members/{agent_id}": func(c *accessScene) accessAsk {
			return accessAsk{c.group().Path("/members/" + c.bob.ID), obj{"role": "admin"}}
		},
		"POST /groups/{id}/admins": func(c *accessScene) accessAsk {
			r := c.group()
			r.Role(c.alice, c.bob, "admin").Want(200)
			r.Role(c.bob, c.alice, "member").Want(200)
			return accessAsk{r.Path("/admins"), obj{"agent_id": c.alice.ID}}
		},
		"DELETE /groups/{id}/members/{agent_id}": func(c *accessScene) accessAsk {
			return accessAsk{c.group().Path("/members/" + c.bob.ID), nil}
		},
		"DELETE /groups/{id}/requests/{request_id}": func(c *accessScene) accessAsk {
			r := c.group()
			return accessAsk{r.Path("/requests/" + r.Invited(c.alice, c.newRecipient(), "invited")), nil}
		},
		"POST /groups/{id}/requests/{request_id}/vote": func(c *accessScene) accessAsk {
			r := c.group()
			r.Patch(obj{"enrollment_policy": "majority"}).Want(200)
			request := kit.Text(r.Applied(c.newRecipient()), "id")
			return accessAsk{r.Path("/requests/" + request + "/vote"), obj{"vote": "approve"}}
		},

		"GET /groups/{id}/mls/commits":    ofMLS("/mls/commits"),
		"GET /groups/{id}/mls/group-info": ofMLS("/mls/group-info"),
		"GET /groups/{id}/mls/welcomes":   ofMLS("/mls/welcomes"),
		"POST /groups/{id}/mls/commits": func(c *accessScene) accessAsk {
			r := c.group()
			return accessAsk{r.Path("/mls/commits"), r.AddBody(0, c.bob)}
		},
		"POST /agents/{id}/mls/key-packages/claim": func(c *accessScene) accessAsk {
			r := c.group()
			r.Committed(c.alice, r.CommitBody(0))
			grouptest.PublishKeyPackages(c.bob, obj{"key_packages": []any{grouptest.KeyPackage(c.bob)}}).Want(200)
			return accessAsk{c.bob.Path("/mls/key-packages/claim"), nil}
		},
		"DELETE /groups/{id}/mls/welcomes/{welcome_id}": func(c *accessScene) accessAsk {
			r := grouptest.NewMLS(c.alice, c.bob)
			return accessAsk{r.Path("/mls/welcomes/" + kit.Text(r.Welcomes(c.bob)[0], "id")), nil}
		},

		"GET /directory/groups": plainAsk("/directory/groups?q=" + grouptest.NewName()),
		"GET /directory/groups/{id}": func(c *accessScene) accessAsk {
			return accessAsk{"/directory/groups/" + grouptest.New(c.alice, obj{"visibility": "public"}).ID, nil}
		},
	})
}

// group creates a group that no other cell uses.
func (c *accessScene) group() *grouptest.Group {
	return grouptest.NewWithPolicy(c.alice, "closed", c.bob)
}
