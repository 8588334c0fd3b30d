package main

import (
	"crypto/ed25519"
	"crypto/mlkem"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/client/parley"
	"parley/http/mls/mlstest"
	"parley/http/svid/svidtest"
)

// A fate is what must become of a canary.
type fate byte

const (
	// erased canaries are stored, and go with the key of an organization.
	erased fate = iota
	// kept canaries are stored, and outlive that key.
	kept
	// never canaries are nowhere, not even for those who have the keys: they were
	// refused, hashed, or sealed under the master key.
	never
)

// story fills the fields of every route with canaries.
type story struct {
	*liveServer
	finder
	fates map[string]fate
	// filled has the fields that had a canary, such as "POST /messages body.type".
	filled map[string]bool
}

// canary returns a new unique text.
func (x *story) canary(f fate, name string) string {
	text := canaryText()
	x.watch(f, name, text)
	return text
}

// watch makes a text a canary.
func (x *story) watch(f fate, name, text string) {
	name = fmt.Sprintf("%s (%d)", name, len(x.fates))
	x.fates[name] = f
	x.add(name, text)
}

// names returns the names of all canaries with a fate.
func (x *story) named(f fate) (names []string) {
	for name, has := range x.fates {
		if has == f {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// note records which fields of a request have canaries, and returns whether one has.
func (x *story) note(field string, value any) (has bool) {
	switch value := value.(type) {
	case string:
		has = x.finds(value)
	case object:
		for name, v := range value {
			has = x.note(field+"."+name, v) || has
		}
	case []any:
		for _, v := range value {
			has = x.note(field+"[]", v) || has
		}
	}
	if has {
		x.filled[field] = true
	}
	return has
}

// refused stands for every status of a refusal.
const refused = 0

// do makes a request to a route, whose parameters are given in order, and requires a
// status.
func (x *story) do(want int, authorization, route string, ids []string, body object, headers ...string) object {
	x.t.Helper()
	method, path, _ := strings.Cut(route, " ")
	x.note(route+" body", body)
	for pair := range slices.Chunk(headers, 2) {
		x.note(route+" header."+pair[0], pair[1])
	}
	address := path
	for _, id := range ids {
		begin, end := strings.IndexByte(address, '{'), strings.IndexByte(address, '}')
		x.note(route+" path."+address[begin+1:end], id)
		address = address[:begin] + id + address[end+1:]
	}
	if path == "/messages/sync" {
		address += "?timeout_ms=1000"
	}
	var sent any
	if body != nil {
		sent = body
	}
	status, answer, raw := x.call(authorization, method, address, sent, headers...)
	if status != want && (want != refused || status < 400 || status >= 500) {
		x.t.Fatalf("%s: status %d, want %d: %s", route, status, want, raw)
	}
	return answer
}

// party is an organization with two agents.
type party struct {
	*story
	fate            fate
	id, slug, token string
	agents          [2]member
	sent            []string // ids of messages from its agents
	owned           []string // ids of its groups
}

type member struct {
	id, name, handle string
	keys             keyPair
}

func (p *party) do(want int, route string, ids []string, body object, headers ...string) object {
	p.t.Helper()
	return p.story.do(want, p.token, route, ids, body, headers...)
}

// as is the header that names an agent.
func (m *member) as() []string { return []string{"X-Svc-Agent", m.name} }

// register makes an organization whose canaries have a fate.
func (x *story) register(f fate) *party {
	x.t.Helper()
	p := &party{story: x, fate: f, slug: x.canary(f, "slug")}
	challenge := x.do(201, "", "POST /auth/register", nil, object{"email": x.canary(f, "email") + "@private.example", "org_slug": p.slug, "org_name": "The " + x.canary(f, "org_name"), "registration_token": x.canary(never, "registration_token")})
	x.watch(f, "challenge_id", challenge["challenge_id"].(string))
	solved := x.do(201, "", "POST /auth/register/solve", nil, object{"challenge_id": challenge["challenge_id"], "nonce": solution(challenge, x.canary(never, "nonce"))})
	p.id = solved["org_id"].(string)
	x.watchID(p.id)
	client, secret := solved["client_id"].(string), solved["client_secret"].(string)
	x.watch(never, "client_secret", strings.TrimPrefix(secret, "parley_sk_"))
	status, granted, raw := x.call("Basic "+base64.StdEncoding.EncodeToString([]byte(client+":"+secret)), "POST", "/oauth/token", "grant_type=client_credentials")
	if status != 200 {
		x.t.Fatalf("no token: %d %s", status, raw)
	}
	p.token = "Bearer " + granted["access_token"].(string)
	x.watch(never, "access token", p.token[strings.LastIndexByte(p.token, '.')+1:])
	p.do(201, "POST /org/credentials", nil, object{"scope": "read", "description": x.canary(f, "description"), "expires_at": "2099-01-01T00:00:00Z"})
	p.do(200, "PATCH /org", nil, object{"name": "Now " + x.canary(f, "name"), "contact_email": x.canary(f, "contact_email") + "@private.example", "slug": p.slug, "country_code": "SE"})
	for i := range p.agents {
		p.agents[i] = p.agent()
	}
	return p
}

// watchID makes the search look for an id, which is stored in the clear, decoded.
func (x *story) watchID(id string) {
	parsed, err := parley.ParseID[parley.AnyID](id)
	if err != nil {
		x.t.Fatal(err)
	}
	window := string(parsed[:])
	x.addExactly(idPrefix+id, window)
}

// card publishes the card of an agent. What only the service may write in it is ignored.
func (p *party) card(id string) {
	p.t.Helper()
	c := func(name string) string { return p.canary(p.fate, "card's "+name) }
	jurisdiction := strings.ToUpper(canaryText())
	p.watch(p.fate, "card's jurisdiction", jurisdiction)
	body := object{
		"name": c("name"), "description": c("description"), "version": c("version"), "is_public": true,
		"provider":          object{"organization": c("provider"), "url": "https://" + c("provider's url") + ".example"},
		"defaultInputModes": []any{"text/" + c("input mode"), "text/plain"}, "defaultOutputModes": []any{"text/" + c("output mode")},
		"skills": []any{object{
			"id": c("skill"), "name": c("skill's name"), "description": c("skill's description"), "tags": []any{c("tag")}, "examples": []any{c("example")},
			"inputModes": []any{"text/" + c("skill's input mode")}, "outputModes": []any{"text/" + c("skill's output mode")},
		}},
		"svc": object{
			"categories": []any{c("category")}, "languages": []any{"en-GB"}, "jurisdiction": jurisdiction,
			"message_types_accepted": []any{"acme.v1." + c("message type")}, "payload_schemas": object{"acme.v1.x": "https://a.example/" + c("schema")},
		},
		"security": []any{p.canary(never, "card's security")}, "securitySchemes": object{"x": p.canary(never, "card's security schemes")},
	}
	p.do(200, "PUT /agents/{id}/card", []string{id}, body)
	delete(body, "security")
	delete(body, "securitySchemes") // which an agent that is called over A2A may not name
	body["svc"].(object)["a2a_enabled"] = true
	p.do(200, "PUT /agents/{id}/card", []string{id}, body)
}

// pqKey gives an agent a post-quantum key.
func (p *party) pqKey(id string) {
	p.t.Helper()
	private, err := mlkem.GenerateKey768()
	if err != nil {
		p.t.Fatal(err)
	}
	pub := inBase64(private.EncapsulationKey().Bytes())
	p.watch(p.fate, "post-quantum key", pub)
	p.do(200, "POST /agents/{id}/keys/pq", []string{id}, object{"pq_public_key": object{"kty": "AKP", "alg": "ML-KEM-768", "pub": pub}})
}

// proves proves two workload identities for an agent, one by each document.
func (p *party) proves(agent string) {
	p.t.Helper()
	challenge := func() (id, nonce, audience string) {
		made := p.do(201, "POST /agents/{id}/verify-svid/challenge", []string{agent}, nil)
		p.watch(never, "challenge of a workload", made["challenge_id"].(string))
		return made["challenge_id"].(string), made["nonce"].(string), made["audience"].(string)
	}
	authority, workload := workloadAuthority(), func() string { return "/" + p.canary(p.fate, "path of a SPIFFE id") }
	signed, _, audience := challenge()
	token := authority.JWT(workload(), audience)
	p.watch(never, "JWT-SVID", token[strings.LastIndexByte(token, '.')+1:])
	p.do(200, "POST /agents/{id}/verify-svid", []string{agent}, object{"challenge_id": signed, "jwt_svid": token})

	signed, nonce, _ := challenge()
	key, parsed := svidtest.NewKey(), parley.AgentID{}
	if err := parsed.UnmarshalText([]byte(agent)); err != nil {
		p.t.Fatal(err)
	}
	var chain []any
	for _, der := range authority.X509(workload(), key.Public()) {
		chain = append(chain, base64.StdEncoding.EncodeToString(der))
		p.watch(never, "certificate", base64.StdEncoding.EncodeToString(der[(len(der)-60)/3*3:]))
	}
	signature := base64.StdEncoding.EncodeToString(svidtest.Sign(key, parley.SVIDText("svc", parsed, nonce)))
	p.watch(never, "signature of a workload", signature)
	p.do(200, "POST /agents/{id}/verify-svid", []string{agent}, object{"challenge_id": signed, "x509_svid": chain, "signature": signature})
}

// agent makes an agent, changes its keys and binds them.
func (p *party) agent() member {
	p.t.Helper()
	publish := func(k keyPair) (signing, encryption object) {
		signing, encryption = publicKey("Ed25519", k.signing()), publicKey("X25519", k.encryption())
		p.watch(p.fate, "signing key", signing["x"].(string))
		p.watch(p.fate, "encryption key", encryption["x"].(string))
		return signing, encryption
	}
	m := member{name: p.canary(p.fate, "agent name"), keys: newKeyPair(p.t)}
	signing, encryption := publish(m.keys)
	made := p.do(201, "POST /agents", nil, object{"name": m.name, "signing_public_key": signing, "encryption_public_key": encryption})
	m.id, m.handle = made["id"].(string), made["handle"].(string)
	p.watchID(m.id)
	for _, entry := range p.do(200, "GET /agents/{id}/key-log", []string{m.id}, nil)["items"].([]any) {
		p.watch(p.fate, "salt of a leaf of the key log", entry.(map[string]any)["salt"].(string))
	}
	poll := made["poll_url"].(string)
	p.watch(never, "poll token", poll[strings.LastIndexByte(poll, '/')+1:])
	p.do(200, "PATCH /agents/{id}", []string{m.id}, object{"name": m.name, "unlisted": false})
	p.card(m.id)
	p.proves(m.id)
	proof := func(former ed25519.PrivateKey) object {
		text, signedAt := m.keys.bind(p.t, m.id, m.handle)
		bound := object{"signed_at": signedAt, "signature": inBase64(ed25519.Sign(m.keys.sign, text))}
		p.watch(p.fate, "signature of a binding", bound["signature"].(string))
		if former != nil {
			bound["previous_signature"] = inBase64(ed25519.Sign(former, text))
			p.watch(p.fate, "former key's signature of a binding", bound["previous_signature"].(string))
		}
		return bound
	}
	p.do(200, "PUT /agents/{id}/key-binding", []string{m.id}, proof(nil))
	for round := range 2 {
		former := m.keys.sign
		m.keys = newKeyPair(p.t)
		signing, encryption = publish(m.keys)
		rotated := object{"signing_public_key": signing, "encryption_public_key": encryption}
		if round == 0 {
			rotated["key_binding"] = proof(former)
			p.do(200, "POST /agents/{id}/keys", []string{m.id}, rotated)
			continue
		}
		p.do(200, "POST /agents/{id}/keys", []string{m.id}, rotated)
		p.do(200, "PUT /agents/{id}/key-binding", []string{m.id}, proof(former))
		p.do(200, "POST /agents/{id}/keys/retire", []string{m.id}, object{"kid": parley.Thumbprint("Ed25519", former.Public().(ed25519.PublicKey))})
	}
	p.pqKey(m.id)
	p.keyPackages(m)
	return m
}

// keyPackages stores an MLS KeyPackage of either use.
func (p *party) keyPackages(m member) {
	p.t.Helper()
	made := func(what string) string {
		k := mlstest.KeyPackage{Key: m.keys.sign, Identity: strings.ToLower(m.handle), LastResort: what != "key package"}.Bytes(time.Now())
		p.watch(p.fate, what, inBase64(k[:len(k)/3*3]))
		return inBase64(k)
	}
	p.do(200, "POST /agents/{id}/mls/key-packages", []string{m.id}, object{"key_packages": []any{made("key package")}, "last_resort": made("key package of last resort")})
}
