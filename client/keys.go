package client

import (
	"context"
	"fmt"

	"parley/client/api"
	"parley/client/parley"
)

// Keys makes the calls about the public keys of agents.
type Keys struct{ s *Session }

// Get returns the public keys of any active agent, by id or handle. With a kid, that key
// replaces the current one of its kind, even if it is a former key. No credentials are
// needed.
func (k Keys) Get(ctx context.Context, agent, kid string) (*api.AgentKeys, error) {
	return keysAt[api.AgentKeys](ctx, k.s, agent, kid)
}

// Record returns a current or former key of an agent, and the time in which it was
// current. No credentials are needed.
func (k Keys) Record(ctx context.Context, agent, kid string) (*api.KeyRecord, error) {
	return keysAt[api.KeyRecord](ctx, k.s, agent, kid)
}

func keysAt[T any](ctx context.Context, s *Session, agent, kid string) (*T, error) {
	in := api.GetKeys{ID: agent}
	if kid != "" {
		in.Kid = &kid
	}
	return fetch[T](ctx, s, get("/agents/{id}/keys").forAnyone(), in)
}

// Batch returns the keys of at most 200 agents. Revoked and unknown ones are left out. No
// credentials are needed.
func (k Keys) Batch(ctx context.Context, ids ...parley.AgentID) (map[parley.AgentID]api.AgentKeys, error) {
	out, err := fetch[api.BatchKeys](ctx, k.s, get("/agents/keys").forAnyone(), api.GetBatchKeys{IDs: ids})
	if err != nil {
		return nil, err
	}
	return out.Keys, nil
}

// Rotate uploads one new public key of an agent or both. It is safe to repeat with the
// same keys. See Agent.RotateKeys, which also creates and stores them.
func (k Keys) Rotate(ctx context.Context, in api.UploadKeys) (*api.Agent, error) {
	return fetch[api.Agent](ctx, k.s, post("/agents/{id}/keys").idempotent(), in)
}

// SetPQ gives an agent a post-quantum key, in place of any other. It is safe to repeat.
func (k Keys) SetPQ(ctx context.Context, in api.SetPQKey) (*api.Agent, error) {
	return fetch[api.Agent](ctx, k.s, post("/agents/{id}/keys/pq").idempotent(), in)
}

// RemovePQ removes an agent's post-quantum key.
func (k Keys) RemovePQ(ctx context.Context, id parley.AgentID) error {
	return k.s.exec(ctx, remove("/agents/{id}/keys/pq").idempotent(), api.RemovePQKey{ID: id})
}

// Retire marks a former key of an agent as untrusted from now on.
func (k Keys) Retire(ctx context.Context, in api.RetireKey) (*api.KeyRecord, error) {
	return fetch[api.KeyRecord](ctx, k.s, post("/agents/{id}/keys/retire").idempotent(), in)
}

// Bind publishes a binding of the agent's current keys that was made elsewhere. See
// Agent.BindKeys, which makes it.
func (k Keys) Bind(ctx context.Context, in api.BindKeys) (*api.KeyBinding, error) {
	out, err := fetch[api.BoundKeys](ctx, k.s, put("/agents/{id}/key-binding"), in)
	if err != nil {
		return nil, err
	}
	return &out.KeyBinding, nil
}

// bindingsMax bounds how many bindings of one agent are read.
const bindingsMax = 2000

// Bindings returns all bindings of an agent's keys, oldest first. No credentials are
// needed.
func (k Keys) Bindings(ctx context.Context, agent string) (found []api.KeyBinding, err error) {
	page := func(ctx context.Context, in api.GetKeyBindings) (*api.Page[api.KeyBinding], error) {
		return fetch[api.Page[api.KeyBinding]](ctx, k.s, get("/agents/{id}/key-bindings").forAnyone(), in)
	}
	for b, err := range All(ctx, page, api.GetKeyBindings{ID: agent, Limit: 200}) {
		if err != nil {
			return nil, fmt.Errorf("key bindings of %s: %w", agent, err)
		}
		if found = append(found, b); len(found) > bindingsMax {
			return nil, fmt.Errorf("key bindings of %s: more than %d", agent, bindingsMax)
		}
	}
	return found, nil
}
