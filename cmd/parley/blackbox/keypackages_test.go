package blackbox

import (
	"crypto/ed25519"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/http/mls/mlstest"
)

// keyPackage returns a new MLS KeyPackage of an agent in an MLSMessage.
func (g *agent) keyPackage(alter ...func(*mlstest.KeyPackage)) string {
	return b64(g.keyPackageOf(alter...).Message(time.Now()))
}

func (g *agent) keyPackageOf(alter ...func(*mlstest.KeyPackage)) mlstest.KeyPackage {
	k := mlstest.KeyPackage{Key: g.sign, Identity: strings.ToLower(g.handle)}
	for _, change := range alter {
		change(&k)
	}
	return k
}

func (g *agent) publishKeyPackages(body obj) *answer {
	return g.post(g.path("/mls/key-packages"), body)
}

// tryClaim claims a key package of an agent.
func (g *agent) tryClaim(of *agent, body obj) *answer {
	return g.request("POST", of.path("/mls/key-packages/claim"), body)
}

func (g *agent) countKeyPackages() *answer { return g.get(g.path("/mls/key-packages/count")) }

func TestKeyPackages(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("packed")
		g.countKeyPackages().want(200).is("available", 0.0, "last_resort", false)
		one, two, last := g.keyPackage(), b64(g.keyPackageOf().Bytes(time.Now())), g.keyPackage(func(k *mlstest.KeyPackage) { k.LastResort = true })
		a := g.publishKeyPackages(obj{"key_packages": []any{one, two}}).want(200).is("stored", 2.0, "available", 2.0)
		exactly(t, "stored", a.body, "stored available")
		g.publishKeyPackages(obj{"key_packages": []any{one + "=", two, g.keyPackage()}}).as("again, and one more").want(200).is("stored", 1.0, "available", 3.0)
		g.publishKeyPackages(obj{"key_packages": []any{}, "last_resort": last}).want(200).is("stored", 0.0, "available", 3.0)
		a = g.countKeyPackages().want(200).is("available", 3.0, "last_resort", true)
		exactly(t, "count", a.body, "available last_resort")

		stranger := s.org(t).agent("stranger")
		stranger.publishKeyPackagesOf(g).refused(403, "not_owner")
		stranger.get(g.path("/mls/key-packages/count")).refused(403, "not_owner")
		g.post("/agents/"+nobody+"/mls/key-packages", obj{"key_packages": []any{}}).refused(404, "not_found")

		sign, seal := newKeys()
		g.post(g.path("/keys"), obj{"encryption_public_key": sealJWK(seal)}).want(200)
		g.countKeyPackages().as("with another encryption key").want(200).is("available", 3.0, "last_resort", true)
		g.post(g.path("/keys"), obj{"signing_public_key": signJWK(sign)}).want(200)
		g.countKeyPackages().as("with another signing key").want(200).is("available", 0.0, "last_resort", false)
		g.sign = sign
		g.invalidKeyPackage(one).as("by the former key")
		g.publishKeyPackages(obj{"key_packages": []any{g.keyPackage()}, "last_resort": g.keyPackage()}).want(200).is("stored", 1.0, "available", 1.0)
		g.delete(g.path("")).want(204)
		g.countKeyPackages().as("revoked").want(200).is("available", 0.0, "last_resort", false)
		g.publishKeyPackages(obj{"key_packages": []any{}}).as("revoked").refused(410, "gone")
	})
}

func (g *agent) publishKeyPackagesOf(other *agent) *answer {
	return g.post(other.path("/mls/key-packages"), obj{"key_packages": []any{other.keyPackage()}})
}

// refusedKeyPackage expects a refusal that names the place of a KeyPackage.
func (a *answer) refusedKeyPackage(loc string) *answer {
	a.t.Helper()
	all := a.refusedByRule("key_package_invalid").complaints("key_package_invalid")
	if len(all) != 1 || fmt.Sprint(all[0]["loc"]) != loc {
		a.errorf("want one fault, at %s", loc)
	}
	return a
}

// invalidKeyPackage uploads a KeyPackage after a sound one and expects a refusal.
func (g *agent) invalidKeyPackage(text string) *answer {
	g.t.Helper()
	return g.publishKeyPackages(obj{"key_packages": []any{g.keyPackage(), text}}).refusedKeyPackage("[body key_packages 1]")
}

func TestKeyPackagesRefused(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("packed")
		_, other, _ := ed25519.GenerateKey(nil)
		now := time.Now()
		whole := g.keyPackageOf().Bytes(now)
		for name, alter := range map[string]func(*mlstest.KeyPackage){
			"by another key":       func(k *mlstest.KeyPackage) { k.Key = other },
			"signed by another":    func(k *mlstest.KeyPackage) { k.Key, k.Claimed = other, g.sign.Public().(ed25519.PublicKey) },
			"of another handle":    func(k *mlstest.KeyPackage) { k.Identity = "x" + k.Identity },
			"in upper case":        func(k *mlstest.KeyPackage) { k.Identity = strings.ToUpper(k.Identity) },
			"of the id":            func(k *mlstest.KeyPackage) { k.Identity = g.id },
			"of a suite with P256": func(k *mlstest.KeyPackage) { k.Suite = 2 },
			"expired":              func(k *mlstest.KeyPackage) { k.NotAfter = now.Add(-time.Hour) },
			"not yet valid":        func(k *mlstest.KeyPackage) { k.NotBefore = now.Add(time.Hour) },
			"with one key for all": func(k *mlstest.KeyPackage) { k.InitKey = make([]byte, 32); k.EncryptionKey = make([]byte, 32) },
		} {
			g.invalidKeyPackage(g.keyPackage(alter)).as("%s", name)
		}
		for name, text := range map[string]string{
			"cut short": b64(whole[:len(whole)-1]), "longer": b64(append(whole, 0)), "a commit": "AAEAAQ", "half a byte": "A",
		} {
			g.invalidKeyPackage(text).as("%s", name)
		}
		twice := g.keyPackage()
		g.publishKeyPackages(obj{"key_packages": []any{twice}, "last_resort": twice}).as("in both places").refusedKeyPackage("[body last_resort]")
		g.publishKeyPackages(obj{"key_packages": []any{}, "last_resort": "AAEAAQ"}).refusedKeyPackage("[body last_resort]")
		g.publishKeyPackages(obj{}).invalid("body.key_packages", "missing")
		g.publishKeyPackages(obj{"key_packages": []any{"+/"}}).invalid("body.key_packages.0", "string_pattern_mismatch")
		g.countKeyPackages().as("after refusals").want(200).is("available", 0.0, "last_resort", false)
	})
}

// TestKeyPackageQuota fills an agent's room in requests of 100.
func TestKeyPackageQuota(t *testing.T) {
	s := start(t)
	g := s.org(t).agent("packed")
	hundred := func(n int) (all []any) {
		for range n {
			all = append(all, g.keyPackage())
		}
		return all
	}
	g.publishKeyPackages(obj{"key_packages": hundred(101)}).invalid("body.key_packages", "too_long")
	for n := range 10 {
		g.publishKeyPackages(obj{"key_packages": hundred(100)}).want(200).is("stored", 100.0, "available", float64(100*(n+1)))
	}
	g.publishKeyPackages(obj{"key_packages": hundred(1), "last_resort": g.keyPackage()}).refused(403, "quota_exceeded").
		is("quota", "key_packages", "limit", 1000.0, "used", 1000.0, "resets_at", nil)
	g.publishKeyPackages(obj{"key_packages": []any{}, "last_resort": g.keyPackage()}).want(200).is("available", 1000.0)
}

// TestClaimsAreBounded: an organization claims few key packages of one agent in an hour,
// whichever of its agents asks. It may claim those of others, and others may claim of that
// agent.
func TestClaimsAreBounded(t *testing.T) {
	onOneNode(t, "claims are counted", func(t *testing.T, s *server) {
		ann, bob, carol, second := trio(t, s)
		dave := s.org(t).agent("dave")
		r := ann.mlsGroup(carol, second)
		r.joined(bob)
		r.joined(dave)
		for _, g := range []*agent{bob, dave} {
			packages := []any{}
			for range 30 {
				packages = append(packages, g.keyPackage())
			}
			g.publishKeyPackages(obj{"key_packages": packages}).want(200)
		}
		for range 3 { // refused claims do not count
			dave.tryClaim(bob, obj{}).as("by a member without a leaf").refused(404, "not_found")
		}
		for i := range 20 {
			[]*agent{ann, second}[i%2].tryClaim(bob, obj{}).as("claim %d", i).want(200)
		}
		for _, g := range []*agent{ann, second} {
			a := g.tryClaim(bob, obj{}).as("one too many").refused(429, "rate_limited")
			if wait, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || wait < 1 || wait > 3600 {
				t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
			}
		}
		bob.countKeyPackages().want(200).is("available", 10.0)
		carol.tryClaim(bob, obj{}).as("by another organization").want(200)
		ann.tryClaim(dave, obj{}).as("of another agent").want(200)
	})
}

// A member with a leaf claims key packages of a member without one, each once and those that
// expire first first; nobody else does.
func TestClaimKeyPackages(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		ann, bob, carol, second := trio(t, s)
		r := ann.groupWithPolicy("open", bob, carol)
		none := func(by, of *agent, what string) {
			t.Helper()
			by.tryClaim(of, obj{}).as("%s", what).refused(404, "not_found")
		}
		lasting := func(d time.Duration) string {
			return bob.keyPackage(func(k *mlstest.KeyPackage) { k.NotAfter = time.Now().Add(d) })
		}
		later, sooner, last := lasting(48*time.Hour), lasting(24*time.Hour), bob.keyPackage(func(k *mlstest.KeyPackage) { k.LastResort = true })
		bob.publishKeyPackages(obj{"key_packages": []any{later, sooner}, "last_resort": last}).want(200)
		none(ann, bob, "before the MLS group began")
		r.committed(ann, r.mlsCommit(0))
		none(carol, bob, "by a member without a leaf")
		none(second, bob, "by an agent of the same organization that is no member")
		none(bob, bob, "by the agent itself")
		none(ann, carol, "of an agent that has uploaded none")
		none(ann, ann, "of an agent with a leaf")
		ann.request("POST", "/agents/"+nobody+"/mls/key-packages/claim", obj{}).refused(404, "not_found")
		ann.post(bob.path("/mls/key-packages/claim"), obj{}).as("by nobody named").refused(400, "agent_required")
		ann.tryClaim(bob, obj{"cipher_suite": 0}).invalid("body.cipher_suite", "greater_than_equal")
		ann.tryClaim(bob, obj{"cipher_suite": 3}).as("of another suite").refused(404, "not_found")
		bob.countKeyPackages().as("after refusals").want(200).is("available", 2.0, "last_resort", true)

		for _, want := range []string{sooner, later, last, last} {
			a := ann.tryClaim(bob, obj{"cipher_suite": 1}).want(200).is("key_package", want, "cipher_suite", 1.0, "last_resort", want == last)
			exactly(t, "claim", a.body, "key_package cipher_suite last_resort")
		}
		bob.countKeyPackages().want(200).is("available", 0.0, "last_resort", true)
		bob.publishKeyPackages(obj{"key_packages": []any{later}}).as("claimed before").want(200).is("stored", 0.0)
		r.committed(ann, r.mlsAdd(1, bob))
		none(ann, bob, "once it has its leaf")
		carol.publishKeyPackages(obj{"key_packages": []any{carol.keyPackage()}}).want(200)
		bob.tryClaim(carol, obj{}).as("by the new member").want(200)
	})
}
