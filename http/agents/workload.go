package agents

import (
	"encoding/base64"
	"errors"
	"strings"

	"parley/actors/agent"
	"parley/actors/encoding"
	"parley/actors/org"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/auth"
	"parley/http/limit"
	"parley/http/rest"
	"parley/http/svid"
)

// svidChallengeList is the purpose under which ids of challenges are sealed.
const svidChallengeList = "POST /agents/{id}/verify-svid/challenge"

// CreateSVIDChallenge returns a challenge to prove a workload identity for an agent. It
// stores nothing: the challenge is sealed in its id. // spec: Agents
func (s Workload) CreateSVIDChallenge(c *rest.Call, in *api.CreateSVIDChallenge) (api.SVIDChallenge, error) {
	if err := s.mayProve(c, in.ID); err != nil {
		return api.SVIDChallenge{}, err
	}
	if now := limit.TakeAll(limit.Draw{Window: s.svidChallenges, Key: string(in.ID[:])}); !now.OK {
		return api.SVIDChallenge{}, c.SetRate(now)
	}
	challenge := &org.WorkloadChallenge{
		OrgId: c.Caller.Org.Bytes(), AgentId: in.ID.Bytes(), Nonce: auth.NewChallenge(s.Entropy),
		ExpiresMs: c.Now().Add(parley.SVIDChallengeLifetime).UnixMilli(),
	}
	sealed, err := encoding.Marshal(challenge)
	if err != nil {
		return api.SVIDChallenge{}, err
	}
	c.SetHeader("Cache-Control", "no-store")
	return api.SVIDChallenge{
		ChallengeID: s.Cursors.Seal(svidChallengeList, sealed), Nonce: challenge.GetNonce(), Audience: s.audience(challenge),
		ExpiresAt: api.At(challenge.ExpiresAt()), Methods: []string{api.MethodJWTSVID, api.MethodX509SVID},
	}, nil
}

// mayProve refuses an agent that can prove nothing.
func (s Workload) mayProve(c *rest.Call, id parley.AgentID) error {
	a, err := s.Agents.Own(c, id)
	switch {
	case err != nil:
		return err
	case a.Revoked():
		return agent.ErrRevoked
	case s.Bundles.Empty():
		return svid.ErrNotConfigured
	}
	return nil
}

// audience returns what a JWT-SVID has to be minted for. It contains the nonce, so that no
// JWT-SVID from before the challenge has it.
func (s Workload) audience(c *org.WorkloadChallenge) string {
	return s.Show.BaseURL + "/agents/" + c.Agent().String() + "/verify-svid#" + c.GetNonce()
}

// VerifySVID checks a proof and, if it is right, uses up the challenge and raises the
// organization's tier. A wrong proof does not use up the challenge, but only a few of them
// are checked. // spec: Agents
func (s Workload) VerifySVID(c *rest.Call, in *api.VerifySVID) (api.VerifiedSVID, error) {
	if err := s.mayProve(c, in.ID); err != nil {
		return api.VerifiedSVID{}, err
	}
	challenge, err := s.svidChallenge(in.ChallengeID)
	if err != nil {
		return api.VerifiedSVID{}, err
	}
	if err := s.Node.Orgs.JudgeWorkloadChallenge(c.Context(), c.Caller.Org, in.ID, challenge); err != nil {
		return api.VerifiedSVID{}, err
	}
	if !limit.TakeAll(limit.Draw{Window: s.Tries, Key: challenge.GetNonce()}).OK {
		return api.VerifiedSVID{}, org.ErrChallengeExpired
	}
	found, o, err := s.prove(c, in, challenge)
	if !errors.Is(err, svid.ErrInvalid) {
		s.Tries.GiveBack(challenge.GetNonce())
	}
	if err != nil {
		return api.VerifiedSVID{}, err
	}
	return api.VerifiedSVID{
		Verified: true, SPIFFEID: found.ID, TrustDomain: found.TrustDomain, TrustTier: int(o.GetTrustTier()), VerifiedAt: api.At(c.Now()),
	}, nil
}

// svidChallenge opens the id of a challenge. An id that this service did not seal is
// unknown.
func (s Workload) svidChallenge(id string) (*org.WorkloadChallenge, error) {
	sealed, err := s.Cursors.Open(svidChallengeList, id)
	if err != nil {
		return nil, org.ErrUnknownChallenge
	}
	challenge := &org.WorkloadChallenge{}
	return challenge, encoding.Unmarshal(sealed, challenge)
}

// prove verifies a document and records the identity that it proves.
func (s Workload) prove(c *rest.Call, in *api.VerifySVID, challenge *org.WorkloadChallenge) (found svid.Identity, o *org.State, err error) {
	if in.JWTSVID != nil {
		found, err = s.Bundles.JWT(*in.JWTSVID, s.audience(challenge), c.Now())
	} else {
		found, err = s.proveX509(c, in, challenge)
	}
	if err != nil {
		return found, nil, err
	}
	o, err = s.Node.Orgs.ProveWorkload(c.Context(), c.Caller.Org, challenge, found.ID)
	return found, o, err
}

func (s Workload) proveX509(c *rest.Call, in *api.VerifySVID, challenge *org.WorkloadChallenge) (svid.Identity, error) {
	var chain [][]byte
	for _, text := range in.X509SVID {
		der, err := fromBase64(text)
		if err != nil {
			return svid.Identity{}, svid.ErrInvalid.Saying("The X.509-SVID is not valid: a certificate is not base64.")
		}
		chain = append(chain, der)
	}
	signature, err := fromBase64(*in.Signature)
	if err != nil {
		return svid.Identity{}, svid.ErrInvalid.Saying("The X.509-SVID is not valid: the signature is not base64.")
	}
	return s.Bundles.X509(chain, parley.SVIDText(s.Show.Brand, in.ID, challenge.GetNonce()), signature, c.Now())
}

// fromBase64 decodes base64 or base64url, padded or not.
func fromBase64(text string) ([]byte, error) {
	text = strings.TrimRight(text, "=")
	if strings.ContainsAny(text, "-_") {
		return base64.RawURLEncoding.DecodeString(text)
	}
	return base64.RawStdEncoding.DecodeString(text)
}
