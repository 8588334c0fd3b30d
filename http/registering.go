package http

import (
	"errors"
	"strconv"

	"parley"
	"parley/actors"
	"parley/actors/registration"
	"parley/http/api"
	"parley/http/auth"
)

var (
	errUnsupportedGrant = parley.Refuse(parley.Invalid, "unsupported_grant_type", "The only grant type is client_credentials.")
	errReservedSlug     = parley.Refuse(parley.Unprocessable, "validation_error", "Value error, the slug is reserved").With("loc", "org_slug")
)

// register makes a proof-of-work challenge. // spec: Registration and token
func (s *Service) register(c *Call, in *api.Register) (api.Challenge, error) {
	if parley.ReservedSlug(in.OrgSlug) {
		return api.Challenge{}, errReservedSlug
	}
	name := in.OrgSlug
	if in.OrgName != nil {
		name = *in.OrgName
	}
	issued, err := s.Node.RequestChallenge(c.Context(), registration.Issue{
		Email: in.Email, Slug: in.OrgSlug, OrgName: name,
		Challenge:  auth.NewChallenge(s.Entropy),
		Difficulty: s.Difficulty.Bits(source(c)),
		ExpiresAt:  c.Now().Add(parley.ChallengeLifetime),
	})
	if err != nil {
		return api.Challenge{}, err
	}
	s.Difficulty.Count(source(c))
	bits := int(issued.GetDifficulty())
	return api.Challenge{
		ChallengeID: issued.RegistrationID(), Algorithm: auth.ChallengeAlgorithm, Challenge: issued.GetChallenge(),
		Difficulty: bits, ExpiresAt: api.At(issued.ExpiresAt()), ExpiresIn: int(parley.ChallengeLifetime.Seconds()),
		Instructions: "Find a nonce of at most 64 characters such that SHA-256(challenge + \":\" + nonce) begins with " +
			strconv.Itoa(bits) + " zero bits, and send it with challenge_id to POST /auth/register/solve.",
	}, nil
}

// solve makes the organization of a solved challenge. The secret is shown here
// and never again: only its hash is kept.
func (s *Service) solve(c *Call, in *api.Solve) (api.Credentials, error) {
	secret := auth.NewSecret(s.Entropy)
	hash := auth.HashSecret(secret)
	made, err := s.Node.Solve(c.Context(), actors.Solution{
		ID: in.ChallengeID, Nonce: in.Nonce, Tier: s.TierAtSolve, SecretHash: hash[:],
	})
	if err != nil {
		return api.Credentials{}, err
	}
	c.SetHeader("Cache-Control", "no-store")
	return api.Credentials{
		OrgID: made.Org.OrgID(), OrgSlug: made.Org.GetSlug(), ClientID: made.ClientID, ClientSecret: secret,
		TrustTier: int(made.Org.GetTrustTier()), TokenURL: s.BaseURL + "/oauth/token", CreatedAt: api.At(made.Org.CreatedAt()),
	}, nil
}

// token exchanges client credentials for an access token.
func (s *Service) token(c *Call, in *api.TokenRequest) (api.Token, error) {
	id, secret, ok := auth.ParseBasic([]byte(c.Header("Authorization")))
	if !ok && in.ClientID != nil && in.ClientSecret != nil {
		id, secret, ok = *in.ClientID, *in.ClientSecret, true
	}
	if !ok {
		return api.Token{}, auth.ErrInvalidClient
	}
	client, slug, owner, err := s.client(c, id, secret)
	if err != nil {
		return api.Token{}, err
	}
	if in.GrantType != auth.GrantType {
		return api.Token{}, errUnsupportedGrant
	}
	token, _, err := s.Issuer.Mint(owner, slug, client)
	if err != nil {
		return api.Token{}, err
	}
	c.SetHeader("Pragma", "no-cache")
	return api.Token{
		AccessToken: token, TokenType: "Bearer", ExpiresIn: int(parley.TokenLifetime.Seconds()), Scope: auth.Scope,
	}, nil
}

// client checks credentials. An unknown client costs and says the same as a
// wrong secret.
func (s *Service) client(c *Call, id, secret string) (client parley.ClientID, slug string, owner parley.OrgID, err error) {
	client, malformed := parley.ParseID[parley.ClientID](id)
	if malformed == nil {
		if owner, err = s.Node.OrgByClient(c.Context(), client); err != nil && !errors.Is(err, parley.ErrNotFound) {
			return client, "", owner, err
		}
	}
	var hash []byte
	if malformed == nil && err == nil {
		o, unknown := s.Node.Org(c.Context(), owner)
		if unknown != nil && !errors.Is(unknown, parley.ErrNotFound) {
			return client, "", owner, unknown
		}
		if credential := o.Credential(client); unknown == nil && credential.Live() {
			hash, slug = credential.GetSecretHash(), o.GetSlug()
		}
	}
	if !auth.CheckSecret(secret, hash) {
		return client, "", owner, auth.ErrInvalidClient
	}
	return client, slug, owner, nil
}

// authorizationServer describes the token endpoint. source: RFC 8414
func (s *Service) authorizationServer(*Call, *api.Nothing) (api.AuthorizationServer, error) {
	return api.AuthorizationServer{
		Issuer: s.BaseURL, TokenEndpoint: s.BaseURL + "/oauth/token", JWKSURI: s.BaseURL + "/.well-known/jwks.json",
		Scopes: []string{auth.Scope}, ResponseTypes: []string{}, GrantTypes: []string{auth.GrantType},
		AuthMethods: []string{"client_secret_basic", "client_secret_post"}, Documentation: s.BaseURL + "/docs",
	}, nil
}

// jwks publishes the keys that tokens are verified with. // spec: Directory and discovery (all public, no auth)
func (s *Service) jwks(c *Call, _ *api.Nothing) (api.SigningKeys, error) {
	c.SetHeader("Cache-Control", "public, max-age="+strconv.Itoa(parley.JWKSCacheSeconds))
	keys := api.SigningKeys{Keys: []api.SigningKey{}}
	for _, k := range s.Issuer.Keys().Published(c.Now()) {
		jwk := api.NewJWK(parley.Ed25519, k.Public())
		keys.Keys = append(keys.Keys, api.SigningKey{
			KeyType: jwk.KeyType, Curve: jwk.Curve, X: jwk.X, Kid: k.Kid, Use: "sig", Algorithm: auth.Algorithm,
		})
	}
	return keys, nil
}
