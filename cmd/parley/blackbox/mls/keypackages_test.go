package mls

import (
	"crypto/ed25519"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/grouptest"
	"parley/http/mls/mlstest"
)

// tryClaim claims a key package of an agent.
func tryClaim(g *kit.Agent, of *kit.Agent, body obj) *kit.Answer {
	return g.Request("POST", of.Path("/mls/key-packages/claim"), body)
}

func countKeyPackages(g *kit.Agent) *kit.Answer { return g.Get(g.Path("/mls/key-packages/count")) }

func TestKeyPackages(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("packed")
		countKeyPackages(g).Want(200).Is("available", 0.0, "last_resort", false)
		one, two, last := grouptest.KeyPackage(g), kit.B64(grouptest.KeyPackageOf(g).Bytes(time.Now())), grouptest.KeyPackage(g, func(k *mlstest.KeyPackage) { k.LastResort = true })
		a := grouptest.PublishKeyPackages(g, obj{"key_packages": []any{one, two}}).Want(200).Is("stored", 2.0, "available", 2.0)
		kit.Exactly(t, "stored", a.Body, "stored available")
		grouptest.PublishKeyPackages(g, obj{"key_packages": []any{one + "=", two, grouptest.KeyPackage(g)}}).As("again, and one more").Want(200).Is("stored", 1.0, "available", 3.0)
		grouptest.PublishKeyPackages(g, obj{"key_packages": []any{}, "last_resort": last}).Want(200).Is("stored", 0.0, "available", 3.0)
		a = countKeyPackages(g).Want(200).Is("available", 3.0, "last_resort", true)
		kit.Exactly(t, "count", a.Body, "available last_resort")

		stranger := s.Org(t).Agent("stranger")
		publishKeyPackagesOf(stranger, g).Refused(403, "not_owner")
		stranger.Get(g.Path("/mls/key-packages/count")).Refused(403, "not_owner")
		g.Post("/agents/"+kit.Nobody+"/mls/key-packages", obj{"key_packages": []any{}}).Refused(404, "not_found")

		sign, seal := kit.NewKeys()
		g.Post(g.Path("/keys"), obj{"encryption_public_key": kit.SealJWK(seal)}).Want(200)
		countKeyPackages(g).As("with another encryption key").Want(200).Is("available", 3.0, "last_resort", true)
		g.Post(g.Path("/keys"), obj{"signing_public_key": kit.SignJWK(sign)}).Want(200)
		countKeyPackages(g).As("with another signing key").Want(200).Is("available", 0.0, "last_resort", false)
		g.Sign = sign
		invalidKeyPackage(g, one).As("by the former key")
		grouptest.PublishKeyPackages(g, obj{"key_packages": []any{grouptest.KeyPackage(g)}, "last_resort": grouptest.KeyPackage(g)}).Want(200).Is("stored", 1.0, "available", 1.0)
		g.Delete(g.Path("")).Want(204)
		countKeyPackages(g).As("revoked").Want(200).Is("available", 0.0, "last_resort", false)
		grouptest.PublishKeyPackages(g, obj{"key_packages": []any{}}).As("revoked").Refused(410, "gone")
	})
}

func publishKeyPackagesOf(g *kit.Agent, other *kit.Agent) *kit.Answer {
	return g.Post(other.Path("/mls/key-packages"), obj{"key_packages": []any{grouptest.KeyPackage(other)}})
}

// refusedKeyPackage expects a refusal that names the place of a KeyPackage.
func refusedKeyPackage(a *kit.Answer, loc string) *kit.Answer {
	a.T.Helper()
	all := a.RefusedByRule("key_package_invalid").Complaints("key_package_invalid")
	if len(all) != 1 || fmt.Sprint(all[0]["loc"]) != loc {
		a.Errorf("want one fault, at %s", loc)
	}
	return a
}

// invalidKeyPackage uploads a KeyPackage after a sound one and expects a refusal.
func invalidKeyPackage(g *kit.Agent, text string) *kit.Answer {
	g.T.Helper()
	return refusedKeyPackage(grouptest.PublishKeyPackages(g, obj{"key_packages": []any{grouptest.KeyPackage(g), text}}), "[body key_packages 1]")
}

func TestKeyPackagesRefused(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("packed")
		_, other, _ := ed25519.GenerateKey(nil)
		now := time.Now()
		whole := grouptest.KeyPackageOf(g).Bytes(now)
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
			invalidKeyPackage(g, grouptest.KeyPackage(g, alter)).As("%s", name)
		}
		for name, text := range map[string]string{
			"cut short": kit.B64(whole[:len(whole)-1]), "longer": kit.B64(append(whole, 0)), "a commit": "AAEAAQ", "half a byte": "A",
		} {
			invalidKeyPackage(g, text).As("%s", name)
		}
		twice := grouptest.KeyPackage(g)
		refusedKeyPackage(grouptest.PublishKeyPackages(g, obj{"key_packages": []any{twice}, "last_resort": twice}).As("in both places"), "[body last_resort]")
		refusedKeyPackage(grouptest.PublishKeyPackages(g, obj{"key_packages": []any{}, "last_resort": "AAEAAQ"}), "[body last_resort]")
		grouptest.PublishKeyPackages(g, obj{}).Invalid("body.key_packages", "missing")
		grouptest.PublishKeyPackages(g, obj{"key_packages": []any{"+/"}}).Invalid("body.key_packages.0", "string_pattern_mismatch")
		countKeyPackages(g).As("after refusals").Want(200).Is("available", 0.0, "last_resort", false)
	})
}

// TestKeyPackageQuota fills an agent's room in requests of 100.
func TestKeyPackageQuota(t *testing.T) {
	s := kit.Start(t)
	g := s.Org(t).Agent("packed")
	hundred := func(n int) (all []any) {
		for range n {
			all = append(all, grouptest.KeyPackage(g))
		}
		return all
	}
	grouptest.PublishKeyPackages(g, obj{"key_packages": hundred(101)}).Invalid("body.key_packages", "too_long")
	for n := range 10 {
		grouptest.PublishKeyPackages(g, obj{"key_packages": hundred(100)}).Want(200).Is("stored", 100.0, "available", float64(100*(n+1)))
	}
	grouptest.PublishKeyPackages(g, obj{"key_packages": hundred(1), "last_resort": grouptest.KeyPackage(g)}).Refused(403, "quota_exceeded").
		Is("quota", "key_packages", "limit", 1000.0, "used", 1000.0, "resets_at", nil)
	grouptest.PublishKeyPackages(g, obj{"key_packages": []any{}, "last_resort": grouptest.KeyPackage(g)}).Want(200).Is("available", 1000.0)
}

// TestClaimsAreBounded: an organization claims few key packages of one agent in an hour,
// whichever of its agents asks. It may claim those of others, and others may claim of that
// agent.
func TestClaimsAreBounded(t *testing.T) {
	kit.OnOneNode(t, "claims are counted", func(t *testing.T, s *kit.Server) {
		ann, bob, carol, second := trio(t, s)
		dave := s.Org(t).Agent("dave")
		r := grouptest.NewMLS(ann, carol, second)
		r.Joined(bob)
		r.Joined(dave)
		for _, g := range []*kit.Agent{bob, dave} {
			packages := []any{}
			for range 30 {
				packages = append(packages, grouptest.KeyPackage(g))
			}
			grouptest.PublishKeyPackages(g, obj{"key_packages": packages}).Want(200)
		}
		for range 3 { // refused claims do not count
			tryClaim(dave, bob, obj{}).As("by a member without a leaf").Refused(404, "not_found")
		}
		for i := range 20 {
			tryClaim([]*kit.Agent{ann, second}[i%2], bob, obj{}).As("claim %d", i).Want(200)
		}
		for _, g := range []*kit.Agent{ann, second} {
			a := tryClaim(g, bob, obj{}).As("one too many").Refused(429, "rate_limited")
			if wait, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 3600 {
				t.Errorf("Retry-After is %q", a.Header.Get("Retry-After"))
			}
		}
		countKeyPackages(bob).Want(200).Is("available", 10.0)
		tryClaim(carol, bob, obj{}).As("by another organization").Want(200)
		tryClaim(ann, dave, obj{}).As("of another agent").Want(200)
	})
}

// A member with a leaf claims key packages of a member without one, each once and those that
// expire first first; nobody else does.
func TestClaimKeyPackages(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		ann, bob, carol, second := trio(t, s)
		r := grouptest.NewWithPolicy(ann, "open", bob, carol)
		none := func(by, of *kit.Agent, what string) {
			t.Helper()
			tryClaim(by, of, obj{}).As("%s", what).Refused(404, "not_found")
		}
		lasting := func(d time.Duration) string {
			return grouptest.KeyPackage(bob, func(k *mlstest.KeyPackage) { k.NotAfter = time.Now().Add(d) })
		}
		later, sooner, last := lasting(48*time.Hour), lasting(24*time.Hour), grouptest.KeyPackage(bob, func(k *mlstest.KeyPackage) { k.LastResort = true })
		grouptest.PublishKeyPackages(bob, obj{"key_packages": []any{later, sooner}, "last_resort": last}).Want(200)
		none(ann, bob, "before the MLS group began")
		r.Committed(ann, r.CommitBody(0))
		none(carol, bob, "by a member without a leaf")
		none(second, bob, "by an agent of the same organization that is no member")
		none(bob, bob, "by the agent itself")
		none(ann, carol, "of an agent that has uploaded none")
		none(ann, ann, "of an agent with a leaf")
		ann.Request("POST", "/agents/"+kit.Nobody+"/mls/key-packages/claim", obj{}).Refused(404, "not_found")
		ann.Post(bob.Path("/mls/key-packages/claim"), obj{}).As("by nobody named").Refused(400, "agent_required")
		tryClaim(ann, bob, obj{"cipher_suite": 0}).Invalid("body.cipher_suite", "greater_than_equal")
		tryClaim(ann, bob, obj{"cipher_suite": 3}).As("of another suite").Refused(404, "not_found")
		countKeyPackages(bob).As("after refusals").Want(200).Is("available", 2.0, "last_resort", true)

		for _, want := range []string{sooner, later, last, last} {
			a := tryClaim(ann, bob, obj{"cipher_suite": 1}).Want(200).Is("key_package", want, "cipher_suite", 1.0, "last_resort", want == last)
			kit.Exactly(t, "claim", a.Body, "key_package cipher_suite last_resort")
		}
		countKeyPackages(bob).Want(200).Is("available", 0.0, "last_resort", true)
		grouptest.PublishKeyPackages(bob, obj{"key_packages": []any{later}}).As("claimed before").Want(200).Is("stored", 0.0)
		r.Committed(ann, r.AddBody(1, bob))
		none(ann, bob, "once it has its leaf")
		grouptest.PublishKeyPackages(carol, obj{"key_packages": []any{grouptest.KeyPackage(carol)}}).Want(200)
		tryClaim(bob, carol, obj{}).As("by the new member").Want(200)
	})
}
