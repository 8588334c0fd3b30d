package api

// TokenRequest is the body of POST /oauth/token, form-encoded or JSON. The credentials
// may be in it or in the Authorization header. An empty body requests the
// client_credentials grant.
type TokenRequest struct {
	_ struct{} `form:"true"`

	GrantType    string  `json:"grant_type,omitzero" default:"client_credentials" example:"client_credentials"`
	ClientID     *string `json:"client_id,omitzero"`
	ClientSecret *string `json:"client_secret,omitzero"`
	Scope        *string `json:"scope,omitzero"`
}

// Token is an access token: the answer of POST /oauth/token.
type Token struct {
	// AccessToken is a JWT signed with Ed25519.
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type" enum:"Bearer"`
	// ExpiresIn is the lifetime in seconds.
	ExpiresIn int    `json:"expires_in"`
	Scope     string `json:"scope" enum:"org"`
}

// AuthorizationServer is the answer of GET
// /.well-known/oauth-authorization-server, after RFC 8414.
type AuthorizationServer struct {
	Issuer        string   `json:"issuer"`
	TokenEndpoint string   `json:"token_endpoint"`
	JWKSURI       string   `json:"jwks_uri"`
	Scopes        []string `json:"scopes_supported"`
	// ResponseTypes is empty: there is no authorization endpoint.
	ResponseTypes []string `json:"response_types_supported"`
	GrantTypes    []string `json:"grant_types_supported"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	Documentation string   `json:"service_documentation"`
}

// SigningKey is one public key of those with which the service signs access tokens or the
// A2A cards of agents.
type SigningKey struct {
	KeyType string `json:"kty"`
	Curve   string `json:"crv"`
	X       string `json:"x"`
	// Kid is the RFC 7638 thumbprint, the kid in the header of what the key signed.
	Kid       string `json:"kid"`
	Use       string `json:"use" enum:"sig"`
	Algorithm string `json:"alg" enum:"EdDSA"`
}

// SigningKeys is the answer of GET /.well-known/jwks.json: the keys that sign access tokens
// or will soon, those whose tokens may still be valid, then the same for cards, then every
// key that has signed receipts.
type SigningKeys struct {
	Keys []SigningKey `json:"keys"`
}
