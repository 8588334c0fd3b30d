package client

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"parley/client/api"
	"parley/client/parley"
)

// Agents makes the calls about the organization's agents and their cards.
type Agents struct {
	// Create creates an agent whose keys the caller has. PollURL is returned only here. See
	// NewAgent, which also creates the keys.
	Create Call[api.CreateAgent, api.Agent] `call:"POST /agents"`
	// List returns the organization's agents, oldest first.
	List List[api.ListAgents, api.Agent] `call:"GET /agents"`
	// Get returns one agent of the organization.
	Get Call[parley.AgentID, api.Agent] `call:"GET /agents/{id}"`
	// Update changes the agent in.ID.
	Update Call[api.AgentPatch, api.Agent] `call:"PATCH /agents/{id}"`
	// Revoke permanently revokes an agent. Repeating it has no effect.
	Revoke Command[parley.AgentID] `call:"DELETE /agents/{id} repeatable"`
	// DeletePollToken revokes an agent's poll token.
	DeletePollToken Command[parley.AgentID] `call:"DELETE /agents/{id}/poll-token"`
	// DeleteCard deletes an agent's card. Repeating it has no effect.
	DeleteCard Command[parley.AgentID] `call:"DELETE /agents/{id}/card repeatable"`
	// SVIDChallenge requests a challenge to prove a workload identity for an agent. A JWT-SVID
	// is to be minted for its Audience.
	SVIDChallenge Call[parley.AgentID, api.SVIDChallenge] `call:"POST /agents/{id}/verify-svid/challenge repeatable"`
	// VerifySVID proves a workload identity for the agent in.ID, which raises the organization
	// to trust tier 2. See SignedSVID for an X.509-SVID.
	VerifySVID Call[api.VerifySVID, api.VerifiedSVID] `call:"POST /agents/{id}/verify-svid"`
	// PollToken replaces an agent's poll token and returns the poll address. The former token
	// stops working.
	PollToken Call[parley.AgentID, api.PollToken] `call:"POST /agents/{id}/poll-token"`
	// Block keeps an agent, or a whole organization, from beginning or continuing conversations
	// with the agent in.ID. Repeating it has no effect.
	Block Command[api.PutBlock] `call:"PUT /agents/{id}/blocks/{other} repeatable"`
	// Unblock ends a block. Repeating it has no effect.
	Unblock Command[api.DeleteBlock] `call:"DELETE /agents/{id}/blocks/{other} repeatable"`
	// Blocks returns a page of what the agent in.ID blocks, oldest first.
	Blocks Call[api.ListBlocks, api.Page[api.Block]] `call:"GET /agents/{id}/blocks"`

	s *Session
}

// Poll returns the number of an agent's messages since in.Since (default: the last 24
// hours). Its token is a poll token or a whole poll address. No credentials are needed.
func (a Agents) Poll(ctx context.Context, in api.Poll) (int, error) {
	in.Token = in.Token[strings.LastIndexByte(in.Token, '/')+1:]
	out, err := fetch[api.PollCount](ctx, a.s, get("/poll/{token}").forAnyone(), in)
	if err != nil {
		return 0, err
	}
	return out.Count, nil
}

// PutCard publishes the card of the agent in.ID, in place of any it had before. It is
// safe to repeat.
func (a Agents) PutCard(ctx context.Context, in api.PutCard) (*api.Card, error) {
	document, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("marshal card: %w", err)
	}
	return a.PutCardJSON(ctx, in.ID, api.Rebrand(document, api.DefaultBrand, a.s.brand))
}

// PutCardJSON publishes a card that is JSON already. Its extension has the server's brand
// as its name.
func (a Agents) PutCardJSON(ctx context.Context, id parley.AgentID, document []byte) (*api.Card, error) {
	k := a.s.call(put("/agents/{id}/card").idempotent(), api.GetCard{ID: id.String()})
	k.raw = document
	return branded[api.Card](ctx, a.s, k)
}

// Card returns the card of any active agent, by id or handle. No credentials are needed.
func (a Agents) Card(ctx context.Context, agent string) (*api.Card, error) {
	return branded[api.Card](ctx, a.s, a.s.call(get("/agents/{id}/card").forAnyone(), api.GetCard{ID: agent}))
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
