package blackbox

import "maps"

// These rows of the access matrix cover groups: a private, closed group of the owner's,
// in which the counterpart has a seat.
func init() {
	of := func(rest string, body any) func(*accessScene) accessAsk {
		return func(c *accessScene) accessAsk { return accessAsk{c.group().path(rest), body} }
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
			return accessAsk{c.group().path("/invite"), obj{"agent_id": c.newRecipient().id}}
		},
		"PATCH /groups/{id}/members/{agent_id}": func(c *accessScene) accessAsk {
			return accessAsk{c.group().path("/members/" + c.bob.id), obj{"role": "admin"}}
		},
		"DELETE /groups/{id}/members/{agent_id}": func(c *accessScene) accessAsk {
			return accessAsk{c.group().path("/members/" + c.bob.id), nil}
		},
		"POST /groups/{id}/requests/{request_id}/vote": func(c *accessScene) accessAsk {
			r := c.group()
			r.patch(obj{"enrollment_policy": "majority"}).want(200)
			request := text(r.applied(c.newRecipient()), "id")
			return accessAsk{r.path("/requests/" + request + "/vote"), obj{"vote": "approve"}}
		},

		"GET /directory/groups": plainAsk("/directory/groups?q=" + groupName()),
		"GET /directory/groups/{id}": func(c *accessScene) accessAsk {
			return accessAsk{"/directory/groups/" + c.alice.group(obj{"visibility": "public"}).id, nil}
		},
	})
}

// group creates a group that no other cell uses.
func (c *accessScene) group() *group { return c.alice.groupWithPolicy("closed", c.bob) }
