package keys

import (
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// TestCardKeyRotate: the operator replaces the key that signs A2A cards, with immediate
// effect. Both keys are published, and tokens are signed with the same key as before.
func TestCardKeyRotate(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--admin-listen", admin)
		o := s.Org(t)
		g := o.Agent("carded")
		g.Put(g.Path("/card"), kit.BridgedCard()).Want(200)
		card := func() *kit.Answer { return s.Call(t, "", "GET", kit.BridgeCard(g), nil).Want(200) }
		first := card()
		kit.Succeeds(t, "key", "rotate", "--cards", "--now", "--admin", "http://"+admin, "--data", s.Dir)
		second := card()
		if string(first.Raw) == string(second.Raw) || first.Header.Get("ETag") == second.Header.Get("ETag") {
			second.Errorf("the card is signed with the former key")
		}
		s.Kill()
		s.Restart(t)
		if third := card(); string(third.Raw) != string(second.Raw) {
			third.Errorf("after a restart the card is another: %s", second.Raw)
		}
		published, _ := s.Call(t, "", "GET", "/.well-known/jwks.json", nil).Want(200).At("keys").([]any)
		header, _, _, _ := kit.ClaimsOf(t, s.Grant(t, o.Client, o.Secret).Want(200).Str("access_token"))
		if former, _, _, _ := kit.ClaimsOf(t, o.Token); len(published) != 4 || header["kid"] != former["kid"] {
			t.Errorf("%d keys are published, tokens are signed with %v, before with %v", len(published), header["kid"], former["kid"])
		}
	})
}

// TestKeyRotate: the operator replaces the signing key, with immediate effect. Tokens of
// the former key stay valid, both keys are published, and both facts survive a restart.
func TestKeyRotate(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--admin-listen", admin)
		o := s.Org(t)
		signed := func(token string) any { header, _, _, _ := kit.ClaimsOf(t, token); return header["kid"] }
		former := signed(o.Token)
		kit.Succeeds(t, "key", "rotate", "--now", "--admin", "http://"+admin, "--data", s.Dir)
		for _, when := range []string{"at once", "after a restart"} {
			fresh := s.Grant(t, o.Client, o.Secret).Want(200).Str("access_token")
			if all := kit.PublishedKeys(t, s); signed(fresh) == former || len(all) != 4 || !all[former] || !all[signed(fresh)] {
				t.Errorf("%s: signed with %v, it was %v, published are %v", when, signed(fresh), former, all)
			}
			s.Call(t, fresh, "GET", "/org", nil).As("%s", when).Want(200)
			o.Get("/org").As("former, %s", when).Want(200)
			s.Kill()
			s.Restart(t)
		}
	})
}

// TestKeyRotateLater: a key is published before it signs, so that verifiers which keep the key
// document for an hour have it by then.
func TestKeyRotateLater(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--admin-listen", admin)
		o := s.Org(t)
		signed := func(token string) any { header, _, _, _ := kit.ClaimsOf(t, token); return header["kid"] }
		before := kit.PublishedKeys(t, s)
		kit.Succeeds(t, "key", "rotate", "--admin", "http://"+admin, "--data", s.Dir)
		for _, when := range []string{"at once", "after a restart"} {
			fresh := s.Grant(t, o.Client, o.Secret).Want(200).Str("access_token")
			if all := kit.PublishedKeys(t, s); signed(fresh) != signed(o.Token) || len(all) != len(before)+1 {
				t.Errorf("%s: signed with %v, it was %v, published are %v", when, signed(fresh), signed(o.Token), all)
			}
			s.Kill()
			s.Restart(t)
		}
	})
}
