package blackbox

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"fmt"
	"testing"
	"time"
)

const microseconds = "2006-01-02T15:04:05.000000Z"

// pairOfKeys are the private keys of an agent, held by its owner.
type pairOfKeys struct {
	sign ed25519.PrivateKey
	seal *ecdh.PrivateKey
}

func newPair() pairOfKeys {
	sign, seal := newKeys()
	return pairOfKeys{sign, seal}
}

func (k pairOfKeys) kids() (sign, seal string) {
	return thumbprint("Ed25519", k.sign.Public().(ed25519.PublicKey)), thumbprint("X25519", k.seal.PublicKey().Bytes())
}

// binding binds a pair of keys to an agent with the signatures that the documents
// prescribe. previous, unless nil, adds a second signature.
func (g *agent) binding(k pairOfKeys, previous ed25519.PrivateKey, signedAt string) obj {
	sign, seal := k.kids()
	text := fmt.Appendf(nil, "svc-keys-v1\n%s\n%s\n%s\n%s\n%s", g.id, g.handle, sign, seal, signedAt)
	body := obj{"signature": b64(ed25519.Sign(k.sign, text)), "signed_at": signedAt}
	if previous != nil {
		body["previous_signature"] = b64(ed25519.Sign(previous, text))
	}
	return body
}

// shownBinding is a binding as the key endpoints return it.
func shownBinding(body obj, k pairOfKeys, continuity string) obj {
	sign, seal := k.kids()
	return obj{
		"signature": body["signature"], "signed_at": body["signed_at"], "signing_kid": sign, "encryption_kid": seal,
		"previous_signature": body["previous_signature"], "continuity": continuity,
	}
}

func (g *agent) pair() pairOfKeys { return pairOfKeys{g.sign, g.seal} }

// instant returns a time in the format of a binding, offset from now.
func instant(after time.Duration) string { return time.Now().Add(after).UTC().Format(microseconds) }

func TestKeyBinding(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		o, other := s.org(t), s.org(t).agent("other")
		g := o.agent("bound")
		keys := func() *answer { return s.call(t, "", "GET", g.path("/keys"), nil).want(200) }
		bind := func(body any) *answer { return o.put(g.path("/key-binding"), body) }
		keys().is("key_binding", nil, "unbound_since", nil)
		s.call(t, "", "GET", g.path("/key-bindings"), nil).want(200).is("items", []any{}, "has_more", false, "next_cursor", nil)

		first := g.binding(g.pair(), nil, time.Now().Add(-time.Minute).UTC().Format("2006-01-02T15:04:05.0Z"))
		want := shownBinding(first, g.pair(), "first")
		a := bind(first).want(200)
		exactly(t, "the answer", a.body, "key_binding")
		a.is("key_binding", want)
		keys().is("key_binding", want, "unbound_since", nil)
		s.call(t, "", "GET", "/agents/keys?ids="+g.id, nil).want(200).is("keys."+g.id+".key_binding", want)
		s.call(t, "", "GET", g.path("/keys?kid="+g.signKid()), nil).want(200).is("key_binding", want)
		s.call(t, "", "GET", "/agents/"+g.handle+"/key-bindings", nil).want(200).is("items", []any{want})
		bind(first).as("the same again").want(200).is("key_binding", want)
		other.put(g.path("/key-binding"), first).refused(403, "not_owner")
		o.put("/agents/"+nobody+"/key-binding", first).refused(404, "not_found")

		stranger := newPair()
		forged := func(k pairOfKeys) obj {
			return obj{"signature": g.binding(k, nil, instant(0))["signature"], "signed_at": first["signed_at"]}
		}
		for name, body := range map[string]obj{
			"by another key": g.binding(pairOfKeys{stranger.sign, g.seal}, nil, instant(0)), "of another key": g.binding(pairOfKeys{g.sign, stranger.seal}, nil, instant(0)),
			"of another instant": forged(g.pair()), "for another agent": other.binding(g.pair(), nil, instant(0)),
			"no base64url": {"signature": "!!!", "signed_at": instant(0)}, "cut short": {"signature": text(first, "signature")[:40], "signed_at": instant(0)}, "empty": {"signature": "", "signed_at": instant(0)},
			"a previous one by a stranger": g.binding(g.pair(), stranger.sign, instant(0)), "and an empty one": merged(g.binding(g.pair(), nil, instant(0)), obj{"previous_signature": ""}),
		} {
			bind(body).as("%s", name).refused(403, "signature_invalid")
		}
		for _, at := range []string{text(first, "signed_at"), instant(-time.Hour), instant(6 * time.Minute)} {
			body := g.binding(g.pair(), nil, at)
			if at == text(first, "signed_at") {
				body["previous_signature"] = nil
				bind(body).as("null is absent").want(200)
				continue
			}
			bind(body).as("%s", at).refusedByRule("binding_stale")
		}
		for _, at := range []string{
			"2026-11-22T09:00:00", "2026-11-22T09:00:00z", "2026-11-22T09:00:00+00:00", "2026-11-22 09:00:00Z", "2026-11-22T09:00:00.1234567Z",
			"2026-11-22T09:00:60Z", "2026-02-30T09:00:00Z", "", "now",
		} {
			bind(g.binding(g.pair(), nil, at)).as("%q", at).invalid("body.signed_at", "")
			g.post(g.path("/keys"), merged(obj{"signing_public_key": signJWK(g.sign)}, obj{"key_binding": g.binding(g.pair(), nil, at)})).as("with keys, %q", at).invalid("body.key_binding.signed_at", "")
		}
		bind(obj{"signed_at": instant(0)}).invalid("body.signature", "missing")
		bind(obj{"signature": first["signature"]}).invalid("body.signed_at", "missing")
		keys().is("key_binding", want, "unbound_since", nil)
		ahead := g.binding(g.pair(), nil, instant(4*time.Minute))
		bind(ahead).as("four minutes ahead").want(200).is("key_binding", shownBinding(ahead, g.pair(), "signed"))
	})
}

// TestReplacedKeyIsUnbound: a caller with a token of the organization but without the
// agent's signing key can replace the encryption key. The server then reports the keys as
// unbound, and since when.
func TestReplacedKeyIsUnbound(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, mallory := s.org(t).agent("bob"), newPair()
		keys := func() *answer { return s.call(t, "", "GET", g.path("/keys"), nil).want(200) }
		first := g.binding(g.pair(), nil, instant(-time.Minute))
		g.put(g.path("/key-binding"), first).want(200)
		stolen := pairOfKeys{g.sign, mallory.seal}
		wrong := g.binding(pairOfKeys{mallory.sign, mallory.seal}, nil, instant(0))
		replace := obj{"encryption_public_key": sealJWK(mallory.seal)}
		g.post(g.path("/keys"), merged(replace, obj{"key_binding": wrong})).refused(403, "signature_invalid")
		g.post(g.path("/keys"), merged(replace, obj{"key_binding": first})).as("the binding of other keys").refused(403, "signature_invalid")
		keys().is("encryption_public_key.x", sealJWK(g.seal)["x"], "key_binding", shownBinding(first, g.pair(), "first"))

		before := time.Now().Add(-time.Second)
		words := g.get(g.path("")).want(200).at("verification_words")
		g.post(g.path("/keys"), replace).want(200).is("verification_words", words)
		a := keys().is("encryption_public_key.x", sealJWK(mallory.seal)["x"], "key_binding", nil)
		since, err := time.Parse(microseconds, a.str("unbound_since"))
		if err != nil || since.Before(before) || since.After(time.Now().Add(time.Second)) {
			a.errorf("unbound since %v", since)
		}
		g.post(g.path("/keys"), obj{"encryption_public_key": sealJWK(g.seal)}).as("and back").want(200)
		keys().is("key_binding", nil, "unbound_since", a.at("unbound_since"))
		s.call(t, "", "GET", "/agents/keys?ids="+g.id, nil).want(200).is("keys."+g.id+".key_binding", nil, "keys."+g.id+".unbound_since", a.at("unbound_since"))
		s.call(t, "", "GET", g.path("/key-bindings"), nil).want(200).is("items", []any{shownBinding(first, g.pair(), "first")})
		g.put(g.path("/key-binding"), first).as("the former binding").refusedByRule("binding_stale")
		g.put(g.path("/key-binding"), g.binding(stolen, nil, instant(0))).as("of the key that was there").refused(403, "signature_invalid")
		again := g.binding(g.pair(), nil, instant(0))
		g.put(g.path("/key-binding"), again).want(200)
		keys().is("key_binding", shownBinding(again, g.pair(), "signed"), "unbound_since", nil)

		never := s.org(t).agent("never")
		never.post(never.path("/keys"), replace).want(200)
		if a := s.call(t, "", "GET", never.path("/keys"), nil).want(200).is("key_binding", nil); a.at("unbound_since") == nil {
			a.errorf("the key of an agent without a binding changed, but the answer does not show it")
		}
	})
}

// TestRotationWithBinding: keys and their binding take effect together or not at all, and
// each binding says whether the former signing key signed it.
func TestRotationWithBinding(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("rotating")
		one, two, three := g.pair(), newPair(), newPair()
		keys := func() *answer { return s.call(t, "", "GET", g.path("/keys"), nil).want(200) }
		rotate := func(to pairOfKeys, binding obj) *answer {
			return g.post(g.path("/keys"), obj{"signing_public_key": signJWK(to.sign), "encryption_public_key": sealJWK(to.seal), "key_binding": binding})
		}
		start := time.Now().Add(-time.Minute)
		at := func(n int) string { return start.Add(time.Duration(n) * time.Microsecond).UTC().Format(microseconds) }
		first := g.binding(one, nil, at(1))
		g.post(g.path("/keys"), obj{"key_binding": first}).as("no keys").invalid("body", "")
		rotate(one, first).as("the keys that it has").want(200)
		rotate(one, first).as("again").want(200)
		rotate(two, g.binding(two, three.sign, at(2))).as("a stranger vouches").refused(403, "signature_invalid")
		if a := rotate(two, g.binding(two, one.sign, at(1))).as("not later").refusedByRule("binding_stale"); fmt.Sprint(a.at("detail").([]any)[0].(obj)["loc"]) != "[body key_binding signed_at]" {
			a.errorf("at another place")
		}
		keys().is("signing_public_key.x", signJWK(one.sign)["x"], "key_binding", shownBinding(first, one, "first"))
		second, third := g.binding(two, one.sign, at(2)), g.binding(three, nil, at(3))
		rotate(two, second).want(200).shaped(agentShape)
		keys().is("signing_public_key.x", signJWK(two.sign)["x"], "key_binding", shownBinding(second, two, "signed"))
		rotate(two, second).as("a retry").want(200)
		rotate(three, third).want(200)
		keys().is("key_binding", shownBinding(third, three, "broken"), "unbound_since", nil)
		all := []any{shownBinding(first, one, "first"), shownBinding(second, two, "signed"), shownBinding(third, three, "broken")}
		list := func(query string) *answer { return s.call(t, "", "GET", g.path("/key-bindings")+query, nil) }
		list("").want(200).is("items", all)
		page := list("?limit=2").want(200).is("items", all[:2], "has_more", true)
		list("?limit=2&cursor="+page.str("next_cursor")).want(200).is("items", all[2:], "has_more", false, "next_cursor", nil)
		other := s.org(t).agent("other")
		s.call(t, "", "GET", other.path("/key-bindings?cursor="+page.str("next_cursor")), nil).refused(400, "invalid_cursor")
		list("?limit=0").invalid("query.limit", "")
		list("?limit=201").invalid("query.limit", "")
	})
}

func TestKeyValidityAndRetirement(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, b := s.org(t).agent("signer"), s.org(t).agent("bob")
		old, oldSeal := g.pair().kids()
		fresh := newPair()
		record := func(kid string) *answer { return s.call(t, "", "GET", g.path("/keys?kid="+kid), nil).want(200) }
		retire := func(kid string) *answer { return g.post(g.path("/keys/retire"), obj{"kid": kid}) }
		created := g.record["created_at"]
		record(old).is("valid_from", created, "valid_until", nil, "retired_at", nil)
		retire(old).as("a current key").refused(409, "invalid_transition")
		retire(oldSeal).as("a current key").refused(409, "invalid_transition")
		retire("unknown").refused(404, "not_found")
		g.post(g.path("/keys/retire"), obj{}).invalid("body.kid", "missing")
		b.post(g.path("/keys/retire"), obj{"kid": old}).refused(403, "not_owner")

		g.post(g.path("/keys"), obj{"signing_public_key": signJWK(fresh.sign)}).want(200)
		until := record(old).is("valid_from", created, "retired_at", nil, "signing_public_key.kid", old).str("valid_until")
		kid, _ := fresh.kids()
		record(kid).is("valid_from", until, "valid_until", nil)
		attest := obj{"sender_attestations": []any{attested(g.sign, old, false, false)}}
		m := g.trySend(b, attest).as("by a former key").want(201)

		a := retire(old).want(200).is("agent_id", g.id, "signing_public_key.kid", old, "valid_until", until, "encryption_public_key.kid", oldSeal)
		if a.at("retired_at") == nil {
			a.errorf("the answer does not show when the key was retired")
		}
		retire(old).as("again").want(200).is("retired_at", a.at("retired_at"))
		record(old).is("retired_at", a.at("retired_at"), "valid_until", until)
		g.trySend(b, attest).as("by a retired key").refused(403, "signature_invalid")
		did := "did:web:" + g.org.slug + ".localhost:agents:signer#" + old
		g.trySend(b, obj{"sender_attestations": []any{attested(g.sign, did, true, false)}}).as("by its DID").refused(403, "signature_invalid")
		b.tryReply(m.body, attest).as("in a reply").refused(403, "signature_invalid")
		g.trySend(b, obj{"sender_attestations": []any{attested(fresh.sign, kid, false, false)}}).as("by the current key").want(201)
		g.post(g.path("/keys"), obj{"signing_public_key": signJWK(g.sign)}).as("a retired key").refused(409, "invalid_transition")
		s.call(t, "", "GET", g.path("/keys"), nil).want(200).is("signing_public_key.kid", kid)
	})
}

// TestAKeyIsRetiredByItsOwner: another organization that uploads an agent's public key
// cannot retire it for the server and cannot bring it back once retired.
func TestAKeyIsRetiredByItsOwner(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, thief, b := s.org(t).agent("signer"), s.org(t).agent("thief"), s.org(t).agent("bob")
		kid, _ := g.pair().kids()
		attest := obj{"sender_attestations": []any{attested(g.sign, kid, false, false)}}
		upload := func(by *agent, k pairOfKeys) {
			by.post(by.path("/keys"), obj{"signing_public_key": signJWK(k.sign)}).want(200)
		}
		upload(thief, g.pair())
		upload(thief, newPair())
		thief.post(thief.path("/keys/retire"), obj{"kid": kid}).want(200)
		g.trySend(b, attest).as("by a key that another organization retired").want(201)

		upload(g, newPair())
		g.post(g.path("/keys/retire"), obj{"kid": kid}).want(200)
		robber := thief.org.agent("robber")
		upload(robber, g.pair())
		robber.trySend(b, attest).as("by a retired key that another organization uploaded").refused(403, "signature_invalid")
	})
}

// TestStolenTokenCannotEndContinuity: a thief with the organization's token and none of
// the agent's keys cannot retire the keys for good and cannot use up the owner's limits.
func TestStolenTokenCannotEndContinuity(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("victim")
		owner, thief, next := g.pair(), newPair(), newPair()
		upload := func(k pairOfKeys, bound obj) *answer {
			body := obj{"signing_public_key": signJWK(k.sign), "encryption_public_key": sealJWK(k.seal)}
			if bound != nil {
				body["key_binding"] = bound
			}
			return g.post(g.path("/keys"), body)
		}
		retire := func(kid string) *answer { return g.post(g.path("/keys/retire"), obj{"kid": kid}) }
		sign, seal := owner.kids()
		first := g.binding(owner, nil, instant(-time.Hour))
		g.put(g.path("/key-binding"), first).want(200)
		upload(thief, nil).want(200)
		retire(sign).as("by a thief").refused(409, "invalid_transition")
		retire(seal).as("by a thief").want(200) // it returns with a binding
		for n := range 1100 {                   // the documents: an agent has at most 1,000 key bindings
			g.put(g.path("/key-binding"), g.binding(thief, nil, instant(-time.Hour+time.Duration(n+1)*time.Second))).as("by a thief").want(200)
		}
		retire(sign).as("by a thief who bound his keys").refused(409, "invalid_transition")

		upload(owner, nil).as("a retired encryption key, not bound").refused(409, "invalid_transition")
		upload(owner, g.binding(owner, nil, instant(0))).as("the owner restores its keys").want(200)
		upload(next, g.binding(next, owner.sign, instant(time.Second))).as("and rotates them").want(200)
		s.call(t, "", "GET", g.path("/keys"), nil).want(200).is("key_binding.continuity", "signed")
		retire(sign).as("the owner's former key").want(200)
		s.call(t, "", "GET", g.path("/key-bindings?limit=1"), nil).want(200).is("items", []any{shownBinding(first, owner, "first")})
	})
}

// TestKeysOfTheRevoked: the keys of a revoked agent cannot be changed or read.
func TestKeysOfTheRevoked(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("leaving")
		old := g.signKid()
		fresh := newPair()
		g.post(g.path("/keys"), obj{"signing_public_key": signJWK(fresh.sign)}).want(200)
		g.delete(g.path("")).want(204)
		bound := g.binding(pairOfKeys{fresh.sign, g.seal}, nil, instant(0))
		g.put(g.path("/key-binding"), bound).refused(410, "gone")
		g.post(g.path("/keys"), obj{"encryption_public_key": sealJWK(fresh.seal), "key_binding": bound}).refused(410, "gone")
		g.post(g.path("/keys/retire"), obj{"kid": old}).refused(410, "gone")
		s.call(t, "", "GET", g.path("/key-bindings"), nil).refused(404, "not_found")
	})
}

// TestBindingsSurviveACrash: after a crash, bindings have their exact text.
func TestBindingsSurviveACrash(t *testing.T) {
	t.Parallel()
	s := start(t, "--journals", "4")
	g, fresh := s.org(t).agent("bound"), newPair()
	first := g.binding(g.pair(), nil, time.Now().UTC().Add(-time.Minute).Format("2006-01-02T15:04:05Z"))
	g.put(g.path("/key-binding"), first).want(200)
	g.post(g.path("/keys"), obj{"encryption_public_key": sealJWK(fresh.seal)}).want(200)
	_, oldSeal := g.pair().kids()
	g.post(g.path("/keys/retire"), obj{"kid": oldSeal}).want(200)
	read := func() []any {
		all := []any{}
		for _, path := range []string{"/keys", "/key-bindings", "/keys?kid=" + oldSeal} {
			all = append(all, s.call(t, "", "GET", g.path(path), nil).want(200).body)
		}
		return all
	}
	before := read()
	s.kill()
	s.restart(t)
	if after := read(); !same(before, after) {
		t.Errorf("after a crash %v, before %v", after, before)
	}
}
