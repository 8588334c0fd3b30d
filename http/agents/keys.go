package agents

import (
	"encoding/base64"
	"errors"
	"strings"

	"parley/actors/agent"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/auth"
	"parley/http/rest"
	"parley/http/view"
	"parley/journal"
)

// rawKeys are uploaded public keys. A key is nil if it was not sent.
type rawKeys struct{ signing, encryption []byte }

// readKeys validates uploaded keys: on their curve, canonical, not of low order, and
// without a private half.
func readKeys(signing, encryption *api.JWK) (keys rawKeys, err error) {
	faults := &rest.SchemaError{}
	keys.signing = readKey(signing, parley.Ed25519, "signing_public_key", faults)
	keys.encryption = readKey(encryption, parley.X25519, "encryption_public_key", faults)
	if signing == nil && encryption == nil {
		faults.Faults = append(faults.Faults, rest.FieldError{
			Loc: []any{"body", "signing_public_key"}, Msg: "Value error, at least one key is required", Type: rest.FaultValue,
		})
	}
	if len(faults.Faults) > 0 {
		return rawKeys{}, faults
	}
	return keys, nil
}

func readKey(k *api.JWK, curve, member string, faults *rest.SchemaError) []byte {
	if k == nil {
		return nil
	}
	raw, err := auth.ParseKey(curve, k.KeyType, k.Curve, k.X, k.Private())
	bad := (*auth.KeyError)(nil)
	switch {
	case errors.As(err, &bad):
		faults.Faults = append(faults.Faults, rest.FieldError{
			Loc: []any{"body", member, bad.Member}, Msg: "Value error, " + bad.Text, Type: rest.FaultValue,
		})
	case err != nil:
		faults.Faults = append(faults.Faults, rest.FieldError{Loc: []any{"body", member}, Msg: "Value error, " + err.Error(), Type: rest.FaultValue})
	}
	return raw
}

// Upload replaces one key or both. Senders see the new keys at once. A binding in the
// same request is verified in the same turn.
func (s Keys) Upload(c *rest.Call, in *api.UploadKeys) (api.Agent, error) {
	keys, err := readKeys(in.SigningPublicKey, in.EncryptionPublicKey)
	if err != nil {
		return api.Agent{}, err
	}
	rotate := agent.RotateKeys{Signing: keys.signing, Encryption: keys.encryption}
	if in.KeyBinding != nil {
		proof, err := s.proofOf(c, in.ID, in.KeyBinding)
		if err != nil {
			return api.Agent{}, err
		}
		rotate.Proof = &proof
	}
	changed, err := Agents(s).changeAgent(c, in.ID, rotate)
	if stale := (*parley.Refusal)(nil); errors.As(err, &stale) && stale.Is(agent.ErrBindingStale) {
		err = stale.With("loc", []any{"body", "key_binding", "signed_at"})
	}
	return changed, err
}

// proofOf returns a key binding of one of the caller's agents in the form that its rules
// verify. A signature that is not base64url counts as one that does not verify.
func (s Keys) proofOf(c *rest.Call, id parley.AgentID, in *api.KeyProof) (agent.Proof, error) {
	a, err := s.Agents.Own(c, id)
	if err != nil {
		return agent.Proof{}, err
	}
	handle, err := s.Agents.Handle(c.Context(), a)
	if err != nil {
		return agent.Proof{}, err
	}
	proof := agent.Proof{Brand: s.Show.Brand, Handle: handle, Signature: signatureBytes(in.Signature), SignedAt: in.SignedAt}
	if in.PreviousSignature != nil {
		proof.PreviousSignature = signatureBytes(*in.PreviousSignature)
	}
	return proof, nil
}

// signatureBytes decodes base64url, padded or not. For anything else it returns an empty
// slice, never nil.
func signatureBytes(text string) []byte {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(strings.TrimSuffix(text, "=="))
	if err != nil {
		return []byte{}
	}
	return raw
}

// Bind binds the agent's current keys by its own signature.
func (s Keys) Bind(c *rest.Call, in *api.BindKeys) (api.BoundKeys, error) {
	proof, err := s.proofOf(c, in.ID, &in.KeyProof)
	if err != nil {
		return api.BoundKeys{}, err
	}
	a, err := s.Node.Agents.Change(c.Context(), in.ID, agent.BindKeys{Proof: proof})
	if err != nil {
		return api.BoundKeys{}, err
	}
	return api.BoundKeys{KeyBinding: view.KeyBinding(a, len(a.GetBindings())-1)}, nil
}

// ListBindings returns all bindings of an active agent's keys, oldest first. They are
// public, because a client that trusted a former key follows them to the current one.
func (s Keys) ListBindings(c *rest.Call, in *api.GetKeyBindings) (rest.Rendered, error) {
	a, err := s.Agents.Public(c, in.ID)
	if err != nil {
		return rest.Rendered{}, err
	}
	list := "key bindings " + a.AgentID().String()
	position, err := s.Lists.Place(list, in.Cursor)
	if err != nil {
		return rest.Rendered{}, err
	}
	page, all := api.Page[api.KeyBinding]{Items: []api.KeyBinding{}}, len(a.GetBindings())
	from := min(int(position), all)
	to := min(from+in.Limit, all)
	for place := from; place < to; place++ {
		page.Items = append(page.Items, view.KeyBinding(a, place))
	}
	if page.HasMore = to < all; page.HasMore {
		page.NextCursor = new(s.Lists.Cursor(list, uint64(to)))
	}
	return c.Document(page, a.KeysChangedAt(), rest.CacheChecked)
}

// Retire marks a former key as permanently untrusted.
func (s Keys) Retire(c *rest.Call, in *api.RetireKey) (api.KeyRecord, error) {
	if _, err := s.Agents.Own(c, in.ID); err != nil {
		return api.KeyRecord{}, err
	}
	a, err := s.Node.Agents.Change(c.Context(), in.ID, agent.RetireKey{Kid: in.Kid})
	if err != nil {
		return api.KeyRecord{}, err
	}
	return s.keyRecord(c, a, in.Kid)
}

// Get returns the public keys of an active agent, by id or handle. With kid, the key
// of that thumbprint replaces the current one of its kind; former keys count.
// // spec: Agents
func (s Keys) Get(c *rest.Call, in *api.GetKeys) (rest.Rendered, error) {
	a, err := s.Agents.Public(c, in.ID)
	if err != nil {
		return rest.Rendered{}, err
	}
	if in.Kid != nil {
		record, err := s.keyRecord(c, a, *in.Kid)
		if err != nil {
			return rest.Rendered{}, err
		}
		return c.Document(record, a.KeysChangedAt(), rest.CacheChecked)
	}
	keys, err := s.keysOf(c, a)
	if err != nil {
		return rest.Rendered{}, err
	}
	return c.Document(keys, a.KeysChangedAt(), rest.CacheChecked)
}

// keyRecord returns a current or former key of an agent, together with its current ones.
func (s Keys) keyRecord(c *rest.Call, a *agent.State, kid string) (api.KeyRecord, error) {
	key, found := a.KeyByKid(kid)
	if !found {
		return api.KeyRecord{}, agent.ErrUnknownKey
	}
	keys, err := s.keysOf(c, a)
	record := api.KeyRecord{
		AgentKeys: keys, ValidFrom: api.At(key.Since), ValidUntil: api.Maybe(key.Until), RetiredAt: api.Maybe(key.Retired),
	}
	switch key.Curve {
	case parley.Ed25519:
		record.SigningPublicKey = new(api.NewJWK(key.Curve, key.Raw))
	case parley.X25519:
		record.EncryptionPublicKey = new(api.NewJWK(key.Curve, key.Raw))
	}
	return record, err
}

func (s Keys) keysOf(c *rest.Call, a *agent.State) (api.AgentKeys, error) {
	handle, err := s.Agents.Handle(c.Context(), a)
	keys := api.AgentKeys{
		AgentID: a.AgentID(), Handle: &handle,
		SigningPublicKey:    new(api.NewJWK(parley.Ed25519, a.GetSigningKey())),
		EncryptionPublicKey: new(api.NewJWK(parley.X25519, a.GetEncryptionKey())),
		PQPublicKey:         view.PQKey(a),
		UnboundSince:        api.Maybe(a.UnboundSince()),
	}
	if place, bound := a.BindingInForce(); bound {
		keys.KeyBinding = new(view.KeyBinding(a, place))
	}
	return keys, err
}

// GetBatch returns the keys of several agents. Unknown, revoked and erased agents are left
// out.
func (s Keys) GetBatch(c *rest.Call, in *api.GetBatchKeys) (rest.Rendered, error) {
	batch, changed := api.BatchKeys{Keys: map[parley.AgentID]api.AgentKeys{}}, s.started()
	for _, id := range in.IDs {
		a, err := s.Node.Agents.Get(c.Context(), id)
		if errors.Is(err, parley.ErrNotFound) || errors.Is(err, journal.ErrErased) || (err == nil && a.Revoked()) {
			continue
		}
		if err != nil {
			return rest.Rendered{}, err
		}
		if batch.Keys[id], err = s.keysOf(c, a); err != nil {
			return rest.Rendered{}, err
		}
		if at := a.KeysChangedAt(); at.After(changed) {
			changed = at
		}
	}
	return c.Document(batch, changed, rest.CacheChecked)
}
