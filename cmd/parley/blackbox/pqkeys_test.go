package blackbox

import (
	"bytes"
	"crypto/mlkem"
	"crypto/sha256"
	"encoding/base64"
	"testing"
)

// kemKey returns a new ML-KEM-768 key as a JWK.
func kemKey() obj { return pqJWK("ML-KEM-768", rawKEMKey()) }

func rawKEMKey() []byte {
	k, err := mlkem.GenerateKey768()
	if err != nil {
		panic(err)
	}
	return k.EncapsulationKey().Bytes()
}

func pqJWK(alg string, raw []byte) obj { return obj{"kty": "AKP", "alg": alg, "pub": b64(raw)} }

// pqThumbprint returns the key id of RFC 7638, whose members of an AKP key are alg, kty and
// pub.
func pqThumbprint(alg string, raw []byte) string {
	sum := sha256.Sum256([]byte(`{"alg":"` + alg + `","kty":"AKP","pub":"` + b64(raw) + `"}`))
	return b64(sum[:])
}

func TestPostQuantumKeys(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("quantum")
		public := func(query string) *answer { return s.call(t, "", "GET", g.path("/keys")+query, nil) }
		set := func(key obj) *answer { return g.post(g.path("/keys/pq"), obj{"pq_public_key": key}) }
		public("").want(200).is("pq_public_key", nil)
		g.get(g.path("")).want(200).is("pq_public_key", nil)

		kem := rawKEMKey()
		served := merged(pqJWK("ML-KEM-768", kem), obj{"kid": pqThumbprint("ML-KEM-768", kem)})
		extra := obj{"kid": "mine", "use": "enc", "key_ops": []any{}, "ext": true}
		set(merged(pqJWK("ML-KEM-768", kem), extra)).want(200).shaped(agentShape).is("pq_public_key", served, "id", g.id)
		hybrid := append(bytes.Clone(kem), g.seal.PublicKey().Bytes()...)
		kid := pqThumbprint("X-Wing", hybrid)
		served = merged(pqJWK("X-Wing", hybrid), obj{"kid": kid})
		set(pqJWK("X-Wing", hybrid)).as("in its place").want(200).is("pq_public_key", served)
		set(pqJWK("X-Wing", hybrid)).as("again").want(200).is("pq_public_key", served)
		g.get(g.path("")).want(200).shaped(agentShape).is("pq_public_key", served)
		public("").want(200).shaped(keysShape).is("pq_public_key", served, "unbound_since", nil)
		s.call(t, "", "GET", "/agents/keys?ids="+g.id, nil).want(200).is("keys."+g.id+".pq_public_key", served)
		public("?kid="+g.signKid()).want(200).is("pq_public_key", served)
		public("?kid="+kid).want(200).is("pq_public_key", served, "valid_until", nil, "signing_public_key.kid", g.signKid())
		public("?kid="+pqThumbprint("ML-KEM-768", kem)).as("a former one").refused(404, "not_found")
		g.post(g.path("/keys/retire"), obj{"kid": kid}).refused(409, "invalid_transition")

		sign, seal := newKeys()
		g.post(g.path("/keys"), obj{"signing_public_key": signJWK(sign)}).as("another signing key").want(200).is("pq_public_key", served)
		g.post(g.path("/keys"), obj{"encryption_public_key": sealJWK(seal)}).as("another encryption key").want(200).is("pq_public_key", nil)
		set(kemKey()).want(200)
		g.delete(g.path("/keys/pq")).want(204)
		public("").want(200).is("pq_public_key", nil)
		g.delete(g.path("/keys/pq")).as("again").want(204)
		s.org(t).post(g.path("/keys/pq"), obj{"pq_public_key": kemKey()}).as("another organization").refused(403, "not_owner")
		g.delete(g.path("")).want(204)
		set(kemKey()).as("revoked").refused(410, "gone")
		g.delete(g.path("/keys/pq")).as("revoked").refused(410, "gone")
	})
}

func TestBadPostQuantumKeysAreRefused(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("holder")
		kem := rawKEMKey()
		hybrid := append(bytes.Clone(kem), g.seal.PublicKey().Bytes()...)
		good := pqJWK("X-Wing", hybrid)
		pub := text(good, "pub")
		tooLarge := bytes.Clone(hybrid)
		tooLarge[0], tooLarge[1] = 0xff, 0xff
		for name, bad := range map[string]any{
			"absent": nil, "a text": pub,
			"private member":    merged(good, obj{"priv": b64(kem[:64])}),
			"private member d":  merged(good, obj{"d": b64(kem[:32])}),
			"kty OKP":           merged(good, obj{"kty": "OKP"}),
			"ML-KEM-1024":       merged(good, obj{"alg": "ML-KEM-1024"}),
			"no kty":            without(good, "kty"),
			"no alg":            without(good, "alg"),
			"no pub":            without(good, "pub"),
			"pub a number":      merged(good, obj{"pub": 1}),
			"of the other alg":  merged(good, obj{"alg": "ML-KEM-768"}),
			"X-Wing of one":     pqJWK("X-Wing", kem),
			"one byte more":     pqJWK("X-Wing", append(bytes.Clone(hybrid), 0)),
			"padded":            merged(good, obj{"pub": base64.URLEncoding.EncodeToString(hybrid)}),
			"not canonical":     merged(good, obj{"pub": nonCanonical(pub)}),
			"coefficients":      pqJWK("X-Wing", tooLarge),
			"low-order X25519":  pqJWK("X-Wing", append(bytes.Clone(kem), make([]byte, 32)...)),
			"an encryption key": sealJWK(g.seal),
		} {
			g.post(g.path("/keys/pq"), obj{"pq_public_key": bad}).as("%s", name).invalid("body.pq_public_key", "")
		}
		g.post(g.path("/keys/pq"), obj{}).invalid("body.pq_public_key", "missing")
		g.get(g.path("")).want(200).is("pq_public_key", nil)
		g.post("/agents", merged(newAgent("early"), obj{"pq_public_key": good})).as("at creation").invalid("body.pq_public_key", "extra_forbidden")
	})
}
