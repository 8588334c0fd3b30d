package client

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"parley/client/api"
	"parley/client/parley"
)

// Agents makes the calls about the organization's agents and their cards.
type Agents struct{ s *Session }

// Create creates an agent whose keys the caller has. PollURL is returned only here. See
// NewAgent, which also creates the keys.
func (a Agents) Create(ctx context.Context, in api.CreateAgent) (*api.Agent, error) {
	return fetch[api.Agent](ctx, a.s, post("/agents"), in)
}

// List returns the organization's agents, oldest first.
func (a Agents) List(ctx context.Context, in api.ListAgents) ([]api.Agent, error) {
	return array[api.Agent](ctx, a.s, get("/agents"), in)
}

// Get returns one agent of the organization.
func (a Agents) Get(ctx context.Context, id parley.AgentID) (*api.Agent, error) {
	return fetch[api.Agent](ctx, a.s, get("/agents/{id}"), api.GetAgent{ID: id})
}

// Update changes the agent in.ID.
func (a Agents) Update(ctx context.Context, in api.AgentPatch) (*api.Agent, error) {
	return fetch[api.Agent](ctx, a.s, patch("/agents/{id}"), in)
}

// Revoke permanently revokes an agent. Repeating it has no effect.
func (a Agents) Revoke(ctx context.Context, id parley.AgentID) error {
	return a.s.exec(ctx, remove("/agents/{id}").idempotent(), api.DeleteAgent{ID: id})
}

// PollToken replaces an agent's poll token and returns the poll address. The former token
// stops working.
func (a Agents) PollToken(ctx context.Context, id parley.AgentID) (string, error) {
	out, err := fetch[api.PollToken](ctx, a.s, post("/agents/{id}/poll-token"), api.CreatePollToken{ID: id})
	if err != nil {
		return "", err
	}
	return out.PollURL, nil
}

// DeletePollToken revokes an agent's poll token.
func (a Agents) DeletePollToken(ctx context.Context, id parley.AgentID) error {
	return a.s.exec(ctx, remove("/agents/{id}/poll-token"), api.DeletePollToken{ID: id})
}

// Poll returns the number of an agent's messages since in.Since (default: the last 24
// hours). Its token is a poll token or a whole poll address. No credentials are needed.
func (a Agents) Poll(ctx context.Context, in api.Poll) (int, error) {
	in.Token = in.Token[strings.LastIndexByte(in.Token, '/')+1:]
	out, err := fetch[api.PollCount](ctx, a.s, get("/poll/{token}").forAnyone(), in)
	if err != nil {
		return 0, err
	}
	return out.Count, nil
}

// PutCard publishes the card of the agent in.ID, in place of any it had before. It is
// safe to repeat.
func (a Agents) PutCard(ctx context.Context, in api.PutCard) (*api.Card, error) {
	document, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("marshal card: %w", err)
	}
	return a.PutCardJSON(ctx, in.ID, api.Rebrand(document, api.DefaultBrand, a.s.brand))
}

// PutCardJSON publishes a card that is JSON already. Its extension has the server's brand
// as its name.
func (a Agents) PutCardJSON(ctx context.Context, id parley.AgentID, document []byte) (*api.Card, error) {
	k := a.s.call(put("/agents/{id}/card").idempotent(), api.GetCard{ID: id.String()})
	k.raw = document
	return branded[api.Card](ctx, a.s, k)
}

// Card returns the card of any active agent, by id or handle. No credentials are needed.
func (a Agents) Card(ctx context.Context, agent string) (*api.Card, error) {
	return branded[api.Card](ctx, a.s, a.s.call(get("/agents/{id}/card").forAnyone(), api.GetCard{ID: agent}))
}

// DeleteCard deletes an agent's card. Repeating it has no effect.
func (a Agents) DeleteCard(ctx context.Context, id parley.AgentID) error {
	return a.s.exec(ctx, remove("/agents/{id}/card").idempotent(), api.DeleteCard{ID: id})
}
