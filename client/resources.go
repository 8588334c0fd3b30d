package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"parley/client/api"
	"parley/client/parley"
)

// fetch makes a call whose answer is a T.
func fetch[T any](ctx context.Context, c *Client, k call) (*T, error) {
	out := new(T)
	if _, err := c.do(ctx, k, out); err != nil {
		return nil, err
	}
	return out, nil
}

// erase makes a DELETE call without an answer.
func (c *Client) erase(ctx context.Context, path string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: path}, nil)
	return err
}

// Org returns the organization's own record.
func (c *Client) Org(ctx context.Context) (*api.Org, error) {
	return fetch[api.Org](ctx, c, get("/org"))
}

// UpdateOrg changes the organization.
func (c *Client) UpdateOrg(ctx context.Context, in api.OrgPatch) (*api.Org, error) {
	return fetch[api.Org](ctx, c, call{method: http.MethodPatch, path: "/org", in: in})
}

// Quotas returns the organization's limits and their use.
func (c *Client) Quotas(ctx context.Context) (*api.Quotas, error) {
	return fetch[api.Quotas](ctx, c, get("/org/quotas"))
}

// CreateCredentials creates another pair of credentials; the first stays valid.
func (c *Client) CreateCredentials(ctx context.Context) (*Credentials, error) {
	return fetch[Credentials](ctx, c, call{method: http.MethodPost, path: "/org/credentials", in: api.CreateCredentials{}})
}

// DeleteCredentials revokes a pair of credentials and the tokens issued for it.
func (c *Client) DeleteCredentials(ctx context.Context, id parley.ClientID) error {
	return c.erase(ctx, "/org/credentials/"+id.String())
}

// CreateAgent creates an agent whose keys the caller has. PollURL is returned only here.
// See NewAgent, which also creates the keys.
func (c *Client) CreateAgent(ctx context.Context, in api.CreateAgent) (*api.Agent, error) {
	return fetch[api.Agent](ctx, c, call{method: http.MethodPost, path: "/agents", in: in})
}

// Agents returns the organization's agents, oldest first.
func (c *Client) Agents(ctx context.Context, in api.ListAgents) ([]api.Agent, error) {
	k := get("/agents")
	if in.IncludeRevoked {
		k.query = url.Values{"include_revoked": {"true"}}
	}
	out, err := fetch[[]api.Agent](ctx, c, k)
	if err != nil {
		return nil, err
	}
	return *out, nil
}

// Agent returns one agent of the organization.
func (c *Client) Agent(ctx context.Context, id parley.AgentID) (*api.Agent, error) {
	return fetch[api.Agent](ctx, c, get("/agents/"+id.String()))
}

// UpdateAgent changes the agent in.ID.
func (c *Client) UpdateAgent(ctx context.Context, in api.AgentPatch) (*api.Agent, error) {
	return fetch[api.Agent](ctx, c, call{method: http.MethodPatch, path: "/agents/" + in.ID.String(), in: in})
}

// EraseOrg erases the organization of the client and everything that belongs to it, for
// good. It returns when that is complete. Repeating it with the same access token gives the
// same result.
func (c *Client) EraseOrg(ctx context.Context, id parley.OrgID) (*api.Erasure, error) {
	return fetch[api.Erasure](ctx, c, call{method: http.MethodDelete, path: "/orgs/" + id.String(), repeatable: true})
}

// RevokeAgent permanently revokes an agent. Repeating it has no effect.
func (c *Client) RevokeAgent(ctx context.Context, id parley.AgentID) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: "/agents/" + id.String(), repeatable: true}, nil)
	return err
}

// Keys returns the public keys of any active agent, by id or handle. With a kid, that key
// replaces the current one of its kind, even if it is a former key. No credentials are
// needed.
func (c *Client) Keys(ctx context.Context, agent, kid string) (*api.AgentKeys, error) {
	k := get("/agents/" + url.PathEscape(agent) + "/keys")
	k.public = true
	if kid != "" {
		k.query = url.Values{"kid": {kid}}
	}
	return fetch[api.AgentKeys](ctx, c, k)
}

// BatchKeys returns the keys of at most 200 agents. Revoked and unknown ones are left
// out. No credentials are needed.
func (c *Client) BatchKeys(ctx context.Context, ids ...parley.AgentID) (map[parley.AgentID]api.AgentKeys, error) {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	k := get("/agents/keys")
	k.public, k.query = true, url.Values{"ids": {strings.Join(texts, ",")}}
	out, err := fetch[api.BatchKeys](ctx, c, k)
	if err != nil {
		return nil, err
	}
	return out.Keys, nil
}

// RotateKeys uploads one new public key of an agent or both. It is safe to repeat with
// the same keys. See Agent.RotateKeys, which also creates and stores them.
func (c *Client) RotateKeys(ctx context.Context, in api.UploadKeys) (*api.Agent, error) {
	return fetch[api.Agent](ctx, c, call{method: http.MethodPost, path: "/agents/" + in.ID.String() + "/keys", in: in, repeatable: true})
}

// SetPQKey gives an agent a post-quantum key, in place of any other. It is safe to repeat.
func (c *Client) SetPQKey(ctx context.Context, in api.SetPQKey) (*api.Agent, error) {
	return fetch[api.Agent](ctx, c, call{method: http.MethodPost, path: "/agents/" + in.ID.String() + "/keys/pq", in: in, repeatable: true})
}

// RemovePQKey removes an agent's post-quantum key.
func (c *Client) RemovePQKey(ctx context.Context, id parley.AgentID) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: "/agents/" + id.String() + "/keys/pq", repeatable: true}, nil)
	return err
}

// PollToken replaces an agent's poll token and returns the poll address. The former token
// stops working.
func (c *Client) PollToken(ctx context.Context, id parley.AgentID) (string, error) {
	out, err := fetch[api.PollToken](ctx, c, call{method: http.MethodPost, path: "/agents/" + id.String() + "/poll-token", in: struct{}{}})
	if err != nil {
		return "", err
	}
	return out.PollURL, nil
}

// DeletePollToken revokes an agent's poll token.
func (c *Client) DeletePollToken(ctx context.Context, id parley.AgentID) error {
	return c.erase(ctx, "/agents/"+id.String()+"/poll-token")
}

// Poll returns the number of an agent's messages since in.Since (default: the last 24
// hours). Its token is a poll token or a whole poll address. No credentials are needed.
func (c *Client) Poll(ctx context.Context, in api.Poll) (int, error) {
	token := in.Token[strings.LastIndexByte(in.Token, '/')+1:]
	k := get("/poll/" + url.PathEscape(token))
	k.public = true
	if in.Since != nil {
		k.query = url.Values{"since": {in.Since.String()}}
	}
	out, err := fetch[api.PollCount](ctx, c, k)
	if err != nil {
		return 0, err
	}
	return out.Count, nil
}

// Health returns the server's health. For an unhealthy server it returns both the report
// and an Error with status 503.
func (c *Client) Health(ctx context.Context) (*api.Health, error) {
	k := get("/health")
	k.public, k.repeatable = true, false
	out, err := fetch[api.Health](ctx, c, k)
	var e *Error
	if errors.As(err, &e) && e.Status == http.StatusServiceUnavailable {
		var report api.Health
		if json.Unmarshal(e.body, &report) == nil && report.Status != "" {
			return &report, err
		}
	}
	return out, err
}

// Version returns the server's version.
func (c *Client) Version(ctx context.Context) (*api.Version, error) {
	k := get("/version")
	k.public = true
	return fetch[api.Version](ctx, c, k)
}

// ComplianceInfo returns the service's transparency notice.
func (c *Client) ComplianceInfo(ctx context.Context) (*api.ComplianceInfo, error) {
	k := get("/compliance/info")
	k.public = true
	return fetch[api.ComplianceInfo](ctx, c, k)
}

func setInt(q url.Values, name string, value int) {
	if value != 0 {
		q.Set(name, strconv.Itoa(value))
	}
}

func setText(q url.Values, name string, value *string) {
	if value != nil {
		q.Set(name, *value)
	}
}
