package operator

import (
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// registrationToken makes a registration token, and returns its id and the token.
func registrationToken(t *testing.T, s *kit.Server, args ...string) (id, token string) {
	t.Helper()
	said, err := s.Operate(append([]string{"registration", "token", "create"}, args...)...)
	if err != nil {
		t.Fatal(err, said)
	}
	lines := strings.SplitN(said, "\n", 2)
	return strings.Fields(lines[1])[2], lines[0]
}

// TestRegistrationTokens: under --registration token the holder of a token can register, as often as it
// has uses, and all others are refused alike, at both steps.
func TestRegistrationTokens(t *testing.T) {
	t.Parallel()
	s := kit.Start(t, "--admin-listen", kit.FreeAddress(t), "--registration", "token", "--tier1", "approval")
	register := func(slug string, token any) *kit.Answer {
		body := kit.Obj{"email": "ops@" + slug + ".example", "org_slug": slug}
		if token != nil {
			body["registration_token"] = token
		}
		return s.Call(t, "", "POST", "/auth/register", body)
	}
	solve := func(a *kit.Answer) *kit.Answer {
		return s.Call(t, "", "POST", "/auth/register/solve", a.Want(201).Solution())
	}
	_, once := registrationToken(t, s)
	second, twice := registrationToken(t, s, "--uses", "2", "--tier", "2")
	refused := func(a *kit.Answer) {
		t.Helper()
		if a.Want(403); a.Str("code") != "registration_closed" {
			t.Error(a.Body)
		}
	}
	for _, token := range []any{nil, "", "x", once + "x", strings.ToUpper(once)} {
		refused(register("acme", token))
	}
	first, late := register("acme", once), register("globex", once)
	if tier := solve(first).Want(201).At("trust_tier"); tier != 0.0 {
		t.Error("the tier of --tier1 is", tier)
	}
	refused(solve(late))
	refused(register("globex", once))
	solve(first).Want(409) // the challenge is used, whatever the token is
	// A wrong nonce takes no use, and neither does a slug that is taken meanwhile.
	wrong := register("globex", twice).Want(201)
	s.Call(t, "", "POST", "/auth/register/solve", kit.Obj{"challenge_id": wrong.Str("challenge_id"), "nonce": "wrong"}).Want(400)
	other := register("globex", twice).Want(201)
	if tier := solve(wrong).Want(201).At("trust_tier"); tier != 2.0 {
		t.Error("the tier of the token is", tier)
	}
	solve(other).Want(409)
	revoked := register("initech", twice).Want(201)
	if said, err := s.Operate("registration", "token", "list"); err != nil || !strings.Contains(said, second) || strings.Contains(said, twice) {
		t.Error(err, said)
	}
	if said, err := s.Operate("registration", "token", "revoke", second); err != nil {
		t.Error(err, said)
	}
	if said, err := s.Operate("registration", "token", "revoke", second); err == nil {
		t.Error("revoked twice:", said)
	}
	refused(solve(revoked))
	// What was left of a token survives a restart.
	_, third := registrationToken(t, s, "--uses", "2")
	solve(register("hooli", third)).Want(201)
	kept := register("umbrella", third).Want(201)
	s.Kill()
	s.Restart(t)
	solve(kept).Want(201)
	refused(register("initech", third))
}

// TestRegistrationClosed: under --registration closed nobody registers, whatever they send.
func TestRegistrationClosed(t *testing.T) {
	t.Parallel()
	s := kit.Start(t, "--admin-listen", kit.FreeAddress(t), "--registration", "token")
	_, token := registrationToken(t, s, "--uses", "5")
	body := kit.Obj{"email": "ops@acme.example", "org_slug": "acme", "registration_token": token}
	challenge := s.Call(t, "", "POST", "/auth/register", body).Want(201)
	s.SetFlag("--registration", "closed")
	s.Kill()
	s.Restart(t)
	s.Call(t, "", "POST", "/auth/register", body).Want(403)
	s.Call(t, "", "POST", "/auth/register/solve", challenge.Solution()).Want(403)
	s.Call(t, "", "POST", "/auth/register/solve", kit.Obj{"challenge_id": "unknown", "nonce": "1"}).Want(403)
	s.SetFlag("--registration", "open")
	s.Kill()
	s.Restart(t)
	s.Call(t, "", "POST", "/auth/register/solve", challenge.Solution()).Want(201)
}
