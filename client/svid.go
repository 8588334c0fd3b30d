package client

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"

	"parley/client/api"
	"parley/client/parley"
)

// SVIDChallenge requests a challenge to prove a workload identity for an agent. A JWT-SVID
// is to be minted for its Audience.
func (c *Client) SVIDChallenge(ctx context.Context, id parley.AgentID) (*api.SVIDChallenge, error) {
	return fetch[api.SVIDChallenge](ctx, c, call{method: http.MethodPost, path: "/agents/" + id.String() + "/verify-svid/challenge", repeatable: true})
}

// VerifySVID proves a workload identity for the agent in.ID, which raises the organization
// to trust tier 2. See SignedSVID for an X.509-SVID.
func (c *Client) VerifySVID(ctx context.Context, in api.VerifySVID) (*api.VerifiedSVID, error) {
	return fetch[api.VerifiedSVID](ctx, c, call{method: http.MethodPost, path: "/agents/" + in.ID.String() + "/verify-svid", in: in})
}

// SignedSVID answers a challenge with an X.509-SVID: its chain, each certificate in DER and
// the leaf first, and the key of the leaf.
func (c *Client) SignedSVID(id parley.AgentID, challenge *api.SVIDChallenge, chain [][]byte, key crypto.Signer) (api.VerifySVID, error) {
	signed, options := parley.SVIDText(c.brand, id, challenge.Nonce), crypto.SHA256
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
