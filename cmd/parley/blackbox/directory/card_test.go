package directory

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

const cardShape = "id:uuid agent_id:uuid created_at:time updated_at:time? name:str description:str? version:str? provider:obj? capabilities:obj? defaultInputModes:arr defaultOutputModes:arr skills:arr is_public:bool svc:obj"

// skilled returns a request with one skill, changed.
func skilled(more obj) obj {
	return kit.Merged(kit.PlainCard(), obj{"skills": []any{kit.Merged(obj{"id": "a", "name": "b", "description": "c"}, more)}})
}

// shapedCard checks that a card and what is in it have all members.
func shapedCard(a *kit.Answer) *kit.Answer {
	a.T.Helper()
	a.Shaped(cardShape)
	extension, _ := a.At("svc").(obj)
	kit.Shaped(a.T, a.Asked+" svc", extension, kit.ExtensionShape)
	skills, _ := a.At("skills").([]any)
	for _, skill := range skills {
		one, _ := skill.(obj)
		kit.Exactly(a.T, a.Asked+" skill", one, "id name description tags examples inputModes outputModes")
	}
	return a
}

// public gets an agent's card without a token.
func card(t testing.TB, g *kit.Agent) *kit.Answer {
	t.Helper()
	return g.S.Call(t, "", "GET", g.Path("/card"), nil)
}

func TestCard(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("carded")
		card(t, g).Refused(404, "not_found")
		g.Delete(g.Path("/card")).As("without a card").Want(204)
		made := shapedCard(g.Put(g.Path("/card"), kit.FullCard()).Want(200))
		made.Is(
			"id", g.ID, "agent_id", g.ID, "name", "Invoice checker", "description", "Checks invoices.\nFast.", "version", "1.2.0", "is_public", true,
			"provider", obj{"organization": "Acme Ltd.", "url": "https://acme.example/agents"}, "capabilities", obj{"streaming": true, "pushNotifications": false},
			"defaultInputModes", []any{"text/plain", "application/json"}, "defaultOutputModes", []any{"application/vnd.acme+json; v=1"},
			"skills", []any{
				obj{
					"id": "check", "name": "Check", "description": "Compares with the order.", "tags": []any{"invoices", "finance"},
					"examples": []any{"Is 17 right?"}, "inputModes": []any{"text/plain"}, "outputModes": []any{"text/*"},
				},
				obj{"id": "explain", "name": "Explain", "description": "", "tags": []any{}, "examples": []any{}, "inputModes": []any{}, "outputModes": []any{}},
			},
			"svc.agent_id", g.ID, "svc.org_id", g.Org.ID, "svc.handle", g.Handle, "svc.address", g.Handle,
			"svc.categories", []any{"finance", "back office"}, "svc.languages", []any{"en", "de-at"}, "svc.jurisdiction", "DE", "svc.pricing_model", "per_request",
			"svc.sla", obj{"response_time_p95_ms": 250, "availability_percent": 99.95}, "svc.verified", true, "svc.trust_tier", 1,
			"svc.a2a_enabled", true, "svc.a2a_accept_cleartext", false, "svc.a2a_endpoint", s.Base+"/a2a/"+g.Handle, "svc.human_oversight", true,
			"svc.message_types_accepted", []any{"svc.v1.task_request", "acme.v1.invoice"},
			"svc.verification_words", g.Record["verification_words"], "svc.signing_key", g.Record["signing_public_key"], "svc.encryption_key", g.Record["encryption_public_key"])
		schemas, _ := kit.At(made.Body, "svc").(obj)["payload_schemas"].(obj)
		if !kit.Same(schemas, obj{"acme.v1.invoice": "https://acme.example/invoice.json", "svc.v1.task_request": "urn:acme:task"}) {
			made.Errorf("the schemas are %v", schemas)
		}
		if made.At("created_at") != made.At("updated_at") {
			made.Errorf("a new card was updated")
		}
		for _, name := range []string{g.ID, g.Handle, strings.ToUpper(g.Handle[:1]) + g.Handle[1:]} {
			if got := s.Call(t, "", "GET", "/agents/"+name+"/card", nil).As("by %s", name).Want(200); !kit.Same(got.Body, made.Body) {
				got.Errorf("the card is not the one that was published")
			}
		}
	})
}

// TestCardDocument publishes the example of the documentation.
func TestCardDocument(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/cards.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```json\n")
	example, _, closed := strings.Cut(example, "\n```")
	var card obj
	if err := json.Unmarshal([]byte(example), &card); err != nil || !closed {
		t.Fatalf("the example is %s: %v", example, err)
	}
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("carded")
		a := g.Put(g.Path("/card"), kit.Verbatim(example)).Want(200)
		a.Is("svc.languages", []any{"en", "de-at"})
		for name, value := range card {
			if name != "svc" && name != "skills" {
				a.Is(name, value)
			}
		}
	})
}

func TestCardUpsert(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("carded")
		first := g.Put(g.Path("/card"), kit.FullCard()).Want(200)
		time.Sleep(2 * time.Millisecond)
		second := shapedCard(g.Put(g.Path("/card"), kit.PlainCard()).Want(200))
		second.Is("created_at", first.At("created_at"), "name", "Plain", "version", nil, "provider", nil, "capabilities", nil, "defaultInputModes", []any{}, "defaultOutputModes", []any{},
			"skills", []any{}, "is_public", false, "svc.categories", []any{}, "svc.languages", []any{}, "svc.jurisdiction", nil, "svc.pricing_model", nil, "svc.sla", nil,
			"svc.a2a_enabled", false, "svc.a2a_accept_cleartext", true, "svc.a2a_endpoint", nil, "svc.message_types_accepted", []any{}, "svc.payload_schemas", obj{})
		if second.Str("updated_at") <= first.Str("updated_at") {
			second.Errorf("updated_at did not move from %s", first.Str("updated_at"))
		}
		if got := card(t, g).Want(200); !kit.Same(got.Body, second.Body) {
			got.Errorf("the card is not the last one")
		}
		time.Sleep(2 * time.Millisecond)
		again := g.Put(g.Path("/card"), kit.PlainCard()).As("the same again").Want(200)
		if again.Str("updated_at") <= second.Str("updated_at") {
			again.Errorf("updated_at did not move")
		}
		g.Delete(g.Path("/card")).Want(204)
		g.Delete(g.Path("/card")).As("again").Want(204)
		card(t, g).Refused(404, "not_found")
		third := g.Put(g.Path("/card"), kit.PlainCard()).Want(200)
		if third.Str("created_at") <= first.Str("created_at") {
			third.Errorf("a new card has the instant of the deleted one")
		}
	})
}

// TestCardIgnores: members that the service writes, and unknown ones, change nothing.
func TestCardIgnores(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("carded")
		forged := kit.Merged(kit.PlainCard(), obj{
			"id": kit.Nobody, "agent_id": 7, "created_at": "2001-01-01", "updated_at": nil, "unheard_of": []any{obj{}}, "iconUrl": "https://x.example",
			"provider": nil, "capabilities": obj{"extendedAgentCard": true}, "skills": []any{obj{"id": "a", "name": "b", "description": "c", "more": 1}},
			"securitySchemes": obj{"bearer": obj{}}, "security": []any{obj{"bearer": []any{}}},
			"svc": obj{
				"agent_id": kit.Nobody, "org_id": 1, "address": "mallory@x", "handle": "mallory@x", "verified": "no", "trust_tier": 3, "a2a_endpoint": "https://x.example",
				"human_oversight": false, "verification_words": "a b c d e", "signing_key": obj{"d": "private"}, "encryption_key": nil, "unheard_of": 1, "sla": nil, "categories": nil,
			},
		})
		a := shapedCard(g.Put(g.Path("/card"), forged).Want(200))
		a.Is("id", g.ID, "agent_id", g.ID, "svc.agent_id", g.ID, "svc.org_id", g.Org.ID, "svc.handle", g.Handle, "svc.address", g.Handle, "svc.verified", true, "svc.trust_tier", 1,
			"svc.a2a_endpoint", nil, "svc.human_oversight", true, "svc.verification_words", g.Record["verification_words"], "svc.signing_key", g.Record["signing_public_key"],
			"capabilities", obj{"streaming": false, "pushNotifications": false})
		kit.Exactly(t, "the card", a.Body, "id agent_id created_at updated_at name description version provider capabilities defaultInputModes defaultOutputModes skills is_public svc")
		if strings.HasPrefix(a.Str("created_at"), "2001") {
			a.Errorf("the client dated the card")
		}
	})
}

// TestCardFollowsTheAgent: keys, words and oversight are shown as they are now.
func TestCardFollowsTheAgent(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("carded")
		made := g.Put(g.Path("/card"), kit.PlainCard()).Want(200)
		sign, seal := kit.NewKeys()
		keyed := g.Post(g.Path("/keys"), obj{"signing_public_key": kit.SignJWK(sign), "encryption_public_key": kit.SealJWK(seal)}).Want(200)
		g.Patch(g.Path(""), obj{"human_oversight": false}).Want(200)
		card(t, g).Want(200).Is("svc.signing_key", keyed.At("signing_public_key"), "svc.encryption_key", keyed.At("encryption_public_key"),
			"svc.verification_words", keyed.At("verification_words"), "svc.human_oversight", false, "updated_at", made.At("updated_at"))
	})
}

func TestCardCaching(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("carded")
		g.Put(g.Path("/card"), kit.PlainCard()).Want(200)
		a := card(t, g).Want(200)
		tag, changed := a.Header.Get("ETag"), a.Header.Get("Last-Modified")
		if a.Header.Get("Cache-Control") != "public, max-age=300" || tag == "" || changed == "" {
			a.Errorf("headers %v", a.Header)
		}
		s.Call(t, "", "GET", g.Path("/card"), nil, "If-None-Match", tag).Want(304)
		kit.Eventually(t, "the date suffices", func() bool { // not in the second of the change
			changed := card(t, g).Want(200).Header.Get("Last-Modified")
			return s.Call(t, "", "GET", g.Path("/card"), nil, "If-Modified-Since", changed).Status == 304
		})
		g.Patch(g.Path(""), obj{"human_oversight": false}).Want(200)
		again := s.Call(t, "", "GET", g.Path("/card"), nil, "If-None-Match", tag).As("after a change of oversight").Want(200)
		if again.Header.Get("ETag") == tag {
			again.Errorf("the tag stayed")
		}
		stale := time.Now().Add(-time.Hour).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
		s.Call(t, "", "GET", g.Path("/card"), nil, "If-Modified-Since", stale).Want(200)
	})
}

func TestCardFields(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("carded")
		texts := func(n int, text string) (all []any) {
			for range n {
				all = append(all, text)
			}
			return all
		}
		skills := func(n int) (all []any) {
			for i := range n {
				all = append(all, obj{"id": fmt.Sprint(i), "name": "n", "description": "d"})
			}
			return all
		}
		schemas := obj{}
		for i := range 65 {
			schemas[fmt.Sprintf("a.v1.t%d", i)] = "urn:a:b"
		}
		for _, c := range []struct {
			what      string
			body      any
			loc, kind string
		}{
			{"an empty body", obj{}, "body.name", "missing"},
			{"no description", kit.Without(kit.PlainCard(), "description"), "body.description", "missing"},
			{"null for a name", kit.Merged(kit.PlainCard(), obj{"name": nil}), "body.name", "missing"},
			{"a list", []any{}, "body", "dict_type"},
			{"no JSON", kit.Verbatim("{"), "body", "json_invalid"},
			{"a number for a name", kit.Merged(kit.PlainCard(), obj{"name": 7}), "body.name", "string_type"},
			{"an empty name", kit.Merged(kit.PlainCard(), obj{"name": ""}), "body.name", "string_too_short"},
			{"a long name", kit.Merged(kit.PlainCard(), obj{"name": strings.Repeat("é", 501)}), "body.name", "string_too_long"},
			{"a name that turns round", kit.Merged(kit.PlainCard(), obj{"name": "a\u202eb"}), "body.name", "value_error"},
			{"a long description", kit.Merged(kit.PlainCard(), obj{"description": strings.Repeat("é", 5001)}), "body.description", "string_too_long"},
			{"a number for a version", kit.Merged(kit.PlainCard(), obj{"version": 1}), "body.version", "string_type"},
			{"a long version", kit.Merged(kit.PlainCard(), obj{"version": strings.Repeat("1", 101)}), "body.version", "string_too_long"},
			{"a text for public", kit.Merged(kit.PlainCard(), obj{"is_public": "true"}), "body.is_public", "bool_parsing"},

			{"a text for a provider", kit.Merged(kit.PlainCard(), obj{"provider": "Acme"}), "body.provider", "dict_type"},
			{"a provider without a name", kit.Merged(kit.PlainCard(), obj{"provider": obj{"url": "https://a.example"}}), "body.provider.organization", "missing"},
			{"a provider without a URL", kit.Merged(kit.PlainCard(), obj{"provider": obj{"organization": "a"}}), "body.provider.url", "missing"},
			{"a number for a URL", kit.Merged(kit.PlainCard(), obj{"provider": obj{"organization": "a", "url": 7}}), "body.provider.url", "string_type"},
			{"a URL that is a script", kit.Merged(kit.PlainCard(), obj{"provider": obj{"organization": "a", "url": "javascript:alert(1)"}}), "body.provider.url", "value_error"},
			{"a URL without a host", kit.Merged(kit.PlainCard(), obj{"provider": obj{"organization": "a", "url": "acme.example"}}), "body.provider.url", "value_error"},
			{"a list for capabilities", kit.Merged(kit.PlainCard(), obj{"capabilities": []any{"streaming"}}), "body.capabilities", "dict_type"},
			{"a text for streaming", kit.Merged(kit.PlainCard(), obj{"capabilities": obj{"streaming": "yes"}}), "body.capabilities.streaming", "bool_parsing"},
			{"a list for push notifications", kit.Merged(kit.PlainCard(), obj{"capabilities": obj{"pushNotifications": []any{}}}), "body.capabilities.pushNotifications", "bool_type"},
			{"a text for modes", kit.Merged(kit.PlainCard(), obj{"defaultInputModes": "text/plain"}), "body.defaultInputModes", "list_type"},
			{"no media type", kit.Merged(kit.PlainCard(), obj{"defaultInputModes": []any{"text/plain", "plain"}}), "body.defaultInputModes.1", "string_pattern_mismatch"},
			{"no media type out", kit.Merged(kit.PlainCard(), obj{"defaultOutputModes": []any{""}}), "body.defaultOutputModes.0", "string_pattern_mismatch"},
			{"33 media types", kit.Merged(kit.PlainCard(), obj{"defaultOutputModes": texts(33, "a/b")}), "body.defaultOutputModes", "too_long"},

			{"an object for skills", kit.Merged(kit.PlainCard(), obj{"skills": obj{}}), "body.skills", "list_type"},
			{"a text for a skill", kit.Merged(kit.PlainCard(), obj{"skills": []any{"a"}}), "body.skills.0", "dict_type"},
			{"65 skills", kit.Merged(kit.PlainCard(), obj{"skills": skills(65)}), "body.skills", "too_long"},
			{"a skill without an id", kit.Merged(kit.PlainCard(), obj{"skills": append(skills(1), obj{"name": "n", "description": "d"})}), "body.skills.1.id", "missing"},
			{"a skill without a name", skilled(obj{"name": nil}), "body.skills.0.name", "missing"},
			{"a skill without a description", skilled(obj{"description": nil}), "body.skills.0.description", "missing"},
			{"a skill of an empty id", skilled(obj{"id": ""}), "body.skills.0.id", "string_too_short"},
			{"a skill of a long name", skilled(obj{"name": strings.Repeat("n", 501)}), "body.skills.0.name", "string_too_long"},
			{"a skill of a long description", skilled(obj{"description": strings.Repeat("n", 5001)}), "body.skills.0.description", "string_too_long"},
			{"two skills of an id", kit.Merged(kit.PlainCard(), obj{"skills": append(skills(2), skills(2)[1])}), "body.skills.2.id", "value_error"},
			{"33 tags", skilled(obj{"tags": texts(33, "t")}), "body.skills.0.tags", "too_long"},
			{"a long tag", skilled(obj{"tags": []any{"t", strings.Repeat("é", 65)}}), "body.skills.0.tags.1", "string_too_long"},
			{"a number for a tag", skilled(obj{"tags": []any{7}}), "body.skills.0.tags.0", "string_type"},
			{"33 examples", skilled(obj{"examples": texts(33, "e")}), "body.skills.0.examples", "too_long"},
			{"a long example", skilled(obj{"examples": texts(1, strings.Repeat("e", 2001))}), "body.skills.0.examples.0", "string_too_long"},
			{"no media type of a skill", skilled(obj{"inputModes": []any{"x"}}), "body.skills.0.inputModes.0", "string_pattern_mismatch"},
			{"no media type from a skill", skilled(obj{"outputModes": []any{7}}), "body.skills.0.outputModes.0", "string_type"},

			{"a text for the extension", kit.Merged(kit.PlainCard(), obj{"svc": "x"}), "body.svc", "dict_type"},
			{"a text for categories", kit.Extended("categories", "finance"), "body.svc.categories", "list_type"},
			{"33 categories", kit.Extended("categories", texts(33, "c")), "body.svc.categories", "too_long"},
			{"a long category", kit.Extended("categories", texts(1, strings.Repeat("c", 65))), "body.svc.categories.0", "string_too_long"},
			{"no language", kit.Extended("languages", []any{"en", "english language"}), "body.svc.languages.1", "string_pattern_mismatch"},
			{"65 languages", kit.Extended("languages", texts(65, "en")), "body.svc.languages", "too_long"},
			{"no jurisdiction", kit.Extended("jurisdiction", "the moon"), "body.svc.jurisdiction", "string_pattern_mismatch"},
			{"an unknown pricing model", kit.Extended("pricing_model", "gratis"), "body.svc.pricing_model", "enum"},
			{"a list for promises", kit.Extended("sla", []any{}), "body.svc.sla", "dict_type"},
			{"a negative time", kit.Extended("sla", obj{"response_time_p95_ms": -1}), "body.svc.sla.response_time_p95_ms", "greater_than_equal"},
			{"half a millisecond", kit.Extended("sla", obj{"response_time_p95_ms": 0.5}), "body.svc.sla.response_time_p95_ms", "int_from_float"},
			{"too available", kit.Extended("sla", obj{"availability_percent": 100.1}), "body.svc.sla.availability_percent", "less_than_equal"},
			{"negatively available", kit.Extended("sla", obj{"availability_percent": -1}), "body.svc.sla.availability_percent", "greater_than_equal"},
			{"a text for availability", kit.Extended("sla", obj{"availability_percent": "99"}), "body.svc.sla.availability_percent", "float_parsing"},
			{"a flag for availability", kit.Extended("sla", obj{"availability_percent": true}), "body.svc.sla.availability_percent", "float_type"},
			{"a text for A2A", kit.Extended("a2a_enabled", "yes"), "body.svc.a2a_enabled", "bool_parsing"},
			{"a list for cleartext", kit.Extended("a2a_accept_cleartext", []any{}), "body.svc.a2a_accept_cleartext", "bool_type"},
			{"no message type", kit.Extended("message_types_accepted", []any{"svc.v1.dm", "dm"}), "body.svc.message_types_accepted.1", "string_pattern_mismatch"},
			{"65 message types", kit.Extended("message_types_accepted", texts(65, "a.b.c")), "body.svc.message_types_accepted", "too_long"},
			{"a list for schemas", kit.Extended("payload_schemas", []any{}), "body.svc.payload_schemas", "dict_type"},
			{"a schema of no type", kit.Extended("payload_schemas", obj{"dm": "https://a.example"}), "body.svc.payload_schemas.dm", "value_error"},
			{"a schema that is no text", kit.Extended("payload_schemas", obj{"a.b.c": obj{}}), "body.svc.payload_schemas.a.b.c", "string_type"},
			{"a schema that is no URI", kit.Extended("payload_schemas", obj{"a.b.c": "schema.json"}), "body.svc.payload_schemas.a.b.c", "value_error"},
			{"a long URI", kit.Extended("payload_schemas", obj{"a.b.c": "urn:" + strings.Repeat("x", 2045)}), "body.svc.payload_schemas.a.b.c", "string_too_long"},
			{"65 schemas", kit.Extended("payload_schemas", schemas), "body.svc.payload_schemas", "too_long"},
		} {
			g.Put(g.Path("/card"), c.body).As("%s", c.what).Invalid(c.loc, c.kind)
		}
		card(t, g).As("nothing was published").Refused(404, "not_found")
		s.Call(t, "", "GET", "/agents/x/card", nil).Invalid("path.id", "uuid_parsing")
		g.Put("/agents/x/card", kit.PlainCard()).Invalid("path.id", "uuid_parsing")
		g.Put("/agents/"+g.Handle+"/card", kit.PlainCard()).Want(200)
	})
}

// TestCardLimits: what is exactly as large as allowed is accepted.
func TestCardLimits(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("carded")
		var tags, skills []any
		for i := range 32 {
			tags = append(tags, fmt.Sprintf("%02d%s", i, strings.Repeat("é", 62)))
		}
		for i := range 64 {
			skills = append(skills, obj{"id": fmt.Sprint(i), "name": "n", "description": "d"})
		}
		skills[0].(obj)["tags"] = tags
		large := kit.Merged(kit.PlainCard(), obj{"name": strings.Repeat("é", 500), "description": strings.Repeat("é", 5000), "skills": skills})
		a := g.Put(g.Path("/card"), large).Want(200).Is("name", strings.Repeat("é", 500), "description", strings.Repeat("é", 5000))
		if got, _ := a.At("skills").([]any); len(got) != 64 || !kit.Same(got[0].(obj)["tags"], tags) {
			a.Errorf("the skills are not those sent")
		}
		// 64 KiB of JSON: white space does not count, nor do members that are ignored.
		body := func(bytes int) string {
			head, tail := `{"name":"n","description":"d","skills":[`, `]}`
			bytes -= len(head) + len(tail)
			for i := 0; bytes > 0; i++ {
				skill := fmt.Sprintf(`{"id":"%d","name":"n","description":"`, i)
				if i > 0 {
					skill = "," + skill
				}
				text := min(5000, bytes-len(skill)-2)
				if rest := bytes - len(skill) - 2 - text; rest > 0 && rest < 60 {
					text -= 60
				}
				head += skill + strings.Repeat("x", text) + `"}`
				bytes -= len(skill) + text + 2
			}
			return head + tail
		}
		if n := len(body(65536)); n != 65536 {
			t.Fatalf("the body has %d bytes", n)
		}
		g.Put(g.Path("/card"), kit.Verbatim(body(65536))).As("64 KiB").Want(200)
		padded := strings.Repeat(" ", 1000) + strings.TrimSuffix(body(65536), "}") + `,"ignored":"` + strings.Repeat("y", 1000) + `"}`
		g.Put(g.Path("/card"), kit.Verbatim(padded)).As("64 KiB, and what is ignored").Want(200)
		g.Put(g.Path("/card"), kit.Verbatim(body(65537))).As("a byte more").Invalid("body", "value_error")
	})
}

// TestCardSecurity: the service writes the security members of an A2A-enabled agent's
// card.
func TestCardSecurity(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g := s.Org(t).Agent("carded")
		put := func(enabled any, more obj) *kit.Answer {
			return g.Put(g.Path("/card"), kit.Merged(kit.Extended("a2a_enabled", enabled), more))
		}
		schemes, security := obj{"securitySchemes": obj{}}, obj{"security": []any{}}
		put(nil, schemes).As("without A2A").Want(200)
		for _, c := range []struct {
			more obj
			loc  string
		}{{schemes, "[body securitySchemes]"}, {security, "[body security]"}, {kit.Merged(schemes, security), "[body securitySchemes]"}, {obj{"security": "text"}, "[body security]"}} {
			a := put(true, c.more).As("with A2A and %v", c.more).RefusedByRule("card_security_fields")
			if loc := fmt.Sprint(a.Complaints("card_security_fields")[0]["loc"]); loc != c.loc {
				a.Errorf("located at %s, want %s", loc, c.loc)
			}
		}
		card(t, g).Want(200).Is("svc.a2a_enabled", false)
		put(true, obj{"security": nil, "securitySchemes": nil}).As("with nulls").Want(200)
		put(nil, schemes).As("of an agent that has A2A").RefusedByRule("card_security_fields")
		put(false, security).As("of an agent that had A2A until now").RefusedByRule("card_security_fields")
		put(false, nil).Want(200)
		put(false, security).As("after A2A").Want(200)
	})
}

// TestCardAccess: only the agent's organization publishes and deletes its card. A revoked
// agent has none.
func TestCardAccess(t *testing.T) {
	kit.Each(t, func(t *testing.T, s *kit.Server) {
		g, other := s.Org(t).Agent("carded"), s.Org(t)
		g.Put(g.Path("/card"), kit.PlainCard()).Want(200)
		for _, o := range []struct {
			*kit.Org
			token, path, code string
			status            int
		}{
			{other, other.Token, g.Path("/card"), "not_owner", 403},
			{other, other.Token, "/agents/" + kit.Nobody + "/card", "not_found", 404},
			{g.Org, g.Token, "/agents/" + kit.Nobody + "/card", "not_found", 404},
			{g.Org, "", g.Path("/card"), "not_authenticated", 401},
		} {
			s.Call(t, o.token, "PUT", o.path, kit.PlainCard()).Refused(o.status, o.code)
			s.Call(t, o.token, "DELETE", o.path, nil).Refused(o.status, o.code)
		}
		other.Put(g.Path("/card"), obj{}).As("the schema comes first").Invalid("body.name", "missing")
		s.Call(t, "", "GET", "/agents/"+kit.Nobody+"/card", nil).Refused(404, "not_found")
		s.Call(t, "", "GET", "/agents/nobody@"+g.Slug+".localhost/card", nil).Refused(404, "not_found")
		card(t, g).Want(200)

		unlisted := g.Org.Post("/agents", kit.Merged(kit.NewAgent("unlisted"), obj{"unlisted": true})).Want(201).Str("id")
		g.Put("/agents/"+unlisted+"/card", kit.Merged(kit.PlainCard(), obj{"is_public": true})).Want(200)
		s.Call(t, "", "GET", "/agents/"+unlisted+"/card", nil).As("unlisted, by exact id").Want(200).Is("is_public", true)

		g.Delete(g.Path("")).Want(204)
		card(t, g).As("revoked").Refused(404, "not_found")
		s.Call(t, "", "GET", "/agents/"+g.Handle+"/card", nil).As("revoked, by handle").Refused(404, "not_found")
		g.Put(g.Path("/card"), kit.PlainCard()).Refused(410, "gone")
		g.Delete(g.Path("/card")).Refused(410, "gone")
	})
}

// TestCardSurvives: a card is as it was after the server was killed, a deleted one stays
// deleted, and the data verify.
func TestCardSurvives(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals)
		o := s.Org(t)
		kept, deleted, revoked := o.Agent("kept"), o.Agent("deleted"), o.Agent("revoked")
		for _, g := range []*kit.Agent{kept, deleted, revoked} {
			g.Put(g.Path("/card"), kit.PlainCard()).Want(200)
		}
		want := kept.Put(kept.Path("/card"), kit.FullCard()).Want(200)
		deleted.Delete(deleted.Path("/card")).Want(204)
		revoked.Delete(revoked.Path("")).Want(204)
		s.Kill()
		s.Restart(t)
		if got := card(t, kept).Want(200); !kit.Same(got.Body, want.Body) {
			got.Errorf("the card was %v", want.Body)
		}
		card(t, deleted).Refused(404, "not_found")
		card(t, revoked).Refused(404, "not_found")
		again := kept.Put(kept.Path("/card"), kit.PlainCard()).Want(200)
		again.Is("created_at", want.At("created_at"))
		if err := s.Drain(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		kit.Succeeds(t, "verify", "--data", s.Dir)
	})
}

// TestCardBrand: the extension has the brand as its name, in requests, answers and
// refusals.
func TestCardBrand(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		admin := kit.FreeAddress(t)
		s := kit.Start(t, "--journals", journals, "--brand", "acme", "--tier1", "approval", "--admin-listen", admin)
		tier := func(o *kit.Org, n string) {
			kit.Succeeds(t, "org", "tier", o.Slug, n, "--admin", "http://"+admin, "--data", s.Dir)
		}
		o := s.Org(t)
		o.Get("/org").Want(200).Is("trust_tier", 0)
		tier(o, "1")
		g := o.Agent("carded")
		a := g.Put(g.Path("/card"), kit.Merged(kit.PlainCard(), obj{"acme": obj{"categories": []any{"A"}}, "svc": obj{"categories": []any{"B"}}})).Want(200)
		a.Is("acme.categories", []any{"a"}, "acme.handle", g.Handle, "acme.trust_tier", 1, "svc", nil)
		card(t, g).Want(200).Is("acme.categories", []any{"a"}, "svc", nil)
		g.Put(g.Path("/card"), kit.Merged(kit.PlainCard(), obj{"acme": obj{"categories": "a"}})).Invalid("body.acme.categories", "list_type")
		g.Put(g.Path("/card"), kit.Merged(kit.PlainCard(), obj{"acme": obj{"payload_schemas": obj{"dm": "urn:a:b"}}})).Invalid("body.acme.payload_schemas.dm", "value_error")
		tier(o, "0")
		card(t, g).Want(200).Is("acme.trust_tier", 0, "acme.verified", false)
		g.Put(g.Path("/card"), kit.PlainCard()).As("at tier 0").Want(200)
	})
}
