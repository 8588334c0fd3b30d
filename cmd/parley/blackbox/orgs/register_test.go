package orgs

import (
	"regexp"
	"strings"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

func TestRegister(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		slug := kit.FreshSlug()
		c := s.Challenge(t, slug).Shaped("challenge_id:str algorithm:str challenge:str difficulty:int expires_at:time expires_in:int instructions:str")
		c.Is("algorithm", "sha256-hashcash", "difficulty", 8, "expires_in", 600)
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(c.Str("challenge")) {
			c.Errorf("the challenge is not 32 hex digits")
		}
		a := s.Call(t, "", "POST", "/auth/register/solve", c.Solution()).Want(201)
		a.Shaped("org_id:uuid org_slug:str client_id:str client_secret:str trust_tier:int token_url:str created_at:time")
		a.Is("org_slug", slug, "trust_tier", 1)
		if !strings.HasSuffix(a.Str("token_url"), "/oauth/token") || !strings.HasPrefix(a.Str("token_url"), "http") {
			a.Errorf("token_url is not absolute")
		}
		token := s.Grant(t, a.Str("client_id"), a.Str("client_secret")).Want(200).Str("access_token")
		org := s.Call(t, token, "GET", "/org", nil).Want(200).Shaped(kit.OrgShape)
		org.Is("id", a.Str("org_id"), "slug", slug, "name", slug, "contact_email", "ops@"+slug+".example",
			"country_code", nil, "trust_tier", 1, "agent_count", 0)
	})
}

func TestRegisterNamesTheOrganization(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		slug := kit.FreshSlug()
		c := s.Call(t, "", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": slug, "org_name": "Ünïcode & Söhne"}).Want(201)
		a := s.Call(t, "", "POST", "/auth/register/solve", c.Solution()).Want(201)
		token := s.Grant(t, a.Str("client_id"), a.Str("client_secret")).Want(200).Str("access_token")
		s.Call(t, token, "GET", "/org", nil).Want(200).Is("name", "Ünïcode & Söhne", "contact_email", "a@b.c")
	})
}

func TestRegisterFields(t *testing.T) {
	good := obj{"email": "a@b.c", "org_slug": "fine-slug", "org_name": "Fine"}
	cases := []struct {
		name      string
		body      obj
		loc, kind string
	}{
		{"no email", kit.Without(good, "email"), "body.email", "missing"},
		{"null email", kit.Merged(good, obj{"email": nil}), "body.email", ""},
		{"no slug", kit.Without(good, "org_slug"), "body.org_slug", "missing"},
		{"email without at", kit.Merged(good, obj{"email": "nobody"}), "body.email", ""},
		{"email too long", kit.Merged(good, obj{"email": strings.Repeat("a", 250) + "@b.cd"}), "body.email", ""},
		{"email a number", kit.Merged(good, obj{"email": 7}), "body.email", ""},
		{"slug too short", kit.Merged(good, obj{"org_slug": "a"}), "body.org_slug", ""},
		{"slug too long", kit.Merged(good, obj{"org_slug": strings.Repeat("a", 33)}), "body.org_slug", ""},
		{"slug in capitals", kit.Merged(good, obj{"org_slug": "ACME"}), "body.org_slug", "string_pattern_mismatch"},
		{"slug with underscore", kit.Merged(good, obj{"org_slug": "a_b"}), "body.org_slug", "string_pattern_mismatch"},
		{"slug begins with hyphen", kit.Merged(good, obj{"org_slug": "-ab"}), "body.org_slug", "string_pattern_mismatch"},
		{"slug ends with hyphen", kit.Merged(good, obj{"org_slug": "ab-"}), "body.org_slug", "string_pattern_mismatch"},
		{"slug with newline", kit.Merged(good, obj{"org_slug": "ab\n"}), "body.org_slug", "string_pattern_mismatch"},
		{"name empty", kit.Merged(good, obj{"org_name": ""}), "body.org_name", ""},
		{"name too long", kit.Merged(good, obj{"org_name": strings.Repeat("n", 201)}), "body.org_name", "string_too_long"},
	}
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		for _, c := range cases {
			s.Call(t, "", "POST", "/auth/register", c.body).As("%s", c.name).Invalid(c.loc, c.kind)
		}
		both := s.Call(t, "", "POST", "/auth/register", obj{})
		both.Invalid("body.email", "missing").Invalid("body.org_slug", "missing")
		for _, slug := range []string{"ab", "0-9", strings.Repeat("z", 27) + kit.RandomHex(2) + "z"} {
			s.Call(t, "", "POST", "/auth/register", kit.Merged(good, obj{"org_slug": slug})).As("%s", slug).Want(201)
		}
		s.Call(t, "", "POST", "/auth/register", kit.Merged(good, obj{"unheard_of": 1})).As("unknown field").Want(201)
	})
}

func TestRegisterReservedSlugs(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		for _, slug := range []string{
			"www", "api", "admin", "docs", "well-known", "a2a", "localhost", "parley", "root", "support", "svc", "xn--80ak6aa92e",
		} {
			s.Call(t, "", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": slug}).As("%s", slug).Invalid("body.org_slug", "value_error")
		}
	})
}

// TestDeceptiveNamesAreRejected: control characters, bidirectional overrides and invisible
// characters can make a name look like another one, so the server rejects them.
func TestDeceptiveNamesAreRejected(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		o := s.Org(t)
		for _, r := range []rune{0, '\n', 0x1b, 0x7f, 0x85, 0x061c, 0x200b, 0x200d, 0x200e, 0x200f, 0x2028, 0x202a, 0x202e, 0x2060, 0x2066, 0x2069, 0xfe0f, 0xfeff, 0xe0041} {
			name, email := "Ac"+string(r)+"me", "ops"+string(r)+"@acme.example"
			register := func(more obj) *kit.Answer {
				return s.Call(t, "", "POST", "/auth/register", kit.Merged(obj{"email": "a@b.c", "org_slug": kit.FreshSlug()}, more)).As("%U", r)
			}
			register(obj{"org_name": name}).Invalid("body.org_name", "value_error")
			register(obj{"email": email}).Invalid("body.email", "")
			o.Patch("/org", obj{"name": name}).As("%U", r).Invalid("body.name", "value_error")
			o.Patch("/org", obj{"contact_email": email}).As("%U", r).Invalid("body.contact_email", "")
		}
		for _, email := range []string{"<x@y>", "Ada<x@y.example>", "\"Ada\"<x@y.example>", "x@y(Ada)", "a,b@y", "x@y;z", "x\u00a0@y", "x@\u3000y"} {
			s.Call(t, "", "POST", "/auth/register", obj{"email": email, "org_slug": kit.FreshSlug()}).As("%q", email).Invalid("body.email", "")
			o.Patch("/org", obj{"contact_email": email}).As("%q", email).Invalid("body.contact_email", "")
		}
		for _, email := range []string{"o'brien+svc@acme.example", "ops@[192.0.2.1]", "ops@[IPv6:2001:db8::1]", "büro@müller.example", "x@y"} {
			o.Patch("/org", obj{"contact_email": email}).As("%q", email).Want(200).Is("contact_email", email)
		}
		// Characters that scripts need are accepted: joiners and right-to-left letters.
		for _, name := range []string{"אחד שתיים", "می\u200cخواهم", "👩\u200d💻 & Söhne"} {
			o.Patch("/org", obj{"name": name}).As("%q", name).Want(200).Is("name", name)
		}
	})
}

func TestSolve(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		c := s.Challenge(t, kit.FreshSlug())
		solve := func(body any) *kit.Answer { return s.Call(t, "", "POST", "/auth/register/solve", body) }
		wrong := kit.Work(c.Str("challenge"), 8, false)
		solve(obj{"challenge_id": c.Str("challenge_id"), "nonce": wrong}).Refused(400, "pow_invalid")
		solve(obj{"challenge_id": c.Str("challenge_id")}).Invalid("body.nonce", "missing")
		solve(obj{"nonce": "1"}).Invalid("body.challenge_id", "missing")
		solve(obj{"challenge_id": c.Str("challenge_id"), "nonce": strings.Repeat("1", 65)}).Invalid("body.nonce", "string_too_long")
		solve(obj{"challenge_id": kit.Nobody, "nonce": "1"}).Refused(404, "not_found")
		good := c.Solution()
		solve(obj{"challenge_id": good["challenge_id"], "solution": good["nonce"]}).As("alias solution").Want(201)
		solve(good).As("used").Refused(409, "challenge_used")
		solve(good).As("used again").Refused(409, "challenge_used")
	})
}

func TestSolveAllowsTwentyTries(t *testing.T) {
	kit.OnOneNode(t, "wrong tries are counted", func(t *testing.T, s *kit.Server) {
		c := s.Challenge(t, kit.FreshSlug())
		wrong := obj{"challenge_id": c.Str("challenge_id"), "nonce": kit.Work(c.Str("challenge"), 8, false)}
		for range 20 {
			s.Call(t, "", "POST", "/auth/register/solve", wrong).Refused(400, "pow_invalid")
		}
		if a := s.Call(t, "", "POST", "/auth/register/solve", c.Solution()); a.Status/100 != 4 {
			a.Errorf("the challenge outlives twenty wrong tries")
		}
	})
}

func TestSlugTaken(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		slug := kit.FreshSlug()
		first, second := s.Challenge(t, slug), s.Challenge(t, slug)
		s.Call(t, "", "POST", "/auth/register/solve", second.Solution()).Want(201)
		s.Call(t, "", "POST", "/auth/register/solve", first.Solution()).As("the second solver").Refused(409, "slug_taken")
		s.Call(t, "", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": slug}).As("after it was taken").Refused(409, "slug_taken")
	})
}

// TestSolversRaceForASlug checks only the outcome: whether the requests overlap in the
// server is chance. TestConcurrentSolutionsOfOneSlug in package actors makes them
// overlap.
func TestSolversRaceForASlug(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		slug := kit.FreshSlug()
		var solutions []obj
		for range 8 {
			solutions = append(solutions, s.Challenge(t, slug).Solution())
		}
		answers := kit.Concurrently(8, func(i int) *kit.Answer {
			return s.Call(t, "", "POST", "/auth/register/solve", solutions[i])
		})
		won := 0
		for _, a := range answers {
			if a.Status == 201 {
				won++
				continue
			}
			a.Refused(409, "slug_taken")
		}
		if won != 1 {
			t.Errorf("%d organizations have the slug %s", won, slug)
		}
	})
}

// TestChallengeSolvedTwiceAtOnce checks only the outcome, too: see
// TestConcurrentSolutionsOfOneChallenge in package actors.
func TestChallengeSolvedTwiceAtOnce(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		solution := s.Challenge(t, kit.FreshSlug()).Solution()
		won := 0
		for _, a := range kit.Concurrently(8, func(int) *kit.Answer { return s.Call(t, "", "POST", "/auth/register/solve", solution) }) {
			switch {
			case a.Status == 201:
				won++
			case a.Status != 409 || a.At("code") != "challenge_used":
				a.Errorf("want 409 challenge_used")
			}
		}
		if won != 1 {
			t.Errorf("one solution created %d organizations", won)
		}
	})
}

// TestChallengesAreStateless: the client holds the challenge; the server stores
// nothing of it until it is solved. It survives a restart and can be solved once. The
// server rejects a challenge that it did not seal.
func TestChallengesAreStateless(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		long := obj{"email": strings.Repeat("é", 120) + "@" + strings.Repeat("ü", 120), "org_slug": kit.FreshSlug(), "org_name": strings.Repeat("👩", 200)}
		first := s.Call(t, "", "POST", "/auth/register", long).Want(201)
		second := s.Challenge(t, kit.Text(long, "org_slug"))
		s.Kill()
		s.Restart(t)
		solve := func(body obj) *kit.Answer { return s.Call(t, "", "POST", "/auth/register/solve", body) }
		made := solve(first.Solution()).Want(201)
		s.Kill()
		s.Restart(t)
		solve(first.Solution()).As("used before it was killed").Refused(409, "challenge_used")
		solve(second.Solution()).As("another for the slug").Refused(409, "slug_taken")
		token := s.Grant(t, made.Str("client_id"), made.Str("client_secret")).Want(200).Str("access_token")
		s.Call(t, token, "GET", "/org", nil).Want(200).Is("id", made.Str("org_id"), "name", long["org_name"], "contact_email", long["email"])

		id := s.Challenge(t, kit.FreshSlug()).Str("challenge_id")
		flipped := id[:40] + map[bool]string{true: "B", false: "A"}[id[40] == 'A'] + id[41:]
		for name, bad := range map[string]string{
			"changed": flipped, "cut": id[:len(id)-4], "longer": id + "AAAA", "none": "x", "empty": "", "huge": strings.Repeat("A", 12000), "a UUID": kit.Nobody,
		} {
			solve(obj{"challenge_id": bad, "nonce": "1"}).As("%s", name).Refused(404, "not_found")
		}
		other := kit.Start(t)
		other.Call(t, "", "POST", "/auth/register/solve", obj{"challenge_id": id, "nonce": "1"}).As("of another server").Refused(404, "not_found")
	})
}
