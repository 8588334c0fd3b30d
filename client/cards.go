package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"parley/client/api"
	"parley/client/parley"
)

// PutCard publishes the card of the agent in.ID, in place of any it had before. It is
// safe to repeat.
func (c *Client) PutCard(ctx context.Context, in api.PutCard) (*api.Card, error) {
	document, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("marshal card: %w", err)
	}
	return c.PutCardJSON(ctx, in.ID, api.Rebrand(document, api.DefaultBrand, c.brand))
}

// PutCardJSON publishes a card that is JSON already. Its extension has the server's brand
// as its name.
func (c *Client) PutCardJSON(ctx context.Context, id parley.AgentID, document []byte) (*api.Card, error) {
	return c.card(ctx, call{method: http.MethodPut, path: cardPath(id.String()), raw: document, repeatable: true})
}

// Card returns the card of any active agent, by id or handle. No credentials are needed.
func (c *Client) Card(ctx context.Context, agent string) (*api.Card, error) {
	k := get(cardPath(agent))
	k.public = true
	return c.card(ctx, k)
}

// DeleteCard deletes an agent's card. Repeating it has no effect.
func (c *Client) DeleteCard(ctx context.Context, id parley.AgentID) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: cardPath(id.String()), repeatable: true}, nil)
	return err
}

// card makes a call whose answer is a card.
func (c *Client) card(ctx context.Context, k call) (*api.Card, error) {
	body, err := fetch[json.RawMessage](ctx, c, k)
	if err != nil {
		return nil, err
	}
	card := &api.Card{}
	if err := json.Unmarshal(api.Rebrand(*body, c.brand, api.DefaultBrand), card); err != nil {
		return nil, fmt.Errorf("%s %s: read answer: %w", k.method, k.path, err)
	}
	return card, nil
}

func cardPath(agent string) string { return "/agents/" + url.PathEscape(agent) + "/card" }
