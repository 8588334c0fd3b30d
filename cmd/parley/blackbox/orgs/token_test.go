package orgs

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

func tokenCall(t testing.TB, s *kit.Server, body any, headers ...string) *kit.Answer {
	return s.Call(t, "", "POST", "/oauth/token", body, headers...)
}

func TestTokenForms(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		auth := kit.Basic(o.Client, o.Secret)
		inBody := url.Values{"grant_type": {"client_credentials"}, "client_id": {o.Client}, "client_secret": {o.Secret}}.Encode()
		cases := map[string]*kit.Answer{
			"basic and form":      tokenCall(t, s, kit.Verbatim("grant_type=client_credentials"), "Content-Type", form, "Authorization", auth),
			"basic and scope":     tokenCall(t, s, kit.Verbatim("grant_type=client_credentials&scope=org"), "Content-Type", form, "Authorization", auth),
			"basic and JSON":      tokenCall(t, s, obj{"grant_type": "client_credentials"}, "Authorization", auth),
			"credentials in form": tokenCall(t, s, kit.Verbatim(inBody), "Content-Type", form),
			"credentials in JSON": tokenCall(t, s, obj{"grant_type": "client_credentials", "client_id": o.Client, "client_secret": o.Secret}),
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

// TestTokenRequests: what makes a request invalid comes before the client is checked, but for a
// missing grant type. source: RFC 6749 sections 2.3, 3.2 and 5.2
func TestTokenRequests(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		const form = "application/x-www-form-urlencoded"
		right, wrong := kit.Basic(o.Client, o.Secret), kit.Basic(o.Client, "wrong")
		ask := func(body, authorization string) *kit.Answer {
			return tokenCall(t, s, kit.Verbatim(body), "Content-Type", form, "Authorization", authorization).As("%s", body)
		}
		own := "&client_id=" + o.Client
		for _, body := range []string{
			"grant_type=client_credentials&grant_type=client_credentials", "grant_type=client_credentials&x=1&x=2",
			"grant_type=client_credentials" + own + "&client_secret=" + o.Secret, "grant_type=client_credentials&client_id=" + kit.Nobody,
		} {
			for _, authorization := range []string{right, wrong} {
				ask(body, authorization).Want(400).Is("error", "invalid_request").Str("detail")
			}
		}
		for _, body := range []string{"", "grant_type=", "scope=org"} {
			ask(body, right).Want(400).Is("error", "invalid_request").Str("detail")
			ask(body, wrong).Want(401).Is("error", "invalid_client")
		}
		tokenCall(t, s, nil, "Authorization", right).As("no body").Want(400).Is("error", "invalid_request")
		tokenCall(t, s, kit.Verbatim(`{"grant_type":"client_credentials","grant_type":"client_credentials"}`), "Content-Type", "application/json", "Authorization", right).
			As("a member twice").Want(400).Is("error", "invalid_request")
		ask("grant_type=client_credentials"+own+"&client_secret=", right).Want(200)
		ask("grant_type=client_credentials&scope=everything", right).Want(200).Is("scope", "org")
		if a := tokenCall(t, s, nil).As("no credentials").Want(401).Is("error", "invalid_client"); !strings.Contains(a.Str("detail"), "No client credentials") {
			a.Errorf("want a detail that says so")
		}
	})
}

func TestTokenRefusals(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		cases := map[string]*kit.Answer{
			"wrong secret":      s.Grant(t, o.Client, "wrong"),
			"empty secret":      s.Grant(t, o.Client, ""),
			"unknown client":    s.Grant(t, kit.Nobody, o.Secret),
			"nothing":           tokenCall(t, s, nil),
			"not basic":         tokenCall(t, s, nil, "Authorization", "Bearer "+o.Token),
			"basic not base64":  tokenCall(t, s, nil, "Authorization", "Basic %%%"),
			"basic with no sep": tokenCall(t, s, nil, "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("abc"))),
			"wrong in the body": tokenCall(t, s, obj{"grant_type": "client_credentials", "client_id": o.Client, "client_secret": "no"}),
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
		a := tokenCall(t, s, kit.Verbatim("grant_type=password"), "Content-Type", "application/x-www-form-urlencoded", "Authorization", kit.Basic(o.Client, o.Secret))
		a.Want(400).Is("error", "unsupported_grant_type")
		a.Str("detail")
	})
}

func TestTokenIsSignedByAPublishedKey(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		header, claims, signed, signature := kit.ClaimsOf(t, o.Token)
		kit.Shaped(t, "claims", claims, "iss:str aud:any sub:uuid org_id:uuid org_slug:str client_id:str iat:int nbf:int exp:int jti:str")
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
		for _, k := range kit.Objects(keys) {
			raw, err := base64.RawURLEncoding.DecodeString(kit.Text(k, "x"))
			if err != nil || len(raw) != 32 || k["kty"] != "OKP" || k["crv"] != "Ed25519" || k["d"] != nil || k["kid"] != kit.Thumbprint("Ed25519", raw) {
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
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		a := s.Call(t, "", "GET", "/.well-known/oauth-authorization-server", nil).Want(200)
		a.Shaped("issuer:str token_endpoint:str jwks_uri:str grant_types_supported:arr token_endpoint_auth_methods_supported:arr")
		_, claims, _, _ := kit.ClaimsOf(t, s.Org(t).Token)
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
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		try := func(authorization string) *kit.Answer {
			return s.Call(t, "", "GET", "/org", nil, "Authorization", authorization)
		}
		try("").As("none").Refused(401, "not_authenticated")
		try(kit.Basic(o.Client, o.Secret)).As("basic").Refused(401, "not_authenticated")
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
			"foreign claims": parts[0] + "." + kit.B64([]byte(`{"sub":"`+o.ID+`","org_id":"`+o.ID+`"}`)) + "." + parts[2],
		} {
			a := try("Bearer "+token).As("%s", name).Want(401).Is("error", "AuthenticationError")
			a.Identified()
		}
		unsigned := kit.B64([]byte(`{"alg":"none","typ":"at+jwt"}`)) + "." + parts[1] + "."
		try("Bearer " + unsigned).As("alg none").Want(401).Identified()
		try("Bearer " + forged(t, o.Token, "HS256")).As("alg HS256").Want(401).Identified()
		try("Bearer " + o.Token).Want(200)
	})
}

// forged returns the token signed by another key under the server's kid.
func forged(t testing.TB, token, alg string) string {
	header, _, _, _ := kit.ClaimsOf(t, token)
	header["alg"] = alg
	plain, _ := json.Marshal(header)
	signed := kit.B64(plain) + "." + strings.Split(token, ".")[1]
	sign, _ := kit.NewKeys()
	return signed + "." + kit.B64(ed25519.Sign(sign, []byte(signed)))
}

func TestEveryRouteOfOurOwnAsksForAToken(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		for _, r := range kit.OwnRoutes {
			path := strings.ReplaceAll(r.Path, "{id}", kit.Nobody)
			s.Call(t, "", r.Method, path, kit.Verbatim("{"), "Content-Type", "application/json").Refused(401, "not_authenticated")
		}
	})
}
