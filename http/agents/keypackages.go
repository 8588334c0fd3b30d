package agents

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/limit"
	"parley/http/mls"
	"parley/http/rest"
)

// errKeyPackage rejects a KeyPackage that others could not use, or that is not the agent's.
var errKeyPackage = parley.Refuse(parley.Unprocessable, "key_package_invalid", "Value error, this should be a KeyPackage of the agent.")

// notBeforeAhead is how far ahead of the server's clock the lifetime of a KeyPackage may
// begin.
const notBeforeAhead = parley.KeyBindingAhead

// An organization claims at most keyClaimsMax key packages of one agent in any
// keyClaimWindow. Without a bound, one member could use up what others need to add the
// agent, who would then all share the one of last resort. // docs: limits.md
const (
	keyClaimsMax   = 20
	keyClaimWindow = time.Hour
)

// PublishKeyPackages stores KeyPackages of an agent. One fault refuses all of them.
// // docs: mls.md
func (s Keys) PublishKeyPackages(c *rest.Call, in *api.PublishKeyPackages) (api.StoredKeyPackages, error) {
	a, err := s.Agents.Own(c, in.ID)
	if err != nil {
		return api.StoredKeyPackages{}, err
	}
	if a.Revoked() {
		return api.StoredKeyPackages{}, agent.ErrRevoked
	}
	handle, err := s.Agents.HandleOf(c.Context(), in.ID)
	if err != nil {
		return api.StoredKeyPackages{}, err
	}
	of := keyPackageOwner{key: a.GetSigningKey(), handle: strings.ToLower(*handle), now: c.Now()}
	up := actors.UploadedKeyPackages{SigningKey: of.key}
	for i, text := range in.KeyPackages {
		k, err := of.read(text, []any{"body", "key_packages", i})
		if err != nil {
			return api.StoredKeyPackages{}, err
		}
		up.Once = append(up.Once, k)
	}
	if in.LastResort != nil {
		k, err := of.read(*in.LastResort, []any{"body", "last_resort"})
		if err != nil {
			return api.StoredKeyPackages{}, err
		}
		up.LastResort = &k
	}
	stored, err := s.Node.Agents.StoreKeyPackages(c.Context(), in.ID, up)
	return api.StoredKeyPackages{Stored: stored.Stored, Available: stored.Available}, err
}

// CountKeyPackages counts the KeyPackages of an agent that others can claim.
func (s Keys) CountKeyPackages(c *rest.Call, in *api.CountKeyPackages) (api.KeyPackageCount, error) {
	if _, err := s.Agents.Own(c, in.ID); err != nil {
		return api.KeyPackageCount{}, err
	}
	available, lastResort, err := s.Node.Agents.KeyPackages(c.Context(), in.ID)
	return api.KeyPackageCount{Available: available, LastResort: lastResort}, err
}

// ClaimKeyPackage hands out a key package of an agent to a member that will add it to an MLS
// group. One who may not claim learns no more than that there is none.
func (s Keys) ClaimKeyPackage(c *rest.Call, in *api.ClaimKeyPackage) (api.ClaimedKeyPackage, error) {
	claimer, err := s.Agents.Sole(c, in.ActingAgent)
	if err != nil {
		return api.ClaimedKeyPackage{}, err
	}
	awaits, err := s.Node.Groups.AwaitsMLS(c.Context(), claimer.AgentID(), in.ID)
	switch {
	case err != nil && !errors.Is(err, agent.ErrUnknown):
		return api.ClaimedKeyPackage{}, err
	case !awaits:
		return api.ClaimedKeyPackage{}, agent.ErrNoKeyPackage
	}
	available, lastResort, err := s.Node.Agents.KeyPackages(c.Context(), in.ID)
	switch {
	case err != nil:
		return api.ClaimedKeyPackage{}, err
	case available == 0 && !lastResort: // such a claim does not count
		return api.ClaimedKeyPackage{}, agent.ErrNoKeyPackage
	}
	pair := append(bytes.Clone(c.Caller.Org[:]), in.ID[:]...)
	if standing := limit.TakeAll(limit.Draw{Window: s.keyClaims, Key: string(pair)}); !standing.OK {
		return api.ClaimedKeyPackage{}, c.SetRate(standing)
	}
	suite := 0
	if in.CipherSuite != nil {
		suite = *in.CipherSuite
	}
	k, err := s.Node.Agents.ClaimKeyPackage(c.Context(), in.ID, uint16(suite))
	return api.ClaimedKeyPackage{
		KeyPackage: base64.RawURLEncoding.EncodeToString(k.Data), CipherSuite: int(k.Suite), LastResort: k.LastResort,
	}, err
}

// keyPackageOwner is what a KeyPackage has to say of its owner.
type keyPackageOwner struct {
	key    []byte
	handle string
	now    time.Time
}

// read reads an uploaded KeyPackage and verifies it. loc is its place in the request.
func (o keyPackageOwner) read(text string, loc []any) (actors.KeyPackage, error) {
	invalid := func(why string) (actors.KeyPackage, error) {
		return actors.KeyPackage{}, errKeyPackage.Saying("Value error, "+why).With("loc", loc)
	}
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return invalid("this should be base64url")
	}
	if len(data) > parley.KeyPackageBytesMax {
		return invalid("a key package should have at most 16384 bytes")
	}
	k, err := mls.ParseKeyPackage(data)
	if err != nil {
		return invalid("this should be a KeyPackage of MLS 1.0: " + err.Error())
	}
	now := uint64(o.now.Unix())
	switch {
	case string(k.SignatureKey) != string(o.key):
		return invalid("the signature key should be the agent's current signing key")
	case string(k.Identity) != o.handle:
		return invalid("the credential should be the agent's handle in lower case")
	case k.VerifyEd25519() != nil:
		return invalid("the signatures should verify, in a cipher suite with Ed25519")
	case k.NotAfter < now:
		return invalid("the lifetime should not be over")
	case k.NotBefore > now+uint64(notBeforeAhead/time.Second):
		return invalid("the lifetime should begin at most five minutes from now")
	}
	return actors.KeyPackage{Suite: uint16(k.Suite), NotAfter: k.NotAfter, Hash: record.HashKeyPackage(k.Bare()), Data: data}, nil
}
