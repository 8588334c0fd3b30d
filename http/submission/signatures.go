package submission

import (
	"cmp"
	"errors"

	"parley/actors/agent"
	"parley/client/parley"
	"parley/http/auth"
	"parley/http/rest"
)

// checkSignatures verifies the signature over the request body, and attestations whose
// keys belong to agents of this server. A signature that does not verify is noted in e,
// to be judged after the idempotency key. An error means that the request cannot be
// judged.
func (d *Desk) checkSignatures(c *rest.Call, e *envelope, from *agent.State) error {
	if e.messageSignature != nil {
		e.signatureErr = auth.CheckMessageSignature(d.brand, from.GetSigningKey(), *e.messageSignature, c.Body())
	}
	if len(e.Attestations) == 0 {
		return nil
	}
	var unsure error
	err := auth.CheckAttestations(e.Attestations, func(kid string) ([]byte, bool) {
		key, known, err := d.attestationKey(c, kid)
		unsure = errors.Join(unsure, err)
		return key, known
	})
	if unsure != nil {
		return unsure
	}
	bad := (*auth.AttestationError)(nil)
	if errors.As(err, &bad) {
		loc := []any{"body", "sender_attestations"}
		if bad.Index >= 0 {
			loc = append(loc, bad.Index)
		}
		return &rest.SchemaError{Faults: []rest.FieldError{{Loc: loc, Msg: "Value error, " + bad.Text, Type: rest.FaultValue}}}
	}
	e.signatureErr = cmp.Or(e.signatureErr, err)
	return nil
}

// attestationKey returns the Ed25519 key that a key id names: a thumbprint, or the DID
// URL of an agent of this server, whose fragment may be a thumbprint. Former keys count,
// because an attestation may be older than the rotation. For a key that its owner retired
// it returns nil, with which nothing verifies.
func (d *Desk) attestationKey(c *rest.Call, kid string) (key []byte, known bool, err error) {
	var a *agent.State
	wanted := kid
	if slug, name, fragment, ok := auth.ParseAgentDID(kid, d.domain); ok {
		handle := parley.Handle{Name: name, Slug: slug, Domain: d.domain}
		a, err = d.agents.ByHandle(c, handle.String())
		wanted = fragment
	} else {
		var id parley.AgentID
		if id, err = d.node.Agents.ByKid(c.Context(), kid); err == nil {
			a, err = d.node.Agents.Get(c.Context(), id)
		}
	}
	if errors.Is(err, parley.ErrNotFound) || errors.Is(err, parley.ErrBadHandle) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	switch key, ok := a.KeyByKid(wanted); {
	case ok && !key.Retired.IsZero():
		return nil, key.Curve == parley.Ed25519, nil
	case ok:
		return key.Raw, key.Curve == parley.Ed25519, nil
	}
	// A DID URL whose fragment is not a thumbprint names the current key.
	return a.GetSigningKey(), wanted != kid, nil
}
