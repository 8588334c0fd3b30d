package auth_test

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/client/parley"
	"parley/http/auth"
)

func TestParseBasic(t *testing.T) {
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, c := range []struct {
		header, id, secret string
		ok                 bool
	}{
		{"Basic " + encode("id:secret"), "id", "secret", true},
		{"basic  " + encode("id:se:cret"), "id", "se:cret", true},
		{"BASIC " + encode("a%3Ab:c%25d+e"), "a:b", "c%d e", true},
		{"Basic " + encode("id:parley%5Fsk%5Fa%2Db"), "id", "parley_sk_a-b", true},
		{"Basic " + encode("id:"), "id", "", true},
		{"Basic " + encode(":secret"), "", "", false},
		{"Basic " + encode("no colon"), "", "", false},
		{"Basic " + encode("id:%zz"), "", "", false},
		{"Basic " + encode("%:x"), "", "", false},
		{"Basic !!!", "", "", false},
		{"Basic", "", "", false},
		{"Bearer " + encode("id:secret"), "", "", false},
		{"", "", "", false},
	} {
		id, secret, ok := auth.ParseBasic([]byte(c.header))
		if id != c.id || secret != c.secret || ok != c.ok {
			t.Errorf("%q: %q, %q, %v", c.header, id, secret, ok)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		wantID, wantSecret := rapid.StringN(1, 50, -1).Draw(r, "id"), rapid.String().Draw(r, "secret")
		header := "Basic " + encode(url.QueryEscape(wantID)+":"+url.QueryEscape(wantSecret))
		if len(header) > 8<<10 {
			return
		}
		if id, secret, ok := auth.ParseBasic([]byte(header)); !ok || id != wantID || secret != wantSecret {
			r.Fatalf("%q, %q, %v", id, secret, ok)
		}
	})
}

func TestParseBearer(t *testing.T) {
	for header, want := range map[string]string{"Bearer a.b.c": "a.b.c", "bearer   x": "x", " BEARER x ": "x"} {
		if got, ok := auth.ParseBearer([]byte(header)); !ok || string(got) != want {
			t.Errorf("%q: %q, %v", header, got, ok)
		}
	}
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearerx", "Basic x", "x"} {
		if got, ok := auth.ParseBearer([]byte(header)); ok {
			t.Errorf("%q: %q", header, got)
		}
	}
}

func TestSecrets(t *testing.T) {
	entropy := parley.CountingEntropy()
	a, b := auth.NewSecret(entropy), auth.NewSecret(entropy)
	if form := regexp.MustCompile(`^parley_sk_[A-Za-z0-9_-]{43}$`); !form.MatchString(a) || a == b {
		t.Fatalf("secrets %q and %q", a, b)
	}
	hash := auth.HashSecret(a)
	if !auth.CheckSecret(a, hash[:]) {
		t.Fatal("the right secret is refused")
	}
	for _, wrong := range []string{b, "", a + " ", a[:len(a)-1]} {
		if auth.CheckSecret(wrong, hash[:]) {
			t.Errorf("%q is accepted", wrong)
		}
	}
	for _, unknown := range [][]byte{nil, {}, hash[:31]} {
		if auth.CheckSecret(a, unknown) || auth.CheckSecret("no client has this secret", unknown) {
			t.Error("a client without a hash is accepted")
		}
	}
}

func TestChallenges(t *testing.T) {
	entropy := parley.CountingEntropy()
	a, b := auth.NewChallenge(entropy), auth.NewChallenge(entropy)
	if form := regexp.MustCompile(`^[0-9a-f]{32}$`); !form.MatchString(a) || a == b {
		t.Fatalf("challenges %q and %q", a, b)
	}
}

func TestDifficultyFollowsTheLastHour(t *testing.T) {
	clock := newHand()
	d := auth.NewDifficulty(20, true, clock.now)
	seen := map[int]int{}
	for n := 1; n <= 10000; n++ {
		d.Count("a")
		seen[n] = d.Bits("a")
	}
	for n, want := range map[int]int{1: 20, 9: 20, 10: 21, 19: 21, 20: 22, 40: 23, 1280: 28, 10000: 28} {
		if seen[n] != want {
			t.Errorf("after %d registrations: %d bits, want %d", n, seen[n], want)
		}
	}
	if d.Bits("b") != 20 {
		t.Errorf("another address has %d bits", d.Bits("b"))
	}
	clock.advance(2 * time.Hour)
	if d.Bits("a") != 20 {
		t.Errorf("two hours later: %d bits", d.Bits("a"))
	}
}

func TestDifficultyFallsAcrossHours(t *testing.T) {
	clock := newHand() // a full hour
	d := auth.NewDifficulty(20, true, clock.now)
	clock.advance(59 * time.Minute)
	for range 40 {
		d.Count("a")
	}
	clock.advance(2 * time.Minute)
	if d.Bits("a") != 22 {
		t.Errorf("two minutes after 40: %d bits, want 22", d.Bits("a"))
	}
	clock.advance(50 * time.Minute)
	if d.Bits("a") != 20 {
		t.Errorf("51 minutes into the next hour: %d bits, want 20", d.Bits("a"))
	}
}

// TestDifficultyCountsOtherNodes: registrations on another node raise the difficulty here as well,
// once, and no number of them by more than the maximum.
func TestDifficultyCountsOtherNodes(t *testing.T) {
	clock := newHand()
	here, there := auth.NewDifficulty(20, true, clock.now), auth.NewDifficulty(20, true, clock.now)
	here.Report(there.Spend)
	there.Report(func(string, int) { t.Error("what another node has told is told again") })
	for range 20 {
		here.Count("a")
	}
	if here.Bits("a") != 22 || there.Bits("a") != 22 || there.Bits("b") != 20 {
		t.Errorf("%d, %d and %d bits", here.Bits("a"), there.Bits("a"), there.Bits("b"))
	}
	there.Spend("a", -1<<62)
	there.Spend("b", 1<<62)
	there.Spend("b", 1<<62)
	if there.Bits("a") != 22 || there.Bits("b") != 28 {
		t.Errorf("%d and %d bits", there.Bits("a"), there.Bits("b"))
	}
}

func TestDifficultyIsFixedInDevelopment(t *testing.T) {
	d := auth.NewDifficulty(8, false, newHand().now)
	for range 1000 {
		d.Count("a")
	}
	if d.Bits("a") != 8 {
		t.Fatalf("%d bits", d.Bits("a"))
	}
}
