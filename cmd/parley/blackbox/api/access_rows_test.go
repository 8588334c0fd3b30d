package api

import (
	"strings"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
)

// accessAsks build the request for each route. Each request has a resource of its own, so
// that no cell changes the result of another.
var accessAsks = map[string]func(c *accessScene) accessAsk{
	"POST /auth/register": func(*accessScene) accessAsk {
		return accessAsk{"/auth/register", obj{"email": "a@b.c", "org_slug": kit.FreshSlug()}}
	},
	"POST /auth/register/solve": func(*accessScene) accessAsk {
		return accessAsk{"/auth/register/solve", obj{"challenge_id": kit.Nobody, "nonce": "0"}}
	},
	"POST /auth/verify-email": func(*accessScene) accessAsk {
		return accessAsk{"/auth/verify-email", obj{"token": "none"}}
	},
	"POST /oauth/token": func(*accessScene) accessAsk {
		return accessAsk{"/oauth/token", obj{"grant_type": "client_credentials"}}
	},
	"GET /.well-known/oauth-authorization-server": plainAsk("/.well-known/oauth-authorization-server"),
	"GET /.well-known/jwks.json":                  plainAsk("/.well-known/jwks.json"),

	"POST /messages": func(c *accessScene) accessAsk { return accessAsk{"/messages", kit.ToHandle(c.newRecipient().Handle)} },
	"POST /messages/sync": func(c *accessScene) accessAsk {
		return accessAsk{"/messages/sync?timeout_ms=1000", kit.ToHandle(c.newRecipient().Handle)}
	},
	"GET /messages/{id}": func(c *accessScene) accessAsk { return accessAsk{"/messages/" + kit.Text(c.message(), "id"), nil} },
	"POST /messages/{id}/reply": func(c *accessScene) accessAsk {
		return accessAsk{"/messages/" + kit.Text(c.message(), "id") + "/reply", obj{"type": "svc.v1.dm", "encrypted_payload": "QQ"}}
	},
	"POST /messages/{id}/read": func(c *accessScene) accessAsk {
		return accessAsk{"/messages/" + kit.Text(c.message(), "id") + "/read", nil}
	},
	"GET /messages/{id}/receipt": func(c *accessScene) accessAsk {
		return accessAsk{"/messages/" + kit.Text(c.message(), "id") + "/receipt", nil}
	},
	"GET /messages/{id}/trace": func(c *accessScene) accessAsk {
		return accessAsk{"/messages/" + kit.Text(c.message(), "id") + "/trace", nil}
	},
	"POST /agents/{id}/messages/ack": agentAsk("/messages/ack", obj{"ids": []string{}}),
	"GET /agents/{id}/wait":          agentAsk("/wait?timeout_ms=1000", nil),

	"GET /agents/{id}/messages": agentAsk("/messages", nil),
	"GET /agents/{id}/stream":   agentAsk("/stream", nil),
	"GET /conversations/{id}/messages": func(c *accessScene) accessAsk {
		return accessAsk{"/conversations/" + kit.Text(c.message(), "conversation_id") + "/messages", nil}
	},
	"GET /poll/{token}":              func(c *accessScene) accessAsk { return accessAsk{strings.TrimPrefix(c.alice.PollURL, c.s.Base), nil} },
	"POST /agents/{id}/poll-token":   agentAsk("/poll-token", nil),
	"DELETE /agents/{id}/poll-token": agentAsk("/poll-token", nil),

	"PUT /agents/{id}/card": agentAsk("/card", kit.PlainCard()),
	"GET /agents/{id}/card": func(c *accessScene) accessAsk {
		g := c.victim()
		g.Put(g.Path("/card"), kit.PlainCard()).Want(200)
		return accessAsk{g.Path("/card"), nil}
	},
	"DELETE /agents/{id}/card": agentAsk("/card", nil),

	"GET /agents":           plainAsk("/agents"),
	"POST /agents":          func(*accessScene) accessAsk { return accessAsk{"/agents", kit.NewAgent("a" + kit.RandomHex(6))} },
	"GET /agents/keys":      func(c *accessScene) accessAsk { return accessAsk{"/agents/keys?ids=" + c.alice.ID, nil} },
	"GET /agents/{id}":      agentAsk("", nil),
	"PATCH /agents/{id}":    agentAsk("", obj{"unlisted": true}),
	"DELETE /agents/{id}":   agentAsk("", nil),
	"GET /agents/{id}/keys": agentAsk("/keys", nil),
	"POST /agents/{id}/keys": func(c *accessScene) accessAsk {
		return accessAsk{c.victim().Path("/keys"), kit.Without(kit.NewAgent(""), "name")}
	},
	"POST /agents/{id}/keys/retire": func(c *accessScene) accessAsk {
		g := c.victim()
		g.Post(g.Path("/keys"), obj{"signing_public_key": kit.SignJWK(kit.NewPair().Sign)}).Want(200)
		return accessAsk{g.Path("/keys/retire"), obj{"kid": g.SignKid()}}
	},
	"POST /agents/{id}/keys/pq":   agentAsk("/keys/pq", obj{"pq_public_key": kit.KEMKey()}),
	"DELETE /agents/{id}/keys/pq": agentAsk("/keys/pq", nil),
	"POST /agents/{id}/mls/key-packages": func(c *accessScene) accessAsk {
		g := c.victim()
		return accessAsk{g.Path("/mls/key-packages"), obj{"key_packages": []any{grouptest.KeyPackage(g)}}}
	},
	"GET /agents/{id}/mls/key-packages/count": agentAsk("/mls/key-packages/count", nil),
	"PUT /agents/{id}/key-binding": func(c *accessScene) accessAsk {
		g := c.victim()
		return accessAsk{g.Path("/key-binding"), g.Binding(g.Pair(), nil, kit.Instant(0))}
	},
	"POST /agents/{id}/verify-svid/challenge": agentAsk("/verify-svid/challenge", nil),
	"POST /agents/{id}/verify-svid":           agentAsk("/verify-svid", obj{"challenge_id": kit.Nobody, "jwt_svid": "x"}),
	"GET /agents/{id}/key-bindings":           agentAsk("/key-bindings", nil),
	"GET /agents/{name}/did.json":             agentAsk("/did.json", nil),
	"GET /agents/{id}/key-log":                agentAsk("/key-log", nil),
	"GET /key-log":                            plainAsk("/key-log"),
	"GET /key-log/checkpoint":                 plainAsk("/key-log/checkpoint"),
	"GET /key-log/proofs/inclusion":           plainAsk("/key-log/proofs/inclusion?index=0&size=1"),
	"GET /key-log/proofs/consistency":         plainAsk("/key-log/proofs/consistency?from=1&to=1"),
	"GET /.well-known/agent-cards/{id}.json": func(c *accessScene) accessAsk {
		g := c.victim()
		g.Put(g.Path("/card"), kit.Merged(kit.PlainCard(), obj{"is_public": true})).Want(200)
		return accessAsk{kit.WellKnownCard(g), nil}
	},
	"POST /a2a/{handle}": func(c *accessScene) accessAsk {
		g := c.newRecipient()
		g.Put(g.Path("/card"), kit.BridgedCard()).Want(200)
		task := kit.Text(c.alice.Send(g), "conversation_id")
		return accessAsk{"/a2a/" + g.ID, obj{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": obj{"id": task}}}
	},
	"GET /a2a/{handle}/agent.json":                  bridgeAsk("/agent.json"),
	"GET /a2a/{handle}/.well-known/agent-card.json": bridgeAsk("/.well-known/agent-card.json"),
	"GET /ext/{brand}/v1":                           plainAsk("/ext/svc/v1"),

	"GET /directory/agents":        plainAsk("/directory/agents?limit=1"),
	"GET /directory/agents/stream": plainAsk("/directory/agents/stream?limit=1"),
	"GET /directory/agents/{id}": func(c *accessScene) accessAsk {
		g := c.victim()
		g.Put(g.Path("/card"), kit.Merged(kit.PlainCard(), obj{"is_public": true})).Want(200)
		return accessAsk{"/directory/agents/" + g.ID, nil}
	},
	"GET /directory/categories": plainAsk("/directory/categories"),
	"GET /.well-known/webfinger": func(c *accessScene) accessAsk {
		return accessAsk{"/.well-known/webfinger?resource=acct:" + c.alice.Handle, nil}
	},
	"GET /agents/{id}/conversations": agentAsk("/conversations", nil),
	"PUT /agents/{id}/blocks/{other}": func(c *accessScene) accessAsk {
		return accessAsk{c.victim().Path("/blocks/" + c.alice.ID), nil}
	},
	"DELETE /agents/{id}/blocks/{other}": func(c *accessScene) accessAsk {
		return accessAsk{c.victim().Path("/blocks/" + c.alice.ID), nil}
	},
	"GET /agents/{id}/blocks": agentAsk("/blocks", nil),

	"GET /org":              plainAsk("/org"),
	"PATCH /org":            func(*accessScene) accessAsk { return accessAsk{"/org", obj{"country_code": "FR"}} },
	"GET /org/quotas":       plainAsk("/org/quotas"),
	"POST /org/credentials": plainAsk("/org/credentials"),
	"GET /org/credentials":  plainAsk("/org/credentials"),
	"POST /reports": func(c *accessScene) accessAsk {
		return accessAsk{"/reports", obj{"category": "other", "message_id": c.message()["id"]}}
	},
	"DELETE /orgs/{id}": func(*accessScene) accessAsk { // of nobody in the scene, who are needed
		return accessAsk{"/orgs/01900000-0000-7000-8000-000000000000", nil}
	},
	"DELETE /org/credentials/{client_id}": func(c *accessScene) accessAsk {
		c.spare = c.alice.Post("/org/credentials", nil).Want(201).Str("client_id")
		return accessAsk{"/org/credentials/" + c.spare, nil}
	},

	"GET /conversations/{id}": func(c *accessScene) accessAsk {
		return accessAsk{"/conversations/" + kit.Text(c.message(), "conversation_id"), nil}
	},
	"GET /conversations/{id}/participants": func(c *accessScene) accessAsk {
		return accessAsk{"/conversations/" + kit.Text(c.message(), "conversation_id") + "/participants", nil}
	},
	"PATCH /conversations/{id}/status": func(c *accessScene) accessAsk {
		return accessAsk{"/conversations/" + kit.Text(c.message(), "conversation_id") + "/status", obj{"status": "failed"}}
	},

	"GET /":       plainAsk("/"),
	"GET /health": plainAsk("/health"),
	"GET /readyz": plainAsk("/readyz"),
	// Of the counterpart: two exports of one organization would be one too many.
	"GET /orgs/{id}/export": func(c *accessScene) accessAsk { return accessAsk{"/orgs/" + c.bob.Org.ID + "/export", nil} },
	"GET /compliance/info":  plainAsk("/compliance/info"),
	"GET /llms.txt":         plainAsk("/llms.txt"),
	"GET /version":          plainAsk("/version"),
	"GET /openapi.json":     plainAsk("/openapi.json"),
	"GET /docs":             plainAsk("/docs"),
	"GET /docs/{file}":      plainAsk("/docs/page.css"),

	"GET /find/agents":   plainAsk("/find/agents"),
	"GET /find/groups":   plainAsk("/find/groups"),
	"GET /a/{handle}":    plainAsk("/a/nobody@nowhere.localhost"),
	"GET /g/{handle}":    plainAsk("/g/nobody@nowhere.localhost"),
	"GET /assets/{file}": plainAsk("/assets/unknown.css"),
}

func plainAsk(path string) func(*accessScene) accessAsk {
	return func(*accessScene) accessAsk { return accessAsk{path, nil} }
}

// agentAsk requests an agent of the owner that no other cell uses.
func agentAsk(rest string, body any) func(*accessScene) accessAsk {
	return func(c *accessScene) accessAsk { return accessAsk{c.victim().Path(rest), body} }
}

func bridgeAsk(suffix string) func(*accessScene) accessAsk {
	return func(c *accessScene) accessAsk {
		g := c.victim()
		g.Put(g.Path("/card"), kit.BridgedCard()).Want(200)
		return accessAsk{"/a2a/" + g.Handle + suffix, nil}
	}
}
