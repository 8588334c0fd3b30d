package blackbox

import (
	"regexp"
	"strings"
	"sync"
	"testing"
)

func TestRegister(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		slug := freshSlug()
		c := s.challenge(t, slug).shaped("challenge_id:str algorithm:str challenge:str difficulty:int expires_at:time expires_in:int instructions:str")
		c.is("algorithm", "sha256-hashcash", "difficulty", 8, "expires_in", 600)
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(c.str("challenge")) {
			c.errorf("the challenge is not 32 hex digits")
		}
		a := s.call(t, "", "POST", "/auth/register/solve", c.solution()).want(201)
		a.shaped("org_id:uuid org_slug:str client_id:str client_secret:str trust_tier:int token_url:str created_at:time")
		a.is("org_slug", slug, "trust_tier", 1)
		if !strings.HasSuffix(a.str("token_url"), "/oauth/token") || !strings.HasPrefix(a.str("token_url"), "http") {
			a.errorf("token_url is not absolute")
		}
		token := s.grant(t, a.str("client_id"), a.str("client_secret")).want(200).str("access_token")
		org := s.call(t, token, "GET", "/org", nil).want(200).shaped(orgShape)
		org.is("id", a.str("org_id"), "slug", slug, "name", slug, "contact_email", "ops@"+slug+".example",
			"country_code", nil, "trust_tier", 1, "agent_count", 0)
	})
}

func TestRegisterNamesTheOrganization(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		slug := freshSlug()
		c := s.call(t, "", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": slug, "org_name": "Ünïcode & Söhne"}).want(201)
		a := s.call(t, "", "POST", "/auth/register/solve", c.solution()).want(201)
		token := s.grant(t, a.str("client_id"), a.str("client_secret")).want(200).str("access_token")
		s.call(t, token, "GET", "/org", nil).want(200).is("name", "Ünïcode & Söhne", "contact_email", "a@b.c")
	})
}

func TestRegisterFields(t *testing.T) {
	good := obj{"email": "a@b.c", "org_slug": "fine-slug", "org_name": "Fine"}
	cases := []struct {
		name      string
		body      obj
		loc, kind string
	}{
		{"no email", without(good, "email"), "body.email", "missing"},
		{"null email", merged(good, obj{"email": nil}), "body.email", ""},
		{"no slug", without(good, "org_slug"), "body.org_slug", "missing"},
		{"email without at", merged(good, obj{"email": "nobody"}), "body.email", ""},
		{"email too long", merged(good, obj{"email": strings.Repeat("a", 250) + "@b.cd"}), "body.email", ""},
		{"email a number", merged(good, obj{"email": 7}), "body.email", ""},
		{"slug too short", merged(good, obj{"org_slug": "a"}), "body.org_slug", ""},
		{"slug too long", merged(good, obj{"org_slug": strings.Repeat("a", 33)}), "body.org_slug", ""},
		{"slug in capitals", merged(good, obj{"org_slug": "ACME"}), "body.org_slug", "string_pattern_mismatch"},
		{"slug with underscore", merged(good, obj{"org_slug": "a_b"}), "body.org_slug", "string_pattern_mismatch"},
		{"slug begins with hyphen", merged(good, obj{"org_slug": "-ab"}), "body.org_slug", "string_pattern_mismatch"},
		{"slug ends with hyphen", merged(good, obj{"org_slug": "ab-"}), "body.org_slug", "string_pattern_mismatch"},
		{"slug with newline", merged(good, obj{"org_slug": "ab\n"}), "body.org_slug", "string_pattern_mismatch"},
		{"name empty", merged(good, obj{"org_name": ""}), "body.org_name", ""},
		{"name too long", merged(good, obj{"org_name": strings.Repeat("n", 201)}), "body.org_name", "string_too_long"},
	}
	each(t, func(t *testing.T, s *server) {
		for _, c := range cases {
			s.call(t, "", "POST", "/auth/register", c.body).as("%s", c.name).invalid(c.loc, c.kind)
		}
		both := s.call(t, "", "POST", "/auth/register", obj{})
		both.invalid("body.email", "missing").invalid("body.org_slug", "missing")
		for _, slug := range []string{"ab", "0-9", strings.Repeat("z", 27) + randomHex(2) + "z"} {
			s.call(t, "", "POST", "/auth/register", merged(good, obj{"org_slug": slug})).as("%s", slug).want(201)
		}
		s.call(t, "", "POST", "/auth/register", merged(good, obj{"unheard_of": 1})).as("unknown field").want(201)
	})
}

func TestRegisterReservedSlugs(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		for _, slug := range []string{
			"www", "api", "admin", "docs", "well-known", "a2a", "localhost", "parley", "root", "support", "svc", "xn--80ak6aa92e",
		} {
			s.call(t, "", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": slug}).as("%s", slug).invalid("body.org_slug", "value_error")
		}
	})
}

// TestDeceptiveNamesAreRejected: control characters, bidirectional overrides and invisible
// characters can make a name look like another one, so the server rejects them.
func TestDeceptiveNamesAreRejected(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		for _, r := range []rune{0, '\n', 0x1b, 0x7f, 0x85, 0x061c, 0x200b, 0x200d, 0x200e, 0x200f, 0x2028, 0x202a, 0x202e, 0x2060, 0x2066, 0x2069, 0xfe0f, 0xfeff, 0xe0041} {
			name, email := "Ac"+string(r)+"me", "ops"+string(r)+"@acme.example"
			register := func(more obj) *answer {
				return s.call(t, "", "POST", "/auth/register", merged(obj{"email": "a@b.c", "org_slug": freshSlug()}, more)).as("%U", r)
			}
			register(obj{"org_name": name}).invalid("body.org_name", "value_error")
			register(obj{"email": email}).invalid("body.email", "")
			o.patch("/org", obj{"name": name}).as("%U", r).invalid("body.name", "value_error")
			o.patch("/org", obj{"contact_email": email}).as("%U", r).invalid("body.contact_email", "")
		}
		for _, email := range []string{"<x@y>", "Ada<x@y.example>", "\"Ada\"<x@y.example>", "x@y(Ada)", "a,b@y", "x@y;z", "x\u00a0@y", "x@\u3000y"} {
			s.call(t, "", "POST", "/auth/register", obj{"email": email, "org_slug": freshSlug()}).as("%q", email).invalid("body.email", "")
			o.patch("/org", obj{"contact_email": email}).as("%q", email).invalid("body.contact_email", "")
		}
		for _, email := range []string{"o'brien+svc@acme.example", "ops@[192.0.2.1]", "ops@[IPv6:2001:db8::1]", "büro@müller.example", "x@y"} {
			o.patch("/org", obj{"contact_email": email}).as("%q", email).want(200).is("contact_email", email)
		}
		// Characters that scripts need are accepted: joiners and right-to-left letters.
		for _, name := range []string{"אחד שתיים", "می\u200cخواهم", "👩\u200d💻 & Söhne"} {
			o.patch("/org", obj{"name": name}).as("%q", name).want(200).is("name", name)
		}
	})
}

func TestSolve(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		c := s.challenge(t, freshSlug())
		solve := func(body any) *answer { return s.call(t, "", "POST", "/auth/register/solve", body) }
		wrong := work(c.str("challenge"), 8, false)
		solve(obj{"challenge_id": c.str("challenge_id"), "nonce": wrong}).refused(400, "pow_invalid")
		solve(obj{"challenge_id": c.str("challenge_id")}).invalid("body.nonce", "missing")
		solve(obj{"nonce": "1"}).invalid("body.challenge_id", "missing")
		solve(obj{"challenge_id": c.str("challenge_id"), "nonce": strings.Repeat("1", 65)}).invalid("body.nonce", "string_too_long")
		solve(obj{"challenge_id": nobody, "nonce": "1"}).refused(404, "not_found")
		good := c.solution()
		solve(obj{"challenge_id": good["challenge_id"], "solution": good["nonce"]}).as("alias solution").want(201)
		solve(good).as("used").refused(409, "challenge_used")
		solve(good).as("used again").refused(409, "challenge_used")
	})
}

func TestSolveAllowsTwentyTries(t *testing.T) {
	onOneNode(t, "wrong tries are counted", func(t *testing.T, s *server) {
		c := s.challenge(t, freshSlug())
		wrong := obj{"challenge_id": c.str("challenge_id"), "nonce": work(c.str("challenge"), 8, false)}
		for range 20 {
			s.call(t, "", "POST", "/auth/register/solve", wrong).refused(400, "pow_invalid")
		}
		if a := s.call(t, "", "POST", "/auth/register/solve", c.solution()); a.status/100 != 4 {
			a.errorf("the challenge outlives twenty wrong tries")
		}
	})
}

func TestSlugTaken(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		slug := freshSlug()
		first, second := s.challenge(t, slug), s.challenge(t, slug)
		s.call(t, "", "POST", "/auth/register/solve", second.solution()).want(201)
		s.call(t, "", "POST", "/auth/register/solve", first.solution()).as("the second solver").refused(409, "slug_taken")
		s.call(t, "", "POST", "/auth/register", obj{"email": "a@b.c", "org_slug": slug}).as("after it was taken").refused(409, "slug_taken")
	})
}

// TestSolversRaceForASlug checks only the outcome: whether the requests overlap in the
// server is chance. TestConcurrentSolutionsOfOneSlug in package actors makes them
// overlap.
func TestSolversRaceForASlug(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		slug := freshSlug()
		var solutions []obj
		for range 8 {
			solutions = append(solutions, s.challenge(t, slug).solution())
		}
		answers := concurrently(8, func(i int) *answer {
			return s.call(t, "", "POST", "/auth/register/solve", solutions[i])
		})
		won := 0
		for _, a := range answers {
			if a.status == 201 {
				won++
				continue
			}
			a.refused(409, "slug_taken")
		}
		if won != 1 {
			t.Errorf("%d organizations have the slug %s", won, slug)
		}
	})
}

// TestChallengeSolvedTwiceAtOnce checks only the outcome, too: see
// TestConcurrentSolutionsOfOneChallenge in package actors.
func TestChallengeSolvedTwiceAtOnce(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		solution := s.challenge(t, freshSlug()).solution()
		won := 0
		for _, a := range concurrently(8, func(int) *answer { return s.call(t, "", "POST", "/auth/register/solve", solution) }) {
			switch {
			case a.status == 201:
				won++
			case a.status != 409 || a.at("code") != "challenge_used":
				a.errorf("want 409 challenge_used")
			}
		}
		if won != 1 {
			t.Errorf("one solution created %d organizations", won)
		}
	})
}

// concurrently runs n calls at once and returns their results.
func concurrently[T any](n int, call func(i int) T) []T {
	out := make([]T, n)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			out[i] = call(i)
		})
	}
	close(gate)
	wg.Wait()
	return out
}

// TestChallengesAreStateless: the client holds the challenge; the server stores
// nothing of it until it is solved. It survives a restart and can be solved once. The
// server rejects a challenge that it did not seal.
func TestChallengesAreStateless(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals)
		long := obj{"email": strings.Repeat("é", 120) + "@" + strings.Repeat("ü", 120), "org_slug": freshSlug(), "org_name": strings.Repeat("👩", 200)}
		first := s.call(t, "", "POST", "/auth/register", long).want(201)
		second := s.challenge(t, text(long, "org_slug"))
		s.kill()
		s.restart(t)
		solve := func(body obj) *answer { return s.call(t, "", "POST", "/auth/register/solve", body) }
		made := solve(first.solution()).want(201)
		s.kill()
		s.restart(t)
		solve(first.solution()).as("used before it was killed").refused(409, "challenge_used")
		solve(second.solution()).as("another for the slug").refused(409, "slug_taken")
		token := s.grant(t, made.str("client_id"), made.str("client_secret")).want(200).str("access_token")
		s.call(t, token, "GET", "/org", nil).want(200).is("id", made.str("org_id"), "name", long["org_name"], "contact_email", long["email"])

		id := s.challenge(t, freshSlug()).str("challenge_id")
		flipped := id[:40] + map[bool]string{true: "B", false: "A"}[id[40] == 'A'] + id[41:]
		for name, bad := range map[string]string{
			"changed": flipped, "cut": id[:len(id)-4], "longer": id + "AAAA", "none": "x", "empty": "", "huge": strings.Repeat("A", 12000), "a UUID": nobody,
		} {
			solve(obj{"challenge_id": bad, "nonce": "1"}).as("%s", name).refused(404, "not_found")
		}
		other := start(t)
		other.call(t, "", "POST", "/auth/register/solve", obj{"challenge_id": id, "nonce": "1"}).as("of another server").refused(404, "not_found")
	})
}
