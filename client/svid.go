package client

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"parley/client/api"
	"parley/client/parley"
)

// SVIDChallenge requests a challenge to prove a workload identity for an agent. A JWT-SVID
// is to be minted for its Audience.
func (a Agents) SVIDChallenge(ctx context.Context, id parley.AgentID) (*api.SVIDChallenge, error) {
	return fetch[api.SVIDChallenge](ctx, a.s, post("/agents/{id}/verify-svid/challenge").idempotent(), api.CreateSVIDChallenge{ID: id})
}

// VerifySVID proves a workload identity for the agent in.ID, which raises the organization
// to trust tier 2. See SignedSVID for an X.509-SVID.
func (a Agents) VerifySVID(ctx context.Context, in api.VerifySVID) (*api.VerifiedSVID, error) {
	return fetch[api.VerifiedSVID](ctx, a.s, post("/agents/{id}/verify-svid"), in)
}

// SignedSVID answers a challenge with an X.509-SVID: its chain, each certificate in DER and
// the leaf first, and the key of the leaf.
func (a Agents) SignedSVID(id parley.AgentID, challenge *api.SVIDChallenge, chain [][]byte, key crypto.Signer) (api.VerifySVID, error) {
	signed, options := parley.SVIDText(a.s.brand, id, challenge.Nonce), crypto.SHA256
	if _, edwards := key.Public().(ed25519.PublicKey); edwards {
		options = 0
	} else {
		h := options.New()
		h.Write(signed)
		signed = h.Sum(nil)
	}
	signature, err := key.Sign(rand.Reader, signed, options)
	if err != nil {
		return api.VerifySVID{}, fmt.Errorf("sign the challenge: %w", err)
	}
	in := api.VerifySVID{ID: id, ChallengeID: challenge.ChallengeID, Signature: new(base64.StdEncoding.EncodeToString(signature))}
	for _, der := range chain {
		in.X509SVID = append(in.X509SVID, base64.StdEncoding.EncodeToString(der))
	}
	return in, nil
}
