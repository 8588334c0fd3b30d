package api

import (
	"maps"

	"parley/cmd/parley/blackbox/kit/hooktest"
)

// These rows of the access matrix cover webhooks. No process listens at their targets.
func init() {
	of := func(rest string, body any) func(*accessScene) accessAsk {
		return func(c *accessScene) accessAsk { return accessAsk{c.hook().Path(rest), body} }
	}
	maps.Copy(accessAsks, map[string]func(*accessScene) accessAsk{
		"GET /webhooks": plainAsk("/webhooks"),
		"POST /webhooks": func(c *accessScene) accessAsk {
			return accessAsk{"/webhooks", obj{"agent_id": c.victim().ID, "url": nowhere}}
		},
		"PATCH /webhooks/{id}":                  of("", obj{"active": false}),
		"DELETE /webhooks/{id}":                 of("", nil),
		"GET /webhooks/{id}/deliveries":         of("/deliveries", nil),
		"GET /webhooks/{id}/deliveries/summary": of("/deliveries/summary", nil),
		"POST /webhooks/{id}/test":              of("/test", nil),
		"POST /webhooks/{id}/rotate-secret":     of("/rotate-secret", nil),
		"POST /webhooks/{id}/deliveries/{job}/retry": func(c *accessScene) accessAsk {
			h := c.hook()
			job := h.Agent.Post(h.Path("/test"), nil).Want(200).Str("id")
			return accessAsk{h.Path("/deliveries/" + job + "/retry"), nil}
		},
	})
}

// nowhere is a target that refuses connections.
const nowhere = "http://127.0.0.1:1/hook"

// hook creates a webhook that no other cell uses.
func (c *accessScene) hook() *hooktest.Hook {
	return hooktest.New(c.victim(), &hooktest.Target{URL: nowhere})
}
