package client_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
)

var handleOfBob = parley.Handle{Name: "bob", Slug: "acme", Domain: "svc.test"}

// identityOf returns documents that agree about an agent with the handle of Bob.
func identityOf() *client.Identity {
	key := func(curve string, b byte) api.JWK { return api.NewJWK(curve, bytes.Repeat([]byte{b}, 32)) }
	signing, encryption := key(parley.Ed25519, 1), key(parley.X25519, 2)
	handle, id := handleOfBob.String(), parley.AgentID{15: 7}
	did := api.NewDIDDocument(handleOfBob, signing, encryption, api.DIDService{ID: "#messaging", Type: api.ServiceMessaging, ServiceEndpoint: "https://svc.test/messages"})
	return &client.Identity{
		Keys: &api.AgentKeys{AgentID: id, Handle: &handle, SigningPublicKey: &signing, EncryptionPublicKey: &encryption},
		WebFinger: &api.WebFinger{
			Subject: handleOfBob.Account(), Aliases: []string{handleOfBob.DID()},
			Links: []api.WebFingerLink{{Rel: api.RelSelf, Href: "https://svc.test/agents/" + id.String() + "/card"}},
		},
		DID: &did,
	}
}

// TestDifferences: every document that is about another agent, or lists another key, is
// noticed; documents that agree are not.
func TestDifferences(t *testing.T) {
	if found := identityOf().Differences(handleOfBob); found != nil {
		t.Errorf("documents that agree differ: %q", found)
	}
	other, otherX := api.NewJWK(parley.Ed25519, bytes.Repeat([]byte{3}, 32)), api.NewJWK(parley.X25519, bytes.Repeat([]byte{4}, 32))
	for name, change := range map[string]struct {
		change func(*client.Identity)
		want   int
	}{
		"keys of another handle":   {func(i *client.Identity) { *i.Keys.Handle = "eve@acme.svc.test" }, 1},
		"keys of no handle":        {func(i *client.Identity) { i.Keys.Handle = nil }, 1},
		"another agent's id":       {func(i *client.Identity) { i.Keys.AgentID = parley.AgentID{15: 8} }, 1},
		"another subject":          {func(i *client.Identity) { i.WebFinger.Subject = "acct:eve@acme.svc.test" }, 1},
		"no alias":                 {func(i *client.Identity) { i.WebFinger.Aliases = nil }, 1},
		"no link":                  {func(i *client.Identity) { i.WebFinger.Links = nil }, 1},
		"a link of another kind":   {func(i *client.Identity) { i.WebFinger.Links[0].Rel = api.RelAgentCard }, 1},
		"another DID":              {func(i *client.Identity) { i.DID.ID = "did:web:acme.svc.test:agents:eve" }, 4},
		"another signing key":      {func(i *client.Identity) { i.Keys.SigningPublicKey = &other }, 2},
		"another encryption key":   {func(i *client.Identity) { i.Keys.EncryptionPublicKey = &otherX }, 1},
		"no signing key":           {func(i *client.Identity) { i.Keys.SigningPublicKey = nil }, 2},
		"a key under the same kid": {func(i *client.Identity) { i.DID.VerificationMethod[0].PublicKeyJWK.X = other.X }, 2},
		"a key on another curve":   {func(i *client.Identity) { i.DID.VerificationMethod[0].PublicKeyJWK.Curve = parley.X25519 }, 2},
		"two keys of one id": {func(i *client.Identity) {
			twin := i.DID.VerificationMethod[0]
			twin.PublicKeyJWK = other
			i.DID.VerificationMethod = append([]api.VerificationMethod{twin}, i.DID.VerificationMethod...)
		}, 2},
		"a key more for a use":   {func(i *client.Identity) { i.DID.KeyAgreement = append(i.DID.KeyAgreement, "#more") }, 1},
		"no key for a use":       {func(i *client.Identity) { i.DID.Authentication = nil }, 1},
		"an unknown key":         {func(i *client.Identity) { i.DID.AssertionMethod[0] = "#none" }, 1},
		"another key's use":      {func(i *client.Identity) { i.DID.KeyAgreement = slices.Clone(i.DID.Authentication) }, 1},
		"a foreign controller":   {func(i *client.Identity) { i.DID.VerificationMethod[1].Controller = "did:web:evil.test" }, 1},
		"the control: a service": {func(i *client.Identity) { i.DID.Service = nil }, 0},
	} {
		i := identityOf()
		// The uses of the signing key share no memory with each other.
		i.DID.AssertionMethod = slices.Clone(i.DID.AssertionMethod)
		change.change(i)
		if found := i.Differences(handleOfBob); len(found) != change.want {
			t.Errorf("%s: %q, want %d", name, found, change.want)
		}
	}
}

// TestIdentityRequests: the keys come from the server, the other documents from the host,
// and without a host from the server too.
func TestIdentityRequests(t *testing.T) {
	asked := map[string][]string{}
	serve := func(name string) *client.Session {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[name] = append(asked[name], r.URL.RequestURI()+" "+r.Header.Get("Accept"))
			if r.Header.Get("Authorization") != "" {
				t.Error("a token was sent")
			}
			if r.URL.Query().Get("resource") == "acct:nobody@acme.svc.test" {
				w.WriteHeader(404)
				_, _ = w.Write([]byte(`{"detail":"None.","error":"NotFoundError","code":"not_found"}`))
				return
			}
			_, _ = w.Write([]byte(`{}`))
		}))
		t.Cleanup(server.Close)
		c, err := client.New(server.URL, client.WithHTTPClient(server.Client()))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	from, host := serve("server"), serve("host")
	finger, keys := "/.well-known/webfinger?resource=acct%3Abob%40acme.svc.test application/jrd+json", "/agents/bob@acme.svc.test/keys application/json"
	for _, c := range []struct {
		host *client.Session
		want map[string][]string
	}{
		{host, map[string][]string{"server": {keys}, "host": {finger, "/agents/bob/did.json application/did+json"}}},
		{nil, map[string][]string{"server": {keys, finger, "/agents/bob@acme.svc.test/did.json application/did+json"}}},
	} {
		clear(asked)
		if _, err := from.Directory.Identity(t.Context(), handleOfBob, c.host); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"server", "host"} {
			if !slices.Equal(asked[name], c.want[name]) {
				t.Errorf("%s was asked %q, want %q", name, asked[name], c.want[name])
			}
		}
	}
	clear(asked)
	if _, err := from.Directory.WebFinger(t.Context(), "acct:bob@acme.svc.test", "did", "self"); err != nil || asked["server"][0] != "/.well-known/webfinger?rel=did&rel=self&resource=acct%3Abob%40acme.svc.test application/jrd+json" {
		t.Errorf("%q, %v", asked, err)
	}
	if _, err := from.Directory.Identity(t.Context(), parley.Handle{Name: "nobody", Slug: "acme", Domain: "svc.test"}, nil); !errors.Is(err, client.NotFound) {
		t.Errorf("an unknown agent: %v", err)
	}
}
