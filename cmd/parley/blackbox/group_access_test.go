package blackbox

import "maps"

// These rows of the access matrix cover groups: a private, closed group of the owner's,
// in which the counterpart has a seat.
func init() {
	of := func(rest string, body any) func(*accessScene) accessAsk {
		return func(c *accessScene) accessAsk { return accessAsk{c.group().path(rest), body} }
	}
	ofMLS := func(rest string) func(*accessScene) accessAsk {
		return func(c *accessScene) accessAsk { return accessAsk{c.alice.mlsGroup(c.bob).path(rest), nil} }
	}
	maps.Copy(accessAsks, map[string]func(*accessScene) accessAsk{
		"GET /groups":         plainAsk("/groups"),
		"GET /groups/invites": plainAsk("/groups/invites"),
		"POST /groups":        func(*accessScene) accessAsk { return accessAsk{"/groups", obj{"name": groupName()}} },
		"GET /groups/{id}":    of("", nil),
		"PATCH /groups/{id}":  of("", obj{"description": "new"}),
		"DELETE /groups/{id}": of("", nil),

		"GET /groups/{id}/members":  of("/members", nil),
		"GET /groups/{id}/requests": of("/requests", nil),
		"POST /groups/{id}/join":    of("/join", nil),
		"POST /groups/{id}/invite": func(c *accessScene) accessAsk {
			return accessAsk{c.group().path("/invite"), obj{"agent_id": c.newRecipient().ID}}
		},
		"PATCH /groups/{id}/members/{agent_id}": func(c *accessScene) accessAsk {
			return accessAsk{c.group().path("/members/" + c.bob.ID), obj{"role": "admin"}}
		},
		"DELETE /groups/{id}/members/{agent_id}": func(c *accessScene) accessAsk {
			return accessAsk{c.group().path("/members/" + c.bob.ID), nil}
		},
		"POST /groups/{id}/requests/{request_id}/vote": func(c *accessScene) accessAsk {
			r := c.group()
			r.patch(obj{"enrollment_policy": "majority"}).Want(200)
			request := Text(r.applied(c.newRecipient()), "id")
			return accessAsk{r.path("/requests/" + request + "/vote"), obj{"vote": "approve"}}
		},

		"GET /groups/{id}/mls/commits":    ofMLS("/mls/commits"),
		"GET /groups/{id}/mls/group-info": ofMLS("/mls/group-info"),
		"GET /groups/{id}/mls/welcomes":   ofMLS("/mls/welcomes"),
		"POST /groups/{id}/mls/commits": func(c *accessScene) accessAsk {
			r := c.group()
			return accessAsk{r.path("/mls/commits"), r.mlsAdd(0, c.bob)}
		},
		"POST /agents/{id}/mls/key-packages/claim": func(c *accessScene) accessAsk {
			r := c.group()
			r.committed(c.alice, r.mlsCommit(0))
			c.bob.publishKeyPackages(obj{"key_packages": []any{c.bob.keyPackage()}}).Want(200)
			return accessAsk{c.bob.Path("/mls/key-packages/claim"), nil}
		},
		"DELETE /groups/{id}/mls/welcomes/{welcome_id}": func(c *accessScene) accessAsk {
			r := c.alice.mlsGroup(c.bob)
			return accessAsk{r.path("/mls/welcomes/" + Text(r.welcomes(c.bob)[0], "id")), nil}
		},

		"GET /directory/groups": plainAsk("/directory/groups?q=" + groupName()),
		"GET /directory/groups/{id}": func(c *accessScene) accessAsk {
			return accessAsk{"/directory/groups/" + c.alice.group(obj{"visibility": "public"}).id, nil}
		},
	})
}

// group creates a group that no other cell uses.
func (c *accessScene) group() *group { return c.alice.groupWithPolicy("closed", c.bob) }
