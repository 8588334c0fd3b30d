package agents

import (
	"bytes"
	"errors"
	"time"

	"parley/actors/agent"
	"parley/client/api"
	"parley/http/auth"
	"parley/http/limit"
	"parley/http/rest"
)

// An organization sets at most pqKeysMax post-quantum keys of one agent in any pqKeysWindow:
// each is an entry of the key log, which is kept for good. // docs: limits.md
const (
	pqKeysMax    = 20
	pqKeysWindow = time.Hour
)

// SetPQ gives an agent a post-quantum key. The server does not require that the X25519
// half of an X-Wing key is the agent's encryption key; clients do, before they seal to it.
// // docs: encryption.md
func (s Keys) SetPQ(c *rest.Call, in *api.SetPQKey) (api.Agent, error) {
	k := in.PQPublicKey
	raw, err := auth.ParsePQKey(k.KeyType, k.Algorithm, k.Pub, k.Private())
	if bad := (*auth.KeyError)(nil); errors.As(err, &bad) {
		return api.Agent{}, &rest.SchemaError{Faults: []rest.FieldError{{
			Loc: []any{"body", "pq_public_key", bad.Member}, Msg: "Value error, " + bad.Text, Type: rest.FaultValue,
		}}}
	}
	if err != nil {
		return api.Agent{}, err
	}
	pair := append(bytes.Clone(c.Caller.Org[:]), in.ID[:]...)
	if standing := limit.TakeAll(limit.Draw{Window: s.pqKeys, Key: string(pair)}); !standing.OK {
		return api.Agent{}, c.SetRate(standing)
	}
	return Agents(s).changeAgent(c, in.ID, agent.SetPQKey{Algorithm: k.Algorithm, Raw: raw})
}

// RemovePQ removes an agent's post-quantum key.
func (s Keys) RemovePQ(c *rest.Call, in *api.RemovePQKey) (rest.NoContent, error) {
	_, err := Agents(s).changeAgent(c, in.ID, agent.RemovePQKey{})
	return rest.NoContent{}, err
}
