package blackbox

import "testing"

// TestCardKeyRotate: the operator replaces the key that signs A2A cards, with immediate
// effect. Both keys are published, and tokens are signed with the same key as before.
func TestCardKeyRotate(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		admin := freeAddress(t)
		s := start(t, "--journals", journals, "--admin-listen", admin)
		o := s.org(t)
		g := o.agent("carded")
		g.put(g.path("/card"), bridgedCard()).want(200)
		card := func() *answer { return s.call(t, "", "GET", bridgeCard(g), nil).want(200) }
		first := card()
		succeeds(t, "key", "rotate", "--cards", "--admin", "http://"+admin, "--data", s.dir)
		second := card()
		if string(first.raw) == string(second.raw) || first.header.Get("ETag") == second.header.Get("ETag") {
			second.errorf("the card is signed with the former key")
		}
		s.kill()
		s.restart(t)
		if third := card(); string(third.raw) != string(second.raw) {
			third.errorf("after a restart the card is another: %s", second.raw)
		}
		published, _ := s.call(t, "", "GET", "/.well-known/jwks.json", nil).want(200).at("keys").([]any)
		header, _, _, _ := claimsOf(t, s.grant(t, o.client, o.secret).want(200).str("access_token"))
		if former, _, _, _ := claimsOf(t, o.token); len(published) != 4 || header["kid"] != former["kid"] {
			t.Errorf("%d keys are published, tokens are signed with %v, before with %v", len(published), header["kid"], former["kid"])
		}
	})
}

// TestKeyRotate: the operator replaces the signing key, with immediate effect. Tokens of
// the former key stay valid, both keys are published, and both facts survive a restart.
func TestKeyRotate(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		admin := freeAddress(t)
		s := start(t, "--journals", journals, "--admin-listen", admin)
		o := s.org(t)
		signed := func(token string) any { header, _, _, _ := claimsOf(t, token); return header["kid"] }
		former := signed(o.token)
		succeeds(t, "key", "rotate", "--admin", "http://"+admin, "--data", s.dir)
		for _, when := range []string{"at once", "after a restart"} {
			fresh := s.grant(t, o.client, o.secret).want(200).str("access_token")
			if all := publishedKeys(t, s); signed(fresh) == former || len(all) != 4 || !all[former] || !all[signed(fresh)] {
				t.Errorf("%s: signed with %v, it was %v, published are %v", when, signed(fresh), former, all)
			}
			s.call(t, fresh, "GET", "/org", nil).as("%s", when).want(200)
			o.get("/org").as("former, %s", when).want(200)
			s.kill()
			s.restart(t)
		}
	})
}
