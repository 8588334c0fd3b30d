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

func (s *Server) tokenCall(t testing.TB, body any, headers ...string) *Answer {
	return s.Call(t, "", "POST", "/oauth/token", body, headers...)
}

func TestTokenForms(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	Each(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		auth := Basic(o.Client, o.Secret)
		inBody := url.Values{"grant_type": {"client_credentials"}, "client_id": {o.Client}, "client_secret": {o.Secret}}.Encode()
		cases := map[string]*Answer{
			"basic and form":      s.tokenCall(t, Verbatim("grant_type=client_credentials"), "Content-Type", form, "Authorization", auth),
			"basic and scope":     s.tokenCall(t, Verbatim("grant_type=client_credentials&scope=org"), "Content-Type", form, "Authorization", auth),
			"basic and JSON":      s.tokenCall(t, obj{"grant_type": "client_credentials"}, "Authorization", auth),
			"basic and no body":   s.tokenCall(t, nil, "Authorization", auth),
			"basic and no type":   s.tokenCall(t, Verbatim(""), "Content-Type", "", "Authorization", auth),
			"credentials in form": s.tokenCall(t, Verbatim(inBody), "Content-Type", form),
			"credentials in JSON": s.tokenCall(t, obj{"grant_type": "client_credentials", "client_id": o.Client, "client_secret": o.Secret}),
		}
		for name, a := range cases {
			a.As("%s", name).Want(200).Is("token_type", "Bearer", "expires_in", 900, "scope", "org")
			if a.Header.Get("Cache-Control") != "no-store" {
				a.Errorf("Cache-Control is %q", a.Header.Get("Cache-Control"))
			}
			s.Call(t, a.Str("access_token"), "GET", "/org", nil).As("%s", name).Want(200).Is("id", o.ID)
		}
	})
}

func TestTokenRefusals(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		cases := map[string]*Answer{
			"wrong secret":      s.Grant(t, o.Client, "wrong"),
			"empty secret":      s.Grant(t, o.Client, ""),
			"unknown client":    s.Grant(t, Nobody, o.Secret),
			"nothing":           s.tokenCall(t, nil),
			"not basic":         s.tokenCall(t, nil, "Authorization", "Bearer "+o.Token),
			"basic not base64":  s.tokenCall(t, nil, "Authorization", "Basic %%%"),
			"basic with no sep": s.tokenCall(t, nil, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("abc"))),
			"wrong in the body": s.tokenCall(t, obj{"grant_type": "client_credentials", "client_id": o.Client, "client_secret": "no"}),
		}
		for name, a := range cases {
			a.As("%s", name).Want(401).Is("error", "invalid_client")
			if !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Basic") {
				a.Errorf("WWW-Authenticate is %q", a.Header.Get("WWW-Authenticate"))
			}
			if a.Str("detail") == "" {
				a.Errorf("no detail")
			}
		}
		a := s.tokenCall(t, Verbatim("grant_type=password"), "Content-Type", "application/x-www-form-urlencoded", "Authorization", Basic(o.Client, o.Secret))
		a.Want(400).Is("error", "unsupported_grant_type")
		a.Str("detail")
	})
}

// ClaimsOf decodes a token without verifying its signature.
func ClaimsOf(t testing.TB, token string) (header, claims obj, signed string, signature []byte) {
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
	Each(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		header, claims, signed, signature := ClaimsOf(t, o.Token)
		Shaped(t, "claims", claims, "iss:str aud:any sub:uuid org_id:uuid org_slug:str client_id:str iat:int nbf:int exp:int jti:str")
		if header["alg"] != "EdDSA" || header["typ"] != "at+jwt" {
			t.Errorf("header %v", header)
		}
		if claims["sub"] != o.ID || claims["org_id"] != o.ID || claims["org_slug"] != o.Slug || claims["client_id"] != o.Client {
			t.Errorf("claims %v of %s %s", claims, o.ID, o.Slug)
		}
		if claims["exp"].(float64)-claims["iat"].(float64) != 900 {
			t.Errorf("lifetime: %v", claims)
		}
		jwks := s.Call(t, "", "GET", "/.well-known/jwks.json", nil).Want(200)
		if !strings.Contains(jwks.Header.Get("Cache-Control"), "max-age=3600") {
			jwks.Errorf("Cache-Control is %q", jwks.Header.Get("Cache-Control"))
		}
		verified := false
		keys, _ := jwks.At("keys").([]any)
		for _, k := range Objects(keys) {
			raw, err := base64.RawURLEncoding.DecodeString(Text(k, "x"))
			if err != nil || len(raw) != 32 || k["kty"] != "OKP" || k["crv"] != "Ed25519" || k["d"] != nil || k["kid"] != Thumbprint("Ed25519", raw) {
				t.Fatalf("not a public Ed25519 key with its thumbprint: %v", k)
			}
			verified = verified || k["kid"] == header["kid"] && ed25519.Verify(raw, []byte(signed), signature)
		}
		if !verified {
			t.Errorf("no published key verifies the token: %s", jwks.Raw)
		}
	})
}

func TestOAuthMetadata(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		a := s.Call(t, "", "GET", "/.well-known/oauth-authorization-server", nil).Want(200)
		a.Shaped("issuer:str token_endpoint:str jwks_uri:str grant_types_supported:arr token_endpoint_auth_methods_supported:arr")
		_, claims, _, _ := ClaimsOf(t, s.Org(t).Token)
		a.Is("issuer", claims["iss"], "token_endpoint", s.Base+"/oauth/token", "jwks_uri", s.Base+"/.well-known/jwks.json")
		if !slices.Contains(a.At("grant_types_supported").([]any), "client_credentials") {
			a.Errorf("grant_types_supported")
		}
		if !slices.Contains(a.At("token_endpoint_auth_methods_supported").([]any), "client_secret_basic") {
			a.Errorf("token_endpoint_auth_methods_supported")
		}
	})
}

func TestUnauthenticated(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		o := s.Org(t)
		try := func(authorization string) *Answer {
			return s.Call(t, "", "GET", "/org", nil, "Authorization", authorization)
		}
		try("").As("none").Refused(401, "not_authenticated")
		try(Basic(o.Client, o.Secret)).As("basic").Refused(401, "not_authenticated")
		try("Bearer garbage").As("garbage").Refused(401, "invalid_token")
		try("Bearer a.b.c").As("three parts").Refused(401, "invalid_token")
		try("Bearer "+o.Token+".x").As("four parts").Refused(401, "invalid_token")
		if a := try("Bearer ").As("empty").Want(401); a.At("error") != "AuthenticationError" && a.At("error") != "InvalidTokenError" {
			a.Errorf("want a class of 401")
		}
		parts := strings.Split(o.Token, ".")
		flipped := "A"
		if strings.HasPrefix(parts[2], "A") {
			flipped = "B"
		}
		for name, token := range map[string]string{
			"bad signature":  parts[0] + "." + parts[1] + "." + flipped + parts[2][1:],
			"foreign key":    forged(t, o.Token, "EdDSA"),
			"foreign claims": parts[0] + "." + B64([]byte(`{"sub":"`+o.ID+`","org_id":"`+o.ID+`"}`)) + "." + parts[2],
		} {
			a := try("Bearer "+token).As("%s", name).Want(401).Is("error", "AuthenticationError")
			a.Identified()
		}
		unsigned := B64([]byte(`{"alg":"none","typ":"at+jwt"}`)) + "." + parts[1] + "."
		try("Bearer " + unsigned).As("alg none").Want(401).Identified()
		try("Bearer " + forged(t, o.Token, "HS256")).As("alg HS256").Want(401).Identified()
		try("Bearer " + o.Token).Want(200)
	})
}

// forged returns the token signed by another key under the server's kid.
func forged(t testing.TB, token, alg string) string {
	header, _, _, _ := ClaimsOf(t, token)
	header["alg"] = alg
	plain, _ := json.Marshal(header)
	signed := B64(plain) + "." + strings.Split(token, ".")[1]
	sign, _ := NewKeys()
	return signed + "." + B64(ed25519.Sign(sign, []byte(signed)))
}

func TestEveryRouteOfOurOwnAsksForAToken(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		for _, r := range OwnRoutes {
			path := strings.ReplaceAll(r.Path, "{id}", Nobody)
			s.Call(t, "", r.Method, path, Verbatim("{"), "Content-Type", "application/json").Refused(401, "not_authenticated")
		}
	})
}
