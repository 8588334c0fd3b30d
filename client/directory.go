package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strconv"

	"parley/client/api"
	"parley/client/parley"
)

// FindAgents returns a page of the public cards that in describes. No credentials are
// needed, as for all calls about the directory.
func (c *Client) FindAgents(ctx context.Context, in api.FindAgents) (*api.AgentPage, error) {
	k := get("/directory/agents")
	k.public, k.query = true, url.Values{}
	setText(k.query, "q", in.Q)
	setText(k.query, "query", in.Query)
	setText(k.query, "semantic", in.Semantic)
	for name, values := range map[string][]string{"category": in.Category, "tag": in.Tag, "language": in.Language} {
		for _, value := range values {
			k.query.Add(name, value)
		}
	}
	setText(k.query, "jurisdiction", in.Jurisdiction)
	setText(k.query, "message_type", in.MessageType)
	if in.OrgID != nil {
		k.query.Set("org_id", in.OrgID.String())
	}
	if in.Verified != nil {
		k.query.Set("verified", strconv.FormatBool(*in.Verified))
	}
	setText(k.query, "pricing_model", in.PricingModel)
	setInt(k.query, "limit", in.Limit)
	setText(k.query, "cursor", in.Cursor)
	if in.Sort != "" {
		k.query.Set("sort", in.Sort)
	}
	return fetch[api.AgentPage](ctx, c, k)
}

// FindAgentsAll returns all of them. It ends after the first error.
func (c *Client) FindAgentsAll(ctx context.Context, in api.FindAgents) iter.Seq2[api.AgentRow, error] {
	return pages(in.Cursor, func(cursor *string) (*api.Page[api.AgentRow], error) {
		in.Cursor = cursor
		p, err := c.FindAgents(ctx, in)
		if err != nil {
			return nil, err
		}
		return &api.Page[api.AgentRow]{Items: p.Items, NextCursor: p.NextCursor, HasMore: p.HasMore}, nil
	})
}

// ListedAgent returns an agent of the directory, with its card.
func (c *Client) ListedAgent(ctx context.Context, id parley.AgentID) (*api.ListedAgent, error) {
	k := get("/directory/agents/" + id.String())
	k.public = true
	body, err := fetch[json.RawMessage](ctx, c, k)
	if err != nil {
		return nil, err
	}
	listed := &api.ListedAgent{}
	if err := json.Unmarshal(api.Rebrand(*body, c.brand, api.DefaultBrand), listed); err != nil {
		return nil, fmt.Errorf("%s %s: read answer: %w", k.method, k.path, err)
	}
	return listed, nil
}

// Categories returns the categories of all public cards, the most frequent first.
func (c *Client) Categories(ctx context.Context) ([]api.CategoryCount, error) {
	k := get("/directory/categories")
	k.public = true
	all, err := fetch[[]api.CategoryCount](ctx, c, k)
	if err != nil {
		return nil, err
	}
	return *all, nil
}
