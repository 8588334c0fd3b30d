package http

import (
	"context"
	"strings"
	"testing"
	"time"

	"parley/actors/agent"
	"parley/actors/org"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/auth"
)

func cardKeyOf(letter byte) auth.SigningKey {
	return auth.NewSigningKey([]byte(strings.Repeat(string(letter), 32)), time.Now())
}

// TestA2ACardIsSignedOnce: a card is signed again only when it shows something new or is
// signed with another key.
func TestA2ACardIsSignedOnce(t *testing.T) {
	h := newCardHarness(t)
	made, show := 0, h.service.bridgeCards.Show
	h.service.bridgeCards.Show = func(a *agent.State, o *org.State, stored *record.Card) api.Card {
		made++
		return show(a, o, stored)
	}
	path := "/a2a/" + h.art + "/agent.json"
	seen := map[string]bool{}
	for n, change := range []func(){
		func() {},
		func() {
			h.first.publish(h.art, card{"name": "Interpreter", "svc": card{"a2a_enabled": true}})
		},
		func() { h.first.ask("PATCH", "/agents/"+h.art, `{"human_oversight":true}`).want(200) },
		func() { h.service.bridgeCards.SetKeys(auth.KeySet{Current: cardKeyOf('n')}) },
	} {
		change()
		for range 3 {
			seen[string(h.public().ask("GET", path, "").want(200).raw)] = true
		}
		if made != n+1 || len(seen) != n+1 {
			t.Fatalf("after change %d, %d cards were made, %d were different", n, made, len(seen))
		}
	}
	for _, c := range []struct {
		erased parley.OrgID
		made   int
	}{{h.second.owner, 4}, {h.first.owner, 5}} {
		h.service.forget(c.erased)
		if h.public().ask("GET", path, "").want(200); made != c.made {
			t.Errorf("%d cards were made, want %d: only those of an erased organization are dropped", made, c.made)
		}
	}
}

// TestCardKeySignsNoTokens: a token that is signed with the key of cards is rejected, and
// no key of cards signs tokens.
func TestCardKeySignsNoTokens(t *testing.T) {
	h := harnessInMemory(t, 1)
	defer h.close()
	for _, c := range []struct {
		keys auth.KeySet
		want string
	}{{h.service.bridgeCards.Keys(), "HTTP/1.1 401 "}, {h.service.Issuer.Keys(), "HTTP/1.1 200 "}} {
		other := auth.NewIssuer("https://home.example", "https://home.example", c.keys, time.Now, h.service.Entropy)
		token, _, err := other.Mint(auth.Grant{Org: h.owner, Slug: "home", Client: h.client})
		if err != nil {
			t.Fatal(err)
		}
		said := say(t, h.dial, "GET /org HTTP/1.1\r\nHost: home\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\n\r\n")
		if !strings.HasPrefix(said, c.want) {
			t.Errorf("a token signed with %s: %.200s, want %s", c.keys.Current.Kid, said, c.want)
		}
	}
	master, err := auth.NewMasterKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	kids := map[string]bool{}
	for _, rotate := range []func(context.Context, *auth.MasterKey, bool) (Rotated, error){h.service.RotateKeys, h.service.RotateCardKeys, h.service.RotateKeys, h.service.RotateCardKeys} {
		one, err := rotate(t.Context(), master, true)
		if err != nil {
			t.Fatal(err)
		}
		kids[one.Kid] = true
	}
	tokens, cards := h.service.Issuer.Keys(), h.service.bridgeCards.Keys()
	if len(kids) != 4 || len(tokens.Others) != 1 || len(cards.Others) != 1 {
		t.Fatalf("%d keys, %d former for tokens, %d for cards", len(kids), len(tokens.Others), len(cards.Others))
	}
	for _, k := range cards.Published(time.Now()) {
		for _, other := range tokens.Published(time.Now()) {
			if k.Kid == other.Kid {
				t.Errorf("%s signs tokens and cards", k.Kid)
			}
		}
	}
	said := say(t, h.dial, "GET /.well-known/jwks.json HTTP/1.1\r\nHost: home\r\nConnection: close\r\n\r\n")
	for kid := range kids {
		if !strings.Contains(said, kid) {
			t.Errorf("%s is not published", kid)
		}
	}
}
