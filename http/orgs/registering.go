package orgs

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"

	"parley/actors"
	"parley/actors/encoding"
	"parley/actors/org"
	"parley/actors/registration"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/auth"
	"parley/http/limit"
	"parley/http/rest"
	"parley/journal"
)

var (
	errNoSuchToken      = parley.ErrNotFound.Saying("No such token has been mailed.")
	errLateToken        = parley.ErrGone.Saying("The token has expired. Ask the operator to approve your organization.")
	errUnsupportedGrant = parley.Refuse(parley.Invalid, "unsupported_grant_type", "The only grant type is client_credentials.")
	errNoGrant          = parley.Refuse(parley.Invalid, "invalid_request", "Name the grant_type: client_credentials.")
	errTwoMechanisms    = parley.Refuse(parley.Invalid, "invalid_request", "Send the client's credentials in the Authorization header or in the body, not in both.")
	errOtherClient      = parley.Refuse(parley.Invalid, "invalid_request", "The client_id of the body is another one than that of the Authorization header.")
	errNoCredentials    = auth.ErrInvalidClient.Saying("No client credentials were sent: use HTTP Basic, or client_id and client_secret in the body.")
	errReservedSlug     = parley.Refuse(parley.Unprocessable, "validation_error", "Value error, the slug is reserved").With("loc", "org_slug")
)

// Admission says who may register an organization.
type Admission string

// Who may register.
const (
	AdmitAll   Admission = "open"
	AdmitToken Admission = "token"
	AdmitNone  Admission = "closed"
)

// admits returns the hash of the registration token of a request, nil if none is needed.
func (s Registration) admits(c *rest.Call, token *string) ([]byte, error) {
	switch s.Admission {
	case AdmitNone:
		return nil, registration.ErrNotOpen
	case AdmitToken:
		tokens, err := s.Node.Operators.Tokens(c.Context())
		if err != nil {
			return nil, err
		}
		hash := auth.HashSecret(rest.Text(token))
		if tokens.Registration(hash[:], c.Now()) == nil {
			return nil, registration.ErrNotOpen
		}
		return hash[:], nil
	}
	return nil, nil
}

// Register returns a proof-of-work challenge. It stores and reserves nothing: the
// challenge is sealed in its id, and the first client to solve one gets the slug.
// // spec: Registration and token
func (s Registration) Register(c *rest.Call, in *api.Register) (api.Challenge, error) {
	token, err := s.admits(c, in.RegistrationToken)
	if err != nil {
		return api.Challenge{}, err
	}
	if parley.ReservedSlug(in.OrgSlug, s.Brand) || in.OrgSlug == s.HostSlug {
		return api.Challenge{}, errReservedSlug
	}
	name, from := in.OrgSlug, s.Source(c)
	if in.OrgName != nil {
		name = *in.OrgName
	}
	if _, err := s.Node.Orgs.BySlug(c.Context(), in.OrgSlug); err == nil {
		return api.Challenge{}, registration.ErrSlugTaken
	} else if !errors.Is(err, parley.ErrNotFound) {
		return api.Challenge{}, err
	}
	bits, expires := s.Difficulty.Bits(from), c.Now().Add(parley.ChallengeLifetime)
	challenge := &registration.Challenge{
		Text: auth.NewChallenge(s.Entropy), Email: in.Email, Slug: in.OrgSlug, OrgName: name,
		Difficulty: uint32(bits), ExpiresMs: expires.UnixMilli(), TokenHash: token,
	}
	sealed, err := encoding.Marshal(challenge)
	if err != nil {
		return api.Challenge{}, err
	}
	s.Difficulty.Count(from)
	return api.Challenge{
		ChallengeID: s.Cursors.Seal(challengeList, sealed), Algorithm: auth.ChallengeAlgorithm, Challenge: challenge.GetText(),
		Difficulty: bits, ExpiresAt: api.At(challenge.ExpiresAt()), ExpiresIn: int(parley.ChallengeLifetime.Seconds()),
		Instructions: "Find a nonce of at most 64 characters such that SHA-256(challenge + \":\" + nonce) begins with " +
			strconv.Itoa(bits) + " zero bits, and send it with challenge_id to POST /auth/register/solve.",
	}, nil
}

// challengeList is the purpose under which challenge ids are sealed.
const challengeList = "POST /auth/register"

// challenge opens the id of a challenge. An id that this service did not seal is unknown.
func (s Registration) challenge(id string) (*registration.Challenge, error) {
	sealed, err := s.Cursors.Open(challengeList, id)
	if err != nil {
		return nil, registration.ErrUnknown
	}
	challenge := &registration.Challenge{}
	return challenge, encoding.Unmarshal(sealed, challenge)
}

// Solve creates the organization of a solved challenge. The secret is returned only here;
// the server stores only its hash.
func (s Registration) Solve(c *rest.Call, in *api.Solve) (api.Credentials, error) {
	if s.Admission == AdmitNone {
		return api.Credentials{}, registration.ErrNotOpen
	}
	challenge, err := s.challenge(in.ChallengeID)
	if err != nil {
		return api.Credentials{}, err
	}
	// The try is taken before the nonce is checked, so that no more of them are checked than
	// the limit allows, even of concurrent requests.
	if !limit.TakeAll(limit.Draw{Window: s.Tries, Key: challenge.GetText()}).OK {
		return api.Credentials{}, registration.ErrExpired
	}
	secret := auth.NewSecret(s.Entropy)
	hash := auth.HashSecret(secret)
	made, err := s.Node.Orgs.Register(c.Context(), actors.Solution{
		Challenge: challenge, ChallengeID: in.ChallengeID, Nonce: in.Nonce, Tier: s.TierAtSolve, SecretHash: hash[:],
		NeedsToken: s.Admission == AdmitToken,
	})
	if !errors.Is(err, registration.ErrPowWrong) {
		s.Tries.GiveBack(challenge.GetText())
	}
	if err != nil {
		return api.Credentials{}, err
	}
	if s.Mail != nil {
		s.Mail(made.Org.GetContactEmail(), s.MailToken(made.Org.OrgID(), c.Now().Add(MailTokenLifetime)))
	}
	c.SetHeader("Cache-Control", "no-store")
	return api.Credentials{
		OrgID: made.Org.OrgID(), OrgSlug: made.Org.GetSlug(), ClientID: made.ClientID, ClientSecret: secret,
		TrustTier: int(made.Org.GetTrustTier()), TokenURL: s.BaseURL + "/oauth/token", CreatedAt: api.At(made.Org.CreatedAt()),
	}, nil
}

const (
	// MailTokenLifetime is how long a mailed token is valid.
	MailTokenLifetime = 7 * 24 * time.Hour
	mailTokenList     = "POST /auth/verify-email"
)

// MailToken returns the token that proves access to an organization's mail. Only this
// server can create it, so tokens need not be stored.
func (s Registration) MailToken(id parley.OrgID, expires time.Time) string {
	return s.Cursors.Seal(mailTokenList, binary.BigEndian.AppendUint64(id.Bytes(), uint64(expires.Unix())))
}

// VerifyEmail marks the organization's email as verified when its mailed token comes
// back.
func (s Registration) VerifyEmail(c *rest.Call, in *api.VerifyEmail) (api.VerifiedEmail, error) {
	sealed, err := s.Cursors.Open(mailTokenList, in.Token)
	switch {
	case s.Mail == nil || err != nil || len(sealed) != 24:
		return api.VerifiedEmail{}, errNoSuchToken
	case c.Now().Unix() > int64(binary.BigEndian.Uint64(sealed[16:])):
		return api.VerifiedEmail{}, errLateToken
	}
	o, err := s.Node.Orgs.SetTerms(c.Context(), parley.IDFromBytes[parley.OrgID](sealed[:16]), org.ConfirmEmail{})
	if err != nil {
		return api.VerifiedEmail{}, err
	}
	return api.VerifiedEmail{OrgID: o.OrgID(), OrgSlug: o.GetSlug(), TrustTier: int(o.GetTrustTier())}, nil
}

// Token exchanges client credentials for an access token. Failures count against the
// address of the request, never against the client that it names, so that nobody is
// locked out by the guesses of others.
func (s Registration) Token(c *rest.Call, in *api.TokenRequest) (api.Token, error) {
	id, secret, ok, err := credentialsOf(c, in)
	if err != nil {
		return api.Token{}, err
	}
	// The cost of a failure is taken first, so that no more secrets are checked than the
	// rate allows, even of concurrent requests.
	giveBack, err := s.TakeFailure(c)
	if err != nil {
		return api.Token{}, err
	}
	grant, err := s.client(c, id, secret)
	if !ok {
		err = auth.ErrInvalidClient
		if c.Header("Authorization") == "" && in.ClientID == nil && in.ClientSecret == nil {
			err = errNoCredentials
		}
	}
	if !errors.Is(err, auth.ErrInvalidClient) {
		giveBack()
	}
	if err == nil {
		err = s.TakeToken(c, grant.Client)
	}
	if err != nil {
		return api.Token{}, err
	}
	switch in.GrantType {
	case auth.GrantType:
	case "":
		return api.Token{}, errNoGrant
	default:
		return api.Token{}, errUnsupportedGrant
	}
	if err := s.TakeKeys(c.Context()); err != nil {
		return api.Token{}, err
	}
	token, expires, err := s.Issuer.Mint(grant)
	if err != nil {
		return api.Token{}, err
	}
	s.Node.Orgs.NoteToken(grant.Org, grant.Client)
	c.SetHeader("Pragma", "no-cache")
	return api.Token{
		AccessToken: token, TokenType: "Bearer", ExpiresIn: int(expires.Unix() - c.Now().Unix()), Scope: string(grant.Scope),
	}, nil
}

// credentialsOf returns the credentials of a request, which uses one mechanism only. An empty
// parameter counts as omitted. // source: RFC 6749 sections 2.3 and 3.2
func credentialsOf(c *rest.Call, in *api.TokenRequest) (id, secret string, ok bool, err error) {
	sentID, sentSecret := rest.Text(in.ClientID), rest.Text(in.ClientSecret)
	id, secret, ok = auth.ParseBasic([]byte(c.Header("Authorization")))
	switch {
	case c.Header("Authorization") == "":
		return sentID, sentSecret, in.ClientID != nil && in.ClientSecret != nil, nil
	case sentSecret != "":
		return "", "", false, errTwoMechanisms
	case ok && sentID != "" && !strings.EqualFold(sentID, id):
		return "", "", false, errOtherClient
	}
	return id, secret, ok, nil
}

// client checks credentials, and returns what they are good for. An unknown client takes the same
// time and gives the same error as a wrong secret.
func (s Registration) client(c *rest.Call, id, secret string) (grant auth.Grant, err error) {
	client, malformed := parley.ParseID[parley.ClientID](id)
	var credential *org.Credential
	if malformed == nil {
		if grant, credential, err = s.find(c, client); err != nil {
			return grant, err
		}
	}
	if !auth.CheckSecret(secret, credential.GetSecretHash()) {
		return grant, auth.ErrInvalidClient
	}
	if only := credential.Only(); only != nil {
		active, err := s.Agents.AnyActive(c.Context(), only)
		if err == nil && !active {
			err = auth.ErrInvalidClient.Saying("All agents that the credential is limited to have been revoked.")
		}
		return grant, err
	}
	return grant, nil
}

// find returns a live credential, nil if there is none.
func (s Registration) find(c *rest.Call, client parley.ClientID) (grant auth.Grant, credential *org.Credential, err error) {
	owner, err := s.Node.Orgs.ByClient(c.Context(), client)
	if errors.Is(err, parley.ErrNotFound) {
		return grant, nil, nil
	}
	if err != nil {
		return grant, nil, err
	}
	o, err := s.Node.Orgs.Get(c.Context(), owner)
	switch {
	case errors.Is(err, parley.ErrNotFound), errors.Is(err, journal.ErrErased):
		return grant, nil, nil
	case err != nil:
		return grant, nil, err
	}
	if credential = o.Credential(client); !credential.Live(c.Now()) {
		return grant, nil, nil
	}
	return auth.Grant{Org: owner, Slug: o.GetSlug(), Client: client, Scope: credential.Reach(), Expires: credential.Expires()}, credential, nil
}

// AuthorizationServer describes the token endpoint. source: RFC 8414
func (s Registration) AuthorizationServer(c *rest.Call, _ *api.Nothing) (rest.Rendered, error) {
	return c.Document(api.AuthorizationServer{
		Issuer: s.BaseURL, TokenEndpoint: s.BaseURL + "/oauth/token", JWKSURI: s.BaseURL + "/.well-known/jwks.json",
		Scopes: []string{string(parley.ScopeOrg), string(parley.ScopeAgents), string(parley.ScopeRead)}, ResponseTypes: []string{}, GrantTypes: []string{auth.GrantType},
		AuthMethods: []string{"client_secret_basic", "client_secret_post"}, Documentation: s.BaseURL + "/docs",
	}, s.Started, rest.CacheHour)
}
