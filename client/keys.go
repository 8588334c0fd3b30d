package client

import (
	"context"
	"fmt"

	"parley/client/api"
	"parley/client/parley"
)

// Keys makes the calls about the public keys of agents.
type Keys struct {
	// Rotate uploads one new public key of an agent or both. It is safe to repeat with the
	// same keys. See Agent.RotateKeys, which also creates and stores them.
	Rotate Call[api.UploadKeys, api.Agent] `call:"POST /agents/{id}/keys repeatable"`
	// SetPQ gives an agent a post-quantum key, in place of any other. It is safe to repeat.
	SetPQ Call[api.SetPQKey, api.Agent] `call:"POST /agents/{id}/keys/pq repeatable"`
	// RemovePQ removes an agent's post-quantum key.
	RemovePQ Command[parley.AgentID] `call:"DELETE /agents/{id}/keys/pq repeatable"`
	// Retire marks a former key of an agent as untrusted from now on.
	Retire Call[api.RetireKey, api.KeyRecord] `call:"POST /agents/{id}/keys/retire repeatable"`
	// Bind publishes a binding of the agent's current keys that was made elsewhere. See
	// package e2ee, which makes it.
	Bind Call[api.BindKeys, api.BoundKeys] `call:"PUT /agents/{id}/key-binding"`

	s *Session
}

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
