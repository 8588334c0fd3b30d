package importing

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"parley"
	"parley/actors/agent"
	"parley/http/api"
)

// An export has each key of an agent with the instants at which it first became current,
// and was last replaced. A key that was current several times has lost the instants
// between. keyHistory makes up a history that leads to the same keys: where an instant is
// lost, it takes the one before.

// era is a key of one curve.
type era struct {
	curve   string
	raw     []byte
	sinceMs int64
	untilMs int64 // zero for the current key
	retired int64
}

// keyHistory returns the events of an agent up to its present settings, keys and bindings.
func keyHistory(a *api.ExportedAgent) ([]agent.Event, error) {
	created := a.CreatedAt.UnixMilli()
	eras, err := erasOf(a)
	if err != nil {
		return nil, err
	}
	firstSigning, signing := rotations(eras, parley.Ed25519)
	firstEncryption, encryption := rotations(eras, parley.X25519)
	events := []agent.Event{&agent.Created{
		Id: a.ID.Bytes(), OrgId: a.OrgID.Bytes(), Name: a.Name, HumanOversight: a.HumanOversight, Unlisted: a.Unlisted,
		IncomingPolicy: a.IncomingPolicy, OutgoingPolicy: a.OutgoingPolicy, SigningKey: firstSigning, EncryptionKey: firstEncryption, AtMs: created,
	}}
	bindings, err := bindingsOf(a, eras)
	if err != nil {
		return nil, err
	}
	// The bindings come between the rotations that they cover and those that follow.
	for _, r := range merged(signing, encryption) {
		if a.UnboundSince != nil && r.AtMs >= a.UnboundSince.UnixMilli() {
			events, bindings = append(events, bindings...), nil
		}
		events = append(events, r)
	}
	events = append(events, bindings...)
	for _, e := range eras {
		if e.retired != 0 {
			events = append(events, &agent.KeyDistrusted{Curve: e.curve, Raw: e.raw, AtMs: e.retired})
		}
	}
	if k := a.PQPublicKey; k != nil {
		raw, err := k.Raw(k.Algorithm)
		if err != nil || a.PQSince == nil {
			return nil, fmt.Errorf("post-quantum key: %w", cmp.Or(err, errNoInstant))
		}
		events = append(events, &agent.PQKeySet{Algorithm: k.Algorithm, Raw: raw, AtMs: a.PQSince.UnixMilli()})
	}
	return events, nil
}

var errNoInstant = errors.New("it does not say since when it is current")

// erasOf returns the keys of an agent, former ones first.
func erasOf(a *api.ExportedAgent) (eras []era, err error) {
	add := func(k api.JWK, since, until, retired *api.Time) {
		raw, bad := k.Raw(k.Curve)
		e := era{curve: k.Curve, raw: raw, sinceMs: since.UnixMilli()}
		if until != nil {
			e.untilMs = until.UnixMilli()
		}
		if retired != nil {
			e.retired = retired.UnixMilli()
		}
		if eras = append(eras, e); bad != nil {
			err = errors.Join(err, fmt.Errorf("key %s: %w", k.Kid, bad))
		}
	}
	for _, k := range a.FormerKeys {
		if k.ValidUntil == nil {
			return nil, fmt.Errorf("former key %s has no valid_until", k.PublicKey.Kid)
		}
		add(k.PublicKey, &k.ValidFrom, k.ValidUntil, k.RetiredAt)
	}
	add(*a.SigningPublicKey, &a.SigningSince, nil, nil)
	add(*a.EncryptionPublicKey, &a.EncryptionSince, nil, nil)
	return eras, err
}

// rotation is a change of the key of one curve.
type rotation struct {
	atMs int64
	raw  []byte
}

// rotations returns the first key of a curve, and the changes that lead to all others.
func rotations(all []era, curve string) (first []byte, changes []rotation) {
	eras := slices.DeleteFunc(slices.Clone(all), func(e era) bool { return e.curve != curve })
	// By the instant at which they first became current; the first key is the agent's first.
	slices.SortStableFunc(eras, func(a, b era) int { return cmp.Compare(a.sinceMs, b.sinceMs) })
	ends := slices.Clone(eras) // by the instant at which they were last replaced
	slices.SortStableFunc(ends, func(a, b era) int {
		if a.untilMs == 0 || b.untilMs == 0 {
			return cmp.Compare(b.untilMs, a.untilMs) // the current key is last
		}
		return cmp.Compare(a.untilMs, b.untilMs)
	})
	first, current := eras[0].raw, eras[0].raw
	eras = eras[1:]
	change := func(at int64, to []byte) {
		if string(current) != string(to) {
			changes, current = append(changes, rotation{at, to}), to
		}
	}
	at := int64(0)
	for i, e := range ends {
		// Keys that became current before this one was last replaced.
		for len(eras) > 0 && (e.untilMs == 0 || eras[0].sinceMs < e.untilMs) {
			at = eras[0].sinceMs
			change(at, eras[0].raw)
			eras = eras[1:]
		}
		change(at, e.raw) // it came back, at an instant that is lost
		if e.untilMs == 0 {
			break
		}
		at = e.untilMs
		if len(eras) > 0 && eras[0].sinceMs == at {
			change(at, eras[0].raw)
			eras = eras[1:]
		} else {
			change(at, ends[i+1].raw)
		}
	}
	return first, changes
}

// merged returns the rotations of both curves in order. Two at the same instant were one.
func merged(signing, encryption []rotation) (all []*agent.KeysRotated) {
	for len(signing)+len(encryption) > 0 {
		r := &agent.KeysRotated{Dated: true}
		switch {
		case len(signing) == 0:
			r.AtMs = encryption[0].atMs
		case len(encryption) == 0:
			r.AtMs = signing[0].atMs
		default:
			r.AtMs = min(signing[0].atMs, encryption[0].atMs)
		}
		if len(signing) > 0 && signing[0].atMs == r.AtMs {
			r.SigningKey, signing = signing[0].raw, signing[1:]
		}
		if len(encryption) > 0 && encryption[0].atMs == r.AtMs {
			r.EncryptionKey, encryption = encryption[0].raw, encryption[1:]
		}
		all = append(all, r)
	}
	return all
}

// bindingsOf returns the bindings of an agent's keys as events.
func bindingsOf(a *api.ExportedAgent, eras []era) (events []agent.Event, err error) {
	byKid := map[string][]byte{}
	for _, e := range eras {
		byKid[parley.Thumbprint(e.curve, e.raw)] = e.raw
	}
	for _, b := range a.KeyBindings {
		bound := &agent.KeyBinding{SignedAt: b.SignedAt, SigningKey: byKid[b.SigningKid], EncryptionKey: byKid[b.EncryptionKid]}
		at, err := parley.ParseSignedAt(b.SignedAt)
		if err == nil {
			bound.Signature, err = base64.RawURLEncoding.DecodeString(b.Signature)
		}
		if err == nil && b.PreviousSignature != nil {
			bound.PreviousSignature, err = base64.RawURLEncoding.DecodeString(*b.PreviousSignature)
		}
		if err == nil && b.PreviousSigningKid != nil {
			if bound.PreviousKey = byKid[*b.PreviousSigningKid]; bound.PreviousKey == nil {
				err = fmt.Errorf("no key has the id %s", *b.PreviousSigningKid)
			}
		}
		if err == nil && (bound.SigningKey == nil || bound.EncryptionKey == nil) {
			err = errors.New("it binds keys that the agent does not have")
		}
		if err != nil {
			return nil, fmt.Errorf("key binding of %s: %w", b.SignedAt, err)
		}
		events = append(events, &agent.KeysBound{Binding: bound, AtMs: at.UnixMilli()})
	}
	return events, nil
}
