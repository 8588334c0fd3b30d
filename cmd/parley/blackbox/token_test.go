package blackbox

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func (s *server) tokenCall(t testing.TB, body any, headers ...string) *answer {
	return s.call(t, "", "POST", "/oauth/token", body, headers...)
}

func TestTokenForms(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		auth := basic(o.client, o.secret)
		inBody := url.Values{"grant_type": {"client_credentials"}, "client_id": {o.client}, "client_secret": {o.secret}}.Encode()
		cases := map[string]*answer{
			"basic and form":      s.tokenCall(t, verbatim("grant_type=client_credentials"), "Content-Type", form, "Authorization", auth),
			"basic and scope":     s.tokenCall(t, verbatim("grant_type=client_credentials&scope=org"), "Content-Type", form, "Authorization", auth),
			"basic and JSON":      s.tokenCall(t, obj{"grant_type": "client_credentials"}, "Authorization", auth),
			"basic and no body":   s.tokenCall(t, nil, "Authorization", auth),
			"basic and no type":   s.tokenCall(t, verbatim(""), "Content-Type", "", "Authorization", auth),
			"credentials in form": s.tokenCall(t, verbatim(inBody), "Content-Type", form),
			"credentials in JSON": s.tokenCall(t, obj{"grant_type": "client_credentials", "client_id": o.client, "client_secret": o.secret}),
		}
		for name, a := range cases {
			a.as("%s", name).want(200).is("token_type", "Bearer", "expires_in", 900, "scope", "org")
			if a.header.Get("Cache-Control") != "no-store" {
				a.errorf("Cache-Control is %q", a.header.Get("Cache-Control"))
			}
			s.call(t, a.str("access_token"), "GET", "/org", nil).as("%s", name).want(200).is("id", o.id)
		}
	})
}

func TestTokenRefusals(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		cases := map[string]*answer{
			"wrong secret":      s.grant(t, o.client, "wrong"),
			"empty secret":      s.grant(t, o.client, ""),
			"unknown client":    s.grant(t, nobody, o.secret),
			"nothing":           s.tokenCall(t, nil),
			"not basic":         s.tokenCall(t, nil, "Authorization", "Bearer "+o.token),
			"basic not base64":  s.tokenCall(t, nil, "Authorization", "Basic %%%"),
			"basic with no sep": s.tokenCall(t, nil, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("abc"))),
			"wrong in the body": s.tokenCall(t, obj{"grant_type": "client_credentials", "client_id": o.client, "client_secret": "no"}),
		}
		for name, a := range cases {
			a.as("%s", name).want(401).is("error", "invalid_client")
			if !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Basic") {
				a.errorf("WWW-Authenticate is %q", a.header.Get("WWW-Authenticate"))
			}
			if a.str("detail") == "" {
				a.errorf("no detail")
			}
		}
		a := s.tokenCall(t, verbatim("grant_type=password"), "Content-Type", "application/x-www-form-urlencoded", "Authorization", basic(o.client, o.secret))
		a.want(400).is("error", "unsupported_grant_type")
		a.str("detail")
	})
}

// claimsOf decodes a token without verifying its signature.
func claimsOf(t testing.TB, token string) (header, claims obj, signed string, signature []byte) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("not a JWS: %s", token)
	}
	for i, into := range []*obj{&header, &claims} {
		plain, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(plain, into) != nil {
			t.Fatalf("part %d of the token is not JSON: %s", i, token)
		}
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	return header, claims, parts[0] + "." + parts[1], signature
}

func TestTokenIsSignedByAPublishedKey(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		header, claims, signed, signature := claimsOf(t, o.token)
		shaped(t, "claims", claims, "iss:str aud:any sub:uuid org_id:uuid org_slug:str client_id:str iat:int nbf:int exp:int jti:str")
		if header["alg"] != "EdDSA" || header["typ"] != "at+jwt" {
			t.Errorf("header %v", header)
		}
		if claims["sub"] != o.id || claims["org_id"] != o.id || claims["org_slug"] != o.slug || claims["client_id"] != o.client {
			t.Errorf("claims %v of %s %s", claims, o.id, o.slug)
		}
		if claims["exp"].(float64)-claims["iat"].(float64) != 900 {
			t.Errorf("lifetime: %v", claims)
		}
		jwks := s.call(t, "", "GET", "/.well-known/jwks.json", nil).want(200)
		if !strings.Contains(jwks.header.Get("Cache-Control"), "max-age=3600") {
			jwks.errorf("Cache-Control is %q", jwks.header.Get("Cache-Control"))
		}
		verified := false
		keys, _ := jwks.at("keys").([]any)
		for _, k := range objects(keys) {
			raw, err := base64.RawURLEncoding.DecodeString(text(k, "x"))
			if err != nil || len(raw) != 32 || k["kty"] != "OKP" || k["crv"] != "Ed25519" || k["d"] != nil || k["kid"] != thumbprint("Ed25519", raw) {
				t.Fatalf("not a public Ed25519 key with its thumbprint: %v", k)
			}
			verified = verified || k["kid"] == header["kid"] && ed25519.Verify(raw, []byte(signed), signature)
		}
		if !verified {
			t.Errorf("no published key verifies the token: %s", jwks.raw)
		}
	})
}

func TestOAuthMetadata(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		a := s.call(t, "", "GET", "/.well-known/oauth-authorization-server", nil).want(200)
		a.shaped("issuer:str token_endpoint:str jwks_uri:str grant_types_supported:arr token_endpoint_auth_methods_supported:arr")
		_, claims, _, _ := claimsOf(t, s.org(t).token)
		a.is("issuer", claims["iss"], "token_endpoint", s.base+"/oauth/token", "jwks_uri", s.base+"/.well-known/jwks.json")
		if !slices.Contains(a.at("grant_types_supported").([]any), "client_credentials") {
			a.errorf("grant_types_supported")
		}
		if !slices.Contains(a.at("token_endpoint_auth_methods_supported").([]any), "client_secret_basic") {
			a.errorf("token_endpoint_auth_methods_supported")
		}
	})
}

func TestUnauthenticated(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		try := func(authorization string) *answer {
			return s.call(t, "", "GET", "/org", nil, "Authorization", authorization)
		}
		try("").as("none").refused(401, "not_authenticated")
		try(basic(o.client, o.secret)).as("basic").refused(401, "not_authenticated")
		try("Bearer garbage").as("garbage").refused(401, "invalid_token")
		try("Bearer a.b.c").as("three parts").refused(401, "invalid_token")
		try("Bearer "+o.token+".x").as("four parts").refused(401, "invalid_token")
		if a := try("Bearer ").as("empty").want(401); a.at("error") != "AuthenticationError" && a.at("error") != "InvalidTokenError" {
			a.errorf("want a class of 401")
		}
		parts := strings.Split(o.token, ".")
		flipped := "A"
		if strings.HasPrefix(parts[2], "A") {
			flipped = "B"
		}
		for name, token := range map[string]string{
			"bad signature":  parts[0] + "." + parts[1] + "." + flipped + parts[2][1:],
			"foreign key":    forged(t, o.token, "EdDSA"),
			"foreign claims": parts[0] + "." + b64([]byte(`{"sub":"`+o.id+`","org_id":"`+o.id+`"}`)) + "." + parts[2],
		} {
			a := try("Bearer "+token).as("%s", name).want(401).is("error", "AuthenticationError")
			a.identified()
		}
		unsigned := b64([]byte(`{"alg":"none","typ":"at+jwt"}`)) + "." + parts[1] + "."
		try("Bearer " + unsigned).as("alg none").want(401).identified()
		try("Bearer " + forged(t, o.token, "HS256")).as("alg HS256").want(401).identified()
		try("Bearer " + o.token).want(200)
	})
}

// forged returns the token signed by another key under the server's kid.
func forged(t testing.TB, token, alg string) string {
	header, _, _, _ := claimsOf(t, token)
	header["alg"] = alg
	plain, _ := json.Marshal(header)
	signed := b64(plain) + "." + strings.Split(token, ".")[1]
	sign, _ := newKeys()
	return signed + "." + b64(ed25519.Sign(sign, []byte(signed)))
}

func TestEveryRouteOfOurOwnAsksForAToken(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		for _, r := range ownRoutes {
			path := strings.ReplaceAll(r.path, "{id}", nobody)
			s.call(t, "", r.method, path, verbatim("{"), "Content-Type", "application/json").refused(401, "not_authenticated")
		}
	})
}
