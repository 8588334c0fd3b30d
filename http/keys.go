package http

import (
	"errors"
	"strings"

	"parley"
	"parley/actors/agent"
	"parley/http/api"
	"parley/http/auth"
)

// rawKeys are uploaded public keys, nil where none was sent.
type rawKeys struct{ signing, encryption []byte }

// readKeys judges uploaded keys: on their curve, canonical, not of low order,
// and without a private half.
func readKeys(signing, encryption *api.JWK) (keys rawKeys, err error) {
	faults := &schemaError{}
	keys.signing = readKey(signing, parley.Ed25519, "signing_public_key", faults)
	keys.encryption = readKey(encryption, parley.X25519, "encryption_public_key", faults)
	if signing == nil && encryption == nil {
		faults.faults = append(faults.faults, FieldError{
			Loc: []any{"body", "signing_public_key"}, Msg: "Value error, at least one key is required", Type: faultValue,
		})
	}
	if len(faults.faults) > 0 {
		return rawKeys{}, faults
	}
	return keys, nil
}

func readKey(k *api.JWK, curve, member string, faults *schemaError) []byte {
	if k == nil {
		return nil
	}
	raw, err := auth.ParseKey(curve, k.KeyType, k.Curve, k.X, k.Private())
	bad := (*auth.KeyError)(nil)
	switch {
	case errors.As(err, &bad):
		faults.faults = append(faults.faults, FieldError{
			Loc: []any{"body", member, bad.Member}, Msg: "Value error, " + bad.Text, Type: faultValue,
		})
	case err != nil:
		faults.faults = append(faults.faults, FieldError{Loc: []any{"body", member}, Msg: "Value error, " + err.Error(), Type: faultValue})
	}
	return raw
}

// getKeys are the public keys of an active agent, by id or handle; with kid,
// the key of that thumbprint stands in place of the current one of its kind,
// former keys included. // spec: Agents
func (s *Service) getKeys(c *Call, in *api.GetKeys) (api.AgentKeys, error) {
	a, err := s.publicAgent(c, in.ID)
	if err != nil {
		return api.AgentKeys{}, err
	}
	keys, err := s.keysOf(c, a)
	if err != nil || in.Kid == nil {
		return keys, err
	}
	curve, raw, found := a.KeyByKid(*in.Kid)
	if !found {
		return api.AgentKeys{}, parley.ErrNotFound.Saying("The agent never had a key of this thumbprint.")
	}
	if curve == parley.Ed25519 {
		keys.SigningPublicKey = new(api.NewJWK(curve, raw))
	} else {
		keys.EncryptionPublicKey = new(api.NewJWK(curve, raw))
	}
	return keys, nil
}

// publicAgent is an active agent that anyone may name, by exact id or handle.
func (s *Service) publicAgent(c *Call, name string) (a *agent.State, err error) {
	if strings.Contains(name, "@") {
		if a, err = s.agentByHandle(c, name); errors.Is(err, parley.ErrBadHandle) {
			return nil, parley.ErrBadHandle.With("loc", []any{"path", "id"})
		}
	} else {
		id, malformed := parley.ParseID[parley.AgentID](name)
		if malformed != nil {
			return nil, &schemaError{[]FieldError{{Loc: []any{"path", "id"}, Msg: msgUUID, Type: faultUUIDParsing}}}
		}
		a, err = s.Node.Agent(c.Context(), id)
	}
	if errors.Is(err, parley.ErrNotFound) || (err == nil && a.Revoked()) {
		return nil, errUnknownAgent
	}
	return a, err
}

func (s *Service) keysOf(c *Call, a *agent.State) (api.AgentKeys, error) {
	handle, err := s.handle(c.Context(), a)
	return api.AgentKeys{
		AgentID: a.AgentID(), Handle: &handle,
		SigningPublicKey:    new(api.NewJWK(parley.Ed25519, a.GetSigningKey())),
		EncryptionPublicKey: new(api.NewJWK(parley.X25519, a.GetEncryptionKey())),
	}, err
}

// batchKeys are the keys of several agents; those unknown or revoked are left out.
func (s *Service) batchKeys(c *Call, in *api.GetBatchKeys) (api.BatchKeys, error) {
	batch := api.BatchKeys{Keys: map[parley.AgentID]api.AgentKeys{}}
	for _, id := range in.IDs {
		a, err := s.Node.Agent(c.Context(), id)
		if errors.Is(err, parley.ErrNotFound) || (err == nil && a.Revoked()) {
			continue
		}
		if err != nil {
			return api.BatchKeys{}, err
		}
		if batch.Keys[id], err = s.keysOf(c, a); err != nil {
			return api.BatchKeys{}, err
		}
	}
	return batch, nil
}
