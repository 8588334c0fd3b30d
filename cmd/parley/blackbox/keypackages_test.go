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
func (g *Agent) keyPackage(alter ...func(*mlstest.KeyPackage)) string {
	return B64(g.keyPackageOf(alter...).Message(time.Now()))
}

func (g *Agent) keyPackageOf(alter ...func(*mlstest.KeyPackage)) mlstest.KeyPackage {
	k := mlstest.KeyPackage{Key: g.Sign, Identity: strings.ToLower(g.Handle)}
	for _, change := range alter {
		change(&k)
	}
	return k
}

func (g *Agent) publishKeyPackages(body obj) *Answer {
	return g.Post(g.Path("/mls/key-packages"), body)
}

// tryClaim claims a key package of an agent.
func (g *Agent) tryClaim(of *Agent, body obj) *Answer {
	return g.Request("POST", of.Path("/mls/key-packages/claim"), body)
}

func (g *Agent) countKeyPackages() *Answer { return g.Get(g.Path("/mls/key-packages/count")) }

func TestKeyPackages(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		g := s.Org(t).Agent("packed")
		g.countKeyPackages().Want(200).Is("available", 0.0, "last_resort", false)
		one, two, last := g.keyPackage(), B64(g.keyPackageOf().Bytes(time.Now())), g.keyPackage(func(k *mlstest.KeyPackage) { k.LastResort = true })
		a := g.publishKeyPackages(obj{"key_packages": []any{one, two}}).Want(200).Is("stored", 2.0, "available", 2.0)
		Exactly(t, "stored", a.Body, "stored available")
		g.publishKeyPackages(obj{"key_packages": []any{one + "=", two, g.keyPackage()}}).As("again, and one more").Want(200).Is("stored", 1.0, "available", 3.0)
		g.publishKeyPackages(obj{"key_packages": []any{}, "last_resort": last}).Want(200).Is("stored", 0.0, "available", 3.0)
		a = g.countKeyPackages().Want(200).Is("available", 3.0, "last_resort", true)
		Exactly(t, "count", a.Body, "available last_resort")

		stranger := s.Org(t).Agent("stranger")
		stranger.publishKeyPackagesOf(g).Refused(403, "not_owner")
		stranger.Get(g.Path("/mls/key-packages/count")).Refused(403, "not_owner")
		g.Post("/agents/"+Nobody+"/mls/key-packages", obj{"key_packages": []any{}}).Refused(404, "not_found")

		sign, seal := NewKeys()
		g.Post(g.Path("/keys"), obj{"encryption_public_key": SealJWK(seal)}).Want(200)
		g.countKeyPackages().As("with another encryption key").Want(200).Is("available", 3.0, "last_resort", true)
		g.Post(g.Path("/keys"), obj{"signing_public_key": SignJWK(sign)}).Want(200)
		g.countKeyPackages().As("with another signing key").Want(200).Is("available", 0.0, "last_resort", false)
		g.Sign = sign
		g.invalidKeyPackage(one).As("by the former key")
		g.publishKeyPackages(obj{"key_packages": []any{g.keyPackage()}, "last_resort": g.keyPackage()}).Want(200).Is("stored", 1.0, "available", 1.0)
		g.Delete(g.Path("")).Want(204)
		g.countKeyPackages().As("revoked").Want(200).Is("available", 0.0, "last_resort", false)
		g.publishKeyPackages(obj{"key_packages": []any{}}).As("revoked").Refused(410, "gone")
	})
}

func (g *Agent) publishKeyPackagesOf(other *Agent) *Answer {
	return g.Post(other.Path("/mls/key-packages"), obj{"key_packages": []any{other.keyPackage()}})
}

// refusedKeyPackage expects a refusal that names the place of a KeyPackage.
func (a *Answer) refusedKeyPackage(loc string) *Answer {
	a.T.Helper()
	all := a.RefusedByRule("key_package_invalid").Complaints("key_package_invalid")
	if len(all) != 1 || fmt.Sprint(all[0]["loc"]) != loc {
		a.Errorf("want one fault, at %s", loc)
	}
	return a
}

// invalidKeyPackage uploads a KeyPackage after a sound one and expects a refusal.
func (g *Agent) invalidKeyPackage(text string) *Answer {
	g.T.Helper()
	return g.publishKeyPackages(obj{"key_packages": []any{g.keyPackage(), text}}).refusedKeyPackage("[body key_packages 1]")
}

func TestKeyPackagesRefused(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		g := s.Org(t).Agent("packed")
		_, other, _ := ed25519.GenerateKey(nil)
		now := time.Now()
		whole := g.keyPackageOf().Bytes(now)
		for name, alter := range map[string]func(*mlstest.KeyPackage){
			"by another key":       func(k *mlstest.KeyPackage) { k.Key = other },
			"signed by another":    func(k *mlstest.KeyPackage) { k.Key, k.Claimed = other, g.Sign.Public().(ed25519.PublicKey) },
			"of another handle":    func(k *mlstest.KeyPackage) { k.Identity = "x" + k.Identity },
			"in upper case":        func(k *mlstest.KeyPackage) { k.Identity = strings.ToUpper(k.Identity) },
			"of the id":            func(k *mlstest.KeyPackage) { k.Identity = g.ID },
			"of a suite with P256": func(k *mlstest.KeyPackage) { k.Suite = 2 },
			"expired":              func(k *mlstest.KeyPackage) { k.NotAfter = now.Add(-time.Hour) },
			"not yet valid":        func(k *mlstest.KeyPackage) { k.NotBefore = now.Add(time.Hour) },
			"with one key for all": func(k *mlstest.KeyPackage) { k.InitKey = make([]byte, 32); k.EncryptionKey = make([]byte, 32) },
		} {
			g.invalidKeyPackage(g.keyPackage(alter)).As("%s", name)
		}
		for name, text := range map[string]string{
			"cut short": B64(whole[:len(whole)-1]), "longer": B64(append(whole, 0)), "a commit": "AAEAAQ", "half a byte": "A",
		} {
			g.invalidKeyPackage(text).As("%s", name)
		}
		twice := g.keyPackage()
		g.publishKeyPackages(obj{"key_packages": []any{twice}, "last_resort": twice}).As("in both places").refusedKeyPackage("[body last_resort]")
		g.publishKeyPackages(obj{"key_packages": []any{}, "last_resort": "AAEAAQ"}).refusedKeyPackage("[body last_resort]")
		g.publishKeyPackages(obj{}).Invalid("body.key_packages", "missing")
		g.publishKeyPackages(obj{"key_packages": []any{"+/"}}).Invalid("body.key_packages.0", "string_pattern_mismatch")
		g.countKeyPackages().As("after refusals").Want(200).Is("available", 0.0, "last_resort", false)
	})
}

// TestKeyPackageQuota fills an agent's room in requests of 100.
func TestKeyPackageQuota(t *testing.T) {
	s := Start(t)
	g := s.Org(t).Agent("packed")
	hundred := func(n int) (all []any) {
		for range n {
			all = append(all, g.keyPackage())
		}
		return all
	}
	g.publishKeyPackages(obj{"key_packages": hundred(101)}).Invalid("body.key_packages", "too_long")
	for n := range 10 {
		g.publishKeyPackages(obj{"key_packages": hundred(100)}).Want(200).Is("stored", 100.0, "available", float64(100*(n+1)))
	}
	g.publishKeyPackages(obj{"key_packages": hundred(1), "last_resort": g.keyPackage()}).Refused(403, "quota_exceeded").
		Is("quota", "key_packages", "limit", 1000.0, "used", 1000.0, "resets_at", nil)
	g.publishKeyPackages(obj{"key_packages": []any{}, "last_resort": g.keyPackage()}).Want(200).Is("available", 1000.0)
}

// TestClaimsAreBounded: an organization claims few key packages of one agent in an hour,
// whichever of its agents asks. It may claim those of others, and others may claim of that
// agent.
func TestClaimsAreBounded(t *testing.T) {
	OnOneNode(t, "claims are counted", func(t *testing.T, s *Server) {
		ann, bob, carol, second := trio(t, s)
		dave := s.Org(t).Agent("dave")
		r := ann.mlsGroup(carol, second)
		r.joined(bob)
		r.joined(dave)
		for _, g := range []*Agent{bob, dave} {
			packages := []any{}
			for range 30 {
				packages = append(packages, g.keyPackage())
			}
			g.publishKeyPackages(obj{"key_packages": packages}).Want(200)
		}
		for range 3 { // refused claims do not count
			dave.tryClaim(bob, obj{}).As("by a member without a leaf").Refused(404, "not_found")
		}
		for i := range 20 {
			[]*Agent{ann, second}[i%2].tryClaim(bob, obj{}).As("claim %d", i).Want(200)
		}
		for _, g := range []*Agent{ann, second} {
			a := g.tryClaim(bob, obj{}).As("one too many").Refused(429, "rate_limited")
			if wait, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 3600 {
				t.Errorf("Retry-After is %q", a.Header.Get("Retry-After"))
			}
		}
		bob.countKeyPackages().Want(200).Is("available", 10.0)
		carol.tryClaim(bob, obj{}).As("by another organization").Want(200)
		ann.tryClaim(dave, obj{}).As("of another agent").Want(200)
	})
}

// A member with a leaf claims key packages of a member without one, each once and those that
// expire first first; nobody else does.
func TestClaimKeyPackages(t *testing.T) {
	Each(t, func(t *testing.T, s *Server) {
		ann, bob, carol, second := trio(t, s)
		r := ann.groupWithPolicy("open", bob, carol)
		none := func(by, of *Agent, what string) {
			t.Helper()
			by.tryClaim(of, obj{}).As("%s", what).Refused(404, "not_found")
		}
		lasting := func(d time.Duration) string {
			return bob.keyPackage(func(k *mlstest.KeyPackage) { k.NotAfter = time.Now().Add(d) })
		}
		later, sooner, last := lasting(48*time.Hour), lasting(24*time.Hour), bob.keyPackage(func(k *mlstest.KeyPackage) { k.LastResort = true })
		bob.publishKeyPackages(obj{"key_packages": []any{later, sooner}, "last_resort": last}).Want(200)
		none(ann, bob, "before the MLS group began")
		r.committed(ann, r.mlsCommit(0))
		none(carol, bob, "by a member without a leaf")
		none(second, bob, "by an agent of the same organization that is no member")
		none(bob, bob, "by the agent itself")
		none(ann, carol, "of an agent that has uploaded none")
		none(ann, ann, "of an agent with a leaf")
		ann.Request("POST", "/agents/"+Nobody+"/mls/key-packages/claim", obj{}).Refused(404, "not_found")
		ann.Post(bob.Path("/mls/key-packages/claim"), obj{}).As("by nobody named").Refused(400, "agent_required")
		ann.tryClaim(bob, obj{"cipher_suite": 0}).Invalid("body.cipher_suite", "greater_than_equal")
		ann.tryClaim(bob, obj{"cipher_suite": 3}).As("of another suite").Refused(404, "not_found")
		bob.countKeyPackages().As("after refusals").Want(200).Is("available", 2.0, "last_resort", true)

		for _, want := range []string{sooner, later, last, last} {
			a := ann.tryClaim(bob, obj{"cipher_suite": 1}).Want(200).Is("key_package", want, "cipher_suite", 1.0, "last_resort", want == last)
			Exactly(t, "claim", a.Body, "key_package cipher_suite last_resort")
		}
		bob.countKeyPackages().Want(200).Is("available", 0.0, "last_resort", true)
		bob.publishKeyPackages(obj{"key_packages": []any{later}}).As("claimed before").Want(200).Is("stored", 0.0)
		r.committed(ann, r.mlsAdd(1, bob))
		none(ann, bob, "once it has its leaf")
		carol.publishKeyPackages(obj{"key_packages": []any{carol.keyPackage()}}).Want(200)
		bob.tryClaim(carol, obj{}).As("by the new member").Want(200)
	})
}
