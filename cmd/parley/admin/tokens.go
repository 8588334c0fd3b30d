package admin

import (
	"fmt"
	"net/http"
	"regexp"
	"time"

	"parley/actors"
	"parley/actors/operator"
	"parley/actors/org"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/auth"
)

// TokenEndpoint makes, lists and revokes the tokens of operators, and those to register with.
type TokenEndpoint struct {
	Node    *actors.Node
	Clock   parley.Clock
	Entropy parley.Entropy
}

// OperatorToken is the token of an operator.
type OperatorToken struct {
	ID   parley.OperatorID `json:"id"`
	Name string            `json:"name"`
	Role operator.Role     `json:"role"`
	// Token is shown once, when it is made.
	Token     string   `json:"token,omitzero"`
	CreatedAt api.Time `json:"created_at"`
}

// NewOperatorToken is the body of POST /operator-tokens.
type NewOperatorToken struct {
	Name string        `json:"name"`
	Role operator.Role `json:"role"`
}

// RegistrationToken admits organizations to the server.
type RegistrationToken struct {
	ID parley.RegistrationID `json:"id"`
	// Token is shown once, when it is made.
	Token string `json:"token,omitzero"`
	// Uses is how many organizations it admits, Used how many it has admitted.
	Uses int `json:"uses"`
	Used int `json:"used"`
	// Tier is the trust tier of those organizations, null for that of other registrations.
	Tier      *int     `json:"tier"`
	CreatedAt api.Time `json:"created_at"`
	ExpiresAt api.Time `json:"expires_at"`
}

// NewRegistrationToken is the body of POST /registration-tokens.
type NewRegistrationToken struct {
	Uses int `json:"uses"`
	// Seconds is how long it admits.
	Seconds int64 `json:"seconds"`
	Tier    *int  `json:"tier,omitzero"`
}

// registrationMost is how long a registration token may live.
const registrationMost = 3650 * 24 * time.Hour

var (
	operatorName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	errTokenName = errBadRequest.Saying("The name of an operator token has 1 to 64 lowercase letters, digits, dots, hyphens and underscores, and begins with a letter or a digit.")
	errLifetime  = errBadRequest.Saying("A registration token lives for at least a second and at most 3650 days.")
)

// Mount adds the calls.
func (d *TokenEndpoint) Mount(calls *Calls) {
	calls.Show(operator.RoleAdmin, "GET /operator-tokens", func(w http.ResponseWriter, r *http.Request) {
		s, err := d.Node.Operators.Tokens(r.Context())
		all := []OperatorToken{}
		for _, t := range s.GetTokens() {
			all = append(all, shownToken(t))
		}
		Answer(w, all, err)
	})
	calls.Change(operator.RoleAdmin, "/operator-tokens", answers(d.addToken))
	calls.Change(operator.RoleAdmin, "/operator-tokens/{name}/revoke", answers(func(r *http.Request) (any, error) {
		return struct{}{}, d.Node.Operators.RevokeToken(r.Context(), r.PathValue("name"))
	}))
	calls.Show(operator.RoleAdmin, "GET /registration-tokens", func(w http.ResponseWriter, r *http.Request) {
		s, err := d.Node.Operators.Tokens(r.Context())
		all := []RegistrationToken{}
		for _, t := range s.GetRegistrations() {
			if d.Clock().UnixMilli() < t.GetExpiresMs() {
				all = append(all, shownRegistration(t))
			}
		}
		Answer(w, all, err)
	})
	calls.Change(operator.RoleAdmin, "/registration-tokens", answers(d.addRegistration))
	calls.Change(operator.RoleAdmin, "/registration-tokens/{id}/revoke", answers(func(r *http.Request) (any, error) {
		id, err := parley.ParseID[parley.RegistrationID](r.PathValue("id"))
		if err != nil {
			return nil, errBadRequest.Saying(fmt.Sprintf("%q is not the id of a registration token.", r.PathValue("id")))
		}
		return struct{}{}, d.Node.Operators.RevokeRegistration(r.Context(), id)
	}))
}

// answers returns a handler that answers with what fn returns.
func answers(fn func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		value, err := fn(r)
		Answer(w, value, err)
	}
}

func (d *TokenEndpoint) addToken(r *http.Request) (any, error) {
	var in NewOperatorToken
	if err := ReadRequest(r, &in); err != nil {
		return nil, err
	}
	if !operatorName.MatchString(in.Name) {
		return nil, errTokenName
	}
	token := auth.NewToken(auth.OperatorTokenPrefix, d.Entropy)
	hash := auth.HashSecret(token)
	s, err := d.Node.Operators.AddToken(r.Context(), operator.AddToken{Name: in.Name, Role: in.Role, Hash: hash[:]})
	if err != nil {
		return nil, err
	}
	shown := shownToken(s.Operator(hash[:]))
	shown.Token = token
	return shown, nil
}

func (d *TokenEndpoint) addRegistration(r *http.Request) (any, error) {
	var in NewRegistrationToken
	if err := ReadRequest(r, &in); err != nil {
		return nil, err
	}
	if in.Tier != nil && (*in.Tier < 0 || *in.Tier > org.TierMax) {
		return nil, org.ErrNoSuchTier
	}
	if in.Seconds < 1 || in.Seconds > int64(registrationMost/time.Second) {
		return nil, errLifetime
	}
	token := auth.NewToken(auth.RegistrationTokenPrefix, d.Entropy)
	hash := auth.HashSecret(token)
	s, err := d.Node.Operators.AddRegistration(r.Context(), operator.AddRegistration{
		Hash: hash[:], Uses: in.Uses, Expires: d.Clock().Add(time.Duration(in.Seconds) * time.Second), Tier: in.Tier,
	})
	if err != nil {
		return nil, err
	}
	added := s.GetRegistrations()[len(s.GetRegistrations())-1]
	shown := shownRegistration(added)
	shown.Token = token
	return shown, nil
}

func shownToken(t *operator.Token) OperatorToken {
	return OperatorToken{
		ID: parley.IDFromBytes[parley.OperatorID](t.GetId()), Name: t.GetName(), Role: operator.Role(t.GetRole()), CreatedAt: api.At(time.UnixMilli(t.GetCreatedMs())),
	}
}

func shownRegistration(t *operator.Registration) RegistrationToken {
	shown := RegistrationToken{
		ID: parley.IDFromBytes[parley.RegistrationID](t.GetId()), Uses: int(t.GetUses()), Used: int(t.GetUsed()),
		CreatedAt: api.At(time.UnixMilli(t.GetCreatedMs())), ExpiresAt: api.At(time.UnixMilli(t.GetExpiresMs())),
	}
	if t.Tier != nil {
		shown.Tier = new(int(t.GetTier()))
	}
	return shown
}
