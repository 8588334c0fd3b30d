package blackbox

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("keyed")
		a := s.call(t, "", "GET", g.path("/keys"), nil).want(200)
		exactly(t, "keys", a.body, "agent_id handle signing_public_key encryption_public_key pq_public_key key_binding unbound_since")
		a.shaped(keysShape).is("agent_id", g.id, "handle", g.handle,
			"signing_public_key", merged(signJWK(g.sign), obj{"kid": g.signKid()}),
			"encryption_public_key", merged(sealJWK(g.seal), obj{"kid": thumbprint("X25519", g.seal.PublicKey().Bytes())}))
		s.call(t, "", "GET", "/agents/"+nobody+"/keys", nil).refused(404, "not_found")
		s.call(t, "", "GET", "/agents/x/keys", nil).invalid("path", "uuid_parsing")
	})
}

func TestKeyRotation(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("rotating")
		public := func(query string) *answer { return s.call(t, "", "GET", g.path("/keys")+query, nil) }
		sign, seal := newKeys()
		g.post(g.path("/keys"), obj{}).invalid("body", "")
		g.post(g.path("/keys"), obj{"signing_public_key": nil, "encryption_public_key": nil}).as("nulls").invalid("body", "")
		old := g.signKid()
		a := g.post(g.path("/keys"), obj{"signing_public_key": signJWK(sign)}).want(200).shaped(agentShape)
		a.is("signing_public_key.x", signJWK(sign)["x"], "encryption_public_key.x", sealJWK(g.seal)["x"])
		if a.at("verification_words") == g.record["verification_words"] {
			a.errorf("the words did not change with the key")
		}
		public("").want(200).is("signing_public_key.x", signJWK(sign)["x"], "encryption_public_key.x", sealJWK(g.seal)["x"])
		public("?kid="+old).want(200).is("agent_id", g.id, "signing_public_key", merged(signJWK(g.sign), obj{"kid": old}))
		public("?kid="+thumbprint("Ed25519", sign.Public().(ed25519.PublicKey))).want(200).is("signing_public_key.x", signJWK(sign)["x"])
		public("?kid=unknown").refused(404, "not_found")

		g.post(g.path("/keys"), obj{"encryption_public_key": sealJWK(seal)}).want(200).is("encryption_public_key.x", sealJWK(seal)["x"], "signing_public_key.x", signJWK(sign)["x"])
		oldSeal := thumbprint("X25519", g.seal.PublicKey().Bytes())
		public("?kid="+oldSeal).want(200).is("encryption_public_key", merged(sealJWK(g.seal), obj{"kid": oldSeal}))
		public("?kid="+old).want(200).is("signing_public_key.kid", old)
		s.call(t, "", "GET", "/agents/keys?ids="+g.id, nil).want(200).is("keys."+g.id+".encryption_public_key.x", sealJWK(seal)["x"])
		g.post(g.path("/keys"), obj{"signing_public_key": signJWK(g.sign), "encryption_public_key": sealJWK(g.seal)}).as("both, back").want(200)
		public("").want(200).is("signing_public_key.kid", old, "encryption_public_key.kid", oldSeal)
	})
}

// nonCanonical sets the unused low bits of a 32-byte value's base64url form.
func nonCanonical(x string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	i := strings.IndexByte(alphabet, x[len(x)-1])
	return x[:len(x)-1] + string(alphabet[i|1])
}

func badKeys(curve, x string) map[string]obj {
	raw, _ := base64.RawURLEncoding.DecodeString(x)
	other := map[string]string{"Ed25519": "X25519", "X25519": "Ed25519"}[curve]
	good := obj{"kty": "OKP", "crv": curve, "x": x}
	return map[string]obj{
		"private member": merged(good, obj{"d": x}),
		"other curve":    merged(good, obj{"crv": other}),
		"curve in small": merged(good, obj{"crv": strings.ToLower(curve)}),
		"kty EC":         merged(good, obj{"kty": "EC"}),
		"no kty":         without(good, "kty"),
		"no crv":         without(good, "crv"),
		"no x":           without(good, "x"),
		"x a number":     merged(good, obj{"x": 1}),
		"x empty":        merged(good, obj{"x": ""}),
		"31 bytes":       merged(good, obj{"x": b64(raw[:31])}),
		"33 bytes":       merged(good, obj{"x": b64(append(bytes.Clone(raw), 0))}),
		"padded":         merged(good, obj{"x": x + "="}),
		"not canonical":  merged(good, obj{"x": nonCanonical(x)}),
		"standard":       merged(good, obj{"x": "+/" + x[2:]}),
		"all zero":       merged(good, obj{"x": b64(make([]byte, 32))}),
		"point of one":   merged(good, obj{"x": b64(append([]byte{1}, make([]byte, 31)...))}),
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		g := o.agent("holder")
		sign, seal := newKeys()
		for field, key := range map[string]obj{"signing_public_key": signJWK(sign), "encryption_public_key": sealJWK(seal)} {
			for name, bad := range badKeys(text(key, "crv"), text(key, "x")) {
				o.post("/agents", merged(newAgent("bad"), obj{field: bad})).as("%s, %s", field, name).invalid("body."+field, "")
				g.post(g.path("/keys"), obj{field: bad}).as("rotate %s, %s", field, name).invalid("body."+field, "")
			}
		}
		if n := len(o.get("/agents").want(200).list); n != 1 {
			t.Errorf("%d agents, want 1", n)
		}
		g.get(g.path("")).want(200).is("signing_public_key.x", signJWK(g.sign)["x"], "encryption_public_key.x", sealJWK(g.seal)["x"])
	})
}

func TestPublicMembersOfKeysAreDropped(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		sign, seal := newKeys()
		extra := obj{"kid": "mine", "use": "sig", "alg": "EdDSA", "key_ops": []any{"verify"}, "ext": true}
		body := obj{"name": "extras", "signing_public_key": merged(signJWK(sign), extra), "encryption_public_key": merged(sealJWK(seal), extra)}
		a := s.org(t).post("/agents", body).want(201)
		a.is("signing_public_key", merged(signJWK(sign), obj{"kid": thumbprint("Ed25519", sign.Public().(ed25519.PublicKey))}),
			"encryption_public_key", merged(sealJWK(seal), obj{"kid": thumbprint("X25519", seal.PublicKey().Bytes())}))
	})
}

func TestVerificationWords(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		key := obj{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
		a := s.org(t).post("/agents", merged(newAgent("rfc8037"), obj{"signing_public_key": key})).want(201)
		a.is("verification_words", "capable various jewel dress enforce", "signing_public_key.kid", "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k")
	})
}

func TestBatchKeys(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o := s.org(t)
		a, b, gone := o.agent("a"), s.org(t).agent("b"), o.agent("gone")
		gone.delete(gone.path("")).want(204)
		fetch := func(query string) *answer { return s.call(t, "", "GET", "/agents/keys"+query, nil) }
		both := fetch("?ids=" + a.id + "," + nobody + "," + b.id + "," + gone.id).want(200)
		exactly(t, "keys", both.at("keys").(obj), a.id+" "+b.id)
		for _, g := range []*agent{a, b} {
			one := both.at("keys." + g.id).(obj)
			exactly(t, "keys of one", one, "agent_id handle signing_public_key encryption_public_key pq_public_key key_binding unbound_since")
			shaped(t, "keys of one", one, keysShape)
			both.is("keys."+g.id, fetch("?ids="+g.id).want(200).at("keys."+g.id))
			both.is("keys."+g.id, s.call(t, "", "GET", g.path("/keys"), nil).want(200).body)
		}
		fetch("?ids="+a.id+"&ids="+b.id).as("repeated").want(200).is("keys", both.at("keys"))
		fetch("?ids="+a.id+","+a.id).as("twice the same").want(200).is("keys."+a.id, both.at("keys."+a.id))
		fetch("?ids="+nobody).want(200).is("keys", obj{})
		fetch("").as("none").invalid("query.ids", "")
		fetch("?ids=x").invalid("query.ids", "")
		fetch("?ids="+a.id+",x").as("one malformed").invalid("query.ids", "")
		many := strings.Repeat(nobody+",", 199)
		exactly(t, "200 ids", fetch("?ids="+many+a.id).as("200").want(200).at("keys").(obj), a.id)
		fetch("?ids="+many+a.id+","+b.id).as("201").invalid("query.ids", "")
	})
}
