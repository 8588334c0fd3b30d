package blackbox

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

const (
	cardShape      = "id:uuid agent_id:uuid created_at:time updated_at:time? name:str description:str? version:str? provider:obj? capabilities:obj? defaultInputModes:arr defaultOutputModes:arr skills:arr is_public:bool svc:obj"
	extensionShape = "agent_id:uuid org_id:uuid address:str handle:str categories:arr languages:arr jurisdiction:str? pricing_model:str? sla:obj? verified:bool trust_tier:int a2a_enabled:bool a2a_accept_cleartext:bool a2a_endpoint:str? human_oversight:bool message_types_accepted:arr payload_schemas:obj verification_words:str signing_key:jwk encryption_key:jwk"
	skillShape     = "id:str name:str description:str tags:arr examples:arr inputModes:arr outputModes:arr"
)

// fullCard returns a request that uses every member.
func fullCard() obj {
	return obj{
		"name": "Invoice checker", "description": "Checks invoices.\nFast.", "version": "1.2.0",
		"provider":          obj{"organization": "Acme Ltd.", "url": "https://acme.example/agents"},
		"capabilities":      obj{"streaming": true, "pushNotifications": false},
		"defaultInputModes": []any{"text/plain", "application/json"}, "defaultOutputModes": []any{"application/vnd.acme+json; v=1"},
		"skills": []any{
			obj{
				"id": "check", "name": "Check", "description": "Compares with the order.", "tags": []any{" Invoices ", "FINANCE", "finance", " "},
				"examples": []any{"Is 17 right?"}, "inputModes": []any{"text/plain"}, "outputModes": []any{"text/*"},
			},
			obj{"id": "explain", "name": "Explain", "description": ""},
		},
		"svc": obj{
			"categories": []any{" Finance", "Back Office", "FINANCE"}, "languages": []any{"EN", " de-AT ", "en"}, "jurisdiction": " de ",
			"pricing_model": "per_request", "sla": obj{"response_time_p95_ms": 250, "availability_percent": 99.95},
			"a2a_enabled": true, "a2a_accept_cleartext": false, "message_types_accepted": []any{"svc.v1.task_request", "acme.v1.invoice", "svc.v1.task_request"},
			"payload_schemas": obj{"acme.v1.invoice": "https://acme.example/invoice.json", "svc.v1.task_request": "urn:acme:task"},
		},
		"is_public": true,
	}
}

func plainCard() obj { return obj{"name": "Plain", "description": "Nothing more."} }

// extended returns a request whose extension has one more member.
func extended(member string, value any) obj {
	return merged(plainCard(), obj{"svc": obj{member: value}})
}

// skilled returns a request with one skill, changed.
func skilled(more obj) obj {
	return merged(plainCard(), obj{"skills": []any{merged(obj{"id": "a", "name": "b", "description": "c"}, more)}})
}

// shapedCard checks that a card and what is in it have all members.
func shapedCard(a *answer) *answer {
	a.t.Helper()
	a.shaped(cardShape)
	extension, _ := a.at("svc").(obj)
	shaped(a.t, a.asked+" svc", extension, extensionShape)
	skills, _ := a.at("skills").([]any)
	for _, skill := range skills {
		one, _ := skill.(obj)
		exactly(a.t, a.asked+" skill", one, "id name description tags examples inputModes outputModes")
	}
	return a
}

// public gets an agent's card without a token.
func (g *agent) card(t testing.TB) *answer {
	t.Helper()
	return g.s.call(t, "", "GET", g.path("/card"), nil)
}

func TestCard(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("carded")
		g.card(t).refused(404, "not_found")
		g.delete(g.path("/card")).as("without a card").want(204)
		made := shapedCard(g.put(g.path("/card"), fullCard()).want(200))
		made.is(
			"id", g.id, "agent_id", g.id, "name", "Invoice checker", "description", "Checks invoices.\nFast.", "version", "1.2.0", "is_public", true,
			"provider", obj{"organization": "Acme Ltd.", "url": "https://acme.example/agents"}, "capabilities", obj{"streaming": true, "pushNotifications": false},
			"defaultInputModes", []any{"text/plain", "application/json"}, "defaultOutputModes", []any{"application/vnd.acme+json; v=1"},
			"skills", []any{
				obj{
					"id": "check", "name": "Check", "description": "Compares with the order.", "tags": []any{"invoices", "finance"},
					"examples": []any{"Is 17 right?"}, "inputModes": []any{"text/plain"}, "outputModes": []any{"text/*"},
				},
				obj{"id": "explain", "name": "Explain", "description": "", "tags": []any{}, "examples": []any{}, "inputModes": []any{}, "outputModes": []any{}},
			},
			"svc.agent_id", g.id, "svc.org_id", g.org.id, "svc.handle", g.handle, "svc.address", g.handle,
			"svc.categories", []any{"finance", "back office"}, "svc.languages", []any{"en", "de-at"}, "svc.jurisdiction", "DE", "svc.pricing_model", "per_request",
			"svc.sla", obj{"response_time_p95_ms": 250, "availability_percent": 99.95}, "svc.verified", true, "svc.trust_tier", 1,
			"svc.a2a_enabled", true, "svc.a2a_accept_cleartext", false, "svc.a2a_endpoint", s.base+"/a2a/"+g.handle, "svc.human_oversight", true,
			"svc.message_types_accepted", []any{"svc.v1.task_request", "acme.v1.invoice"},
			"svc.verification_words", g.record["verification_words"], "svc.signing_key", g.record["signing_public_key"], "svc.encryption_key", g.record["encryption_public_key"])
		schemas, _ := at(made.body, "svc").(obj)["payload_schemas"].(obj)
		if !same(schemas, obj{"acme.v1.invoice": "https://acme.example/invoice.json", "svc.v1.task_request": "urn:acme:task"}) {
			made.errorf("the schemas are %v", schemas)
		}
		if made.at("created_at") != made.at("updated_at") {
			made.errorf("a new card was updated")
		}
		for _, name := range []string{g.id, g.handle, strings.ToUpper(g.handle[:1]) + g.handle[1:]} {
			if got := s.call(t, "", "GET", "/agents/"+name+"/card", nil).as("by %s", name).want(200); !same(got.body, made.body) {
				got.errorf("the card is not the one that was published")
			}
		}
	})
}

// TestCardDocument publishes the example of the documentation.
func TestCardDocument(t *testing.T) {
	page, err := os.ReadFile("../../../docs/cards.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```json\n")
	example, _, closed := strings.Cut(example, "\n```")
	var card obj
	if err := json.Unmarshal([]byte(example), &card); err != nil || !closed {
		t.Fatalf("the example is %s: %v", example, err)
	}
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("carded")
		a := g.put(g.path("/card"), verbatim(example)).want(200)
		a.is("svc.languages", []any{"en", "de-at"})
		for name, value := range card {
			if name != "svc" && name != "skills" {
				a.is(name, value)
			}
		}
	})
}

func TestCardUpsert(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("carded")
		first := g.put(g.path("/card"), fullCard()).want(200)
		time.Sleep(2 * time.Millisecond)
		second := shapedCard(g.put(g.path("/card"), plainCard()).want(200))
		second.is("created_at", first.at("created_at"), "name", "Plain", "version", nil, "provider", nil, "capabilities", nil, "defaultInputModes", []any{}, "defaultOutputModes", []any{},
			"skills", []any{}, "is_public", false, "svc.categories", []any{}, "svc.languages", []any{}, "svc.jurisdiction", nil, "svc.pricing_model", nil, "svc.sla", nil,
			"svc.a2a_enabled", false, "svc.a2a_accept_cleartext", true, "svc.a2a_endpoint", nil, "svc.message_types_accepted", []any{}, "svc.payload_schemas", obj{})
		if second.str("updated_at") <= first.str("updated_at") {
			second.errorf("updated_at did not move from %s", first.str("updated_at"))
		}
		if got := g.card(t).want(200); !same(got.body, second.body) {
			got.errorf("the card is not the last one")
		}
		time.Sleep(2 * time.Millisecond)
		again := g.put(g.path("/card"), plainCard()).as("the same again").want(200)
		if again.str("updated_at") <= second.str("updated_at") {
			again.errorf("updated_at did not move")
		}
		g.delete(g.path("/card")).want(204)
		g.delete(g.path("/card")).as("again").want(204)
		g.card(t).refused(404, "not_found")
		third := g.put(g.path("/card"), plainCard()).want(200)
		if third.str("created_at") <= first.str("created_at") {
			third.errorf("a new card has the instant of the deleted one")
		}
	})
}

// TestCardIgnores: members that the service writes, and unknown ones, change nothing.
func TestCardIgnores(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("carded")
		forged := merged(plainCard(), obj{
			"id": nobody, "agent_id": 7, "created_at": "2001-01-01", "updated_at": nil, "unheard_of": []any{obj{}}, "iconUrl": "https://x.example",
			"provider": nil, "capabilities": obj{"extendedAgentCard": true}, "skills": []any{obj{"id": "a", "name": "b", "description": "c", "more": 1}},
			"securitySchemes": obj{"bearer": obj{}}, "security": []any{obj{"bearer": []any{}}},
			"svc": obj{
				"agent_id": nobody, "org_id": 1, "address": "mallory@x", "handle": "mallory@x", "verified": "no", "trust_tier": 3, "a2a_endpoint": "https://x.example",
				"human_oversight": false, "verification_words": "a b c d e", "signing_key": obj{"d": "private"}, "encryption_key": nil, "unheard_of": 1, "sla": nil, "categories": nil,
			},
		})
		a := shapedCard(g.put(g.path("/card"), forged).want(200))
		a.is("id", g.id, "agent_id", g.id, "svc.agent_id", g.id, "svc.org_id", g.org.id, "svc.handle", g.handle, "svc.address", g.handle, "svc.verified", true, "svc.trust_tier", 1,
			"svc.a2a_endpoint", nil, "svc.human_oversight", true, "svc.verification_words", g.record["verification_words"], "svc.signing_key", g.record["signing_public_key"],
			"capabilities", obj{"streaming": false, "pushNotifications": false})
		exactly(t, "the card", a.body, "id agent_id created_at updated_at name description version provider capabilities defaultInputModes defaultOutputModes skills is_public svc")
		if strings.HasPrefix(a.str("created_at"), "2001") {
			a.errorf("the client dated the card")
		}
	})
}

// TestCardFollowsTheAgent: keys, words and oversight are shown as they are now.
func TestCardFollowsTheAgent(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("carded")
		made := g.put(g.path("/card"), plainCard()).want(200)
		sign, seal := newKeys()
		keyed := g.post(g.path("/keys"), obj{"signing_public_key": signJWK(sign), "encryption_public_key": sealJWK(seal)}).want(200)
		g.patch(g.path(""), obj{"human_oversight": false}).want(200)
		g.card(t).want(200).is("svc.signing_key", keyed.at("signing_public_key"), "svc.encryption_key", keyed.at("encryption_public_key"),
			"svc.verification_words", keyed.at("verification_words"), "svc.human_oversight", false, "updated_at", made.at("updated_at"))
	})
}

func TestCardCaching(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("carded")
		g.put(g.path("/card"), plainCard()).want(200)
		a := g.card(t).want(200)
		tag, changed := a.header.Get("ETag"), a.header.Get("Last-Modified")
		if a.header.Get("Cache-Control") != "public, max-age=300" || tag == "" || changed == "" {
			a.errorf("headers %v", a.header)
		}
		s.call(t, "", "GET", g.path("/card"), nil, "If-None-Match", tag).want(304)
		eventually(t, "the date suffices", func() bool { // not in the second of the change
			changed := g.card(t).want(200).header.Get("Last-Modified")
			return s.call(t, "", "GET", g.path("/card"), nil, "If-Modified-Since", changed).status == 304
		})
		g.patch(g.path(""), obj{"human_oversight": false}).want(200)
		again := s.call(t, "", "GET", g.path("/card"), nil, "If-None-Match", tag).as("after a change of oversight").want(200)
		if again.header.Get("ETag") == tag {
			again.errorf("the tag stayed")
		}
		stale := time.Now().Add(-time.Hour).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
		s.call(t, "", "GET", g.path("/card"), nil, "If-Modified-Since", stale).want(200)
	})
}

func TestCardFields(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("carded")
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
			{"no description", without(plainCard(), "description"), "body.description", "missing"},
			{"null for a name", merged(plainCard(), obj{"name": nil}), "body.name", "missing"},
			{"a list", []any{}, "body", "dict_type"},
			{"no JSON", verbatim("{"), "body", "json_invalid"},
			{"a number for a name", merged(plainCard(), obj{"name": 7}), "body.name", "string_type"},
			{"an empty name", merged(plainCard(), obj{"name": ""}), "body.name", "string_too_short"},
			{"a long name", merged(plainCard(), obj{"name": strings.Repeat("é", 501)}), "body.name", "string_too_long"},
			{"a name that turns round", merged(plainCard(), obj{"name": "a\u202eb"}), "body.name", "value_error"},
			{"a long description", merged(plainCard(), obj{"description": strings.Repeat("é", 5001)}), "body.description", "string_too_long"},
			{"a number for a version", merged(plainCard(), obj{"version": 1}), "body.version", "string_type"},
			{"a long version", merged(plainCard(), obj{"version": strings.Repeat("1", 101)}), "body.version", "string_too_long"},
			{"a text for public", merged(plainCard(), obj{"is_public": "true"}), "body.is_public", "bool_parsing"},

			{"a text for a provider", merged(plainCard(), obj{"provider": "Acme"}), "body.provider", "dict_type"},
			{"a provider without a name", merged(plainCard(), obj{"provider": obj{"url": "https://a.example"}}), "body.provider.organization", "missing"},
			{"a provider without a URL", merged(plainCard(), obj{"provider": obj{"organization": "a"}}), "body.provider.url", "missing"},
			{"a number for a URL", merged(plainCard(), obj{"provider": obj{"organization": "a", "url": 7}}), "body.provider.url", "string_type"},
			{"a URL that is a script", merged(plainCard(), obj{"provider": obj{"organization": "a", "url": "javascript:alert(1)"}}), "body.provider.url", "value_error"},
			{"a URL without a host", merged(plainCard(), obj{"provider": obj{"organization": "a", "url": "acme.example"}}), "body.provider.url", "value_error"},
			{"a list for capabilities", merged(plainCard(), obj{"capabilities": []any{"streaming"}}), "body.capabilities", "dict_type"},
			{"a text for streaming", merged(plainCard(), obj{"capabilities": obj{"streaming": "yes"}}), "body.capabilities.streaming", "bool_parsing"},
			{"a list for push notifications", merged(plainCard(), obj{"capabilities": obj{"pushNotifications": []any{}}}), "body.capabilities.pushNotifications", "bool_type"},
			{"a text for modes", merged(plainCard(), obj{"defaultInputModes": "text/plain"}), "body.defaultInputModes", "list_type"},
			{"no media type", merged(plainCard(), obj{"defaultInputModes": []any{"text/plain", "plain"}}), "body.defaultInputModes.1", "string_pattern_mismatch"},
			{"no media type out", merged(plainCard(), obj{"defaultOutputModes": []any{""}}), "body.defaultOutputModes.0", "string_pattern_mismatch"},
			{"33 media types", merged(plainCard(), obj{"defaultOutputModes": texts(33, "a/b")}), "body.defaultOutputModes", "too_long"},

			{"an object for skills", merged(plainCard(), obj{"skills": obj{}}), "body.skills", "list_type"},
			{"a text for a skill", merged(plainCard(), obj{"skills": []any{"a"}}), "body.skills.0", "dict_type"},
			{"65 skills", merged(plainCard(), obj{"skills": skills(65)}), "body.skills", "too_long"},
			{"a skill without an id", merged(plainCard(), obj{"skills": append(skills(1), obj{"name": "n", "description": "d"})}), "body.skills.1.id", "missing"},
			{"a skill without a name", skilled(obj{"name": nil}), "body.skills.0.name", "missing"},
			{"a skill without a description", skilled(obj{"description": nil}), "body.skills.0.description", "missing"},
			{"a skill of an empty id", skilled(obj{"id": ""}), "body.skills.0.id", "string_too_short"},
			{"a skill of a long name", skilled(obj{"name": strings.Repeat("n", 501)}), "body.skills.0.name", "string_too_long"},
			{"a skill of a long description", skilled(obj{"description": strings.Repeat("n", 5001)}), "body.skills.0.description", "string_too_long"},
			{"two skills of an id", merged(plainCard(), obj{"skills": append(skills(2), skills(2)[1])}), "body.skills.2.id", "value_error"},
			{"33 tags", skilled(obj{"tags": texts(33, "t")}), "body.skills.0.tags", "too_long"},
			{"a long tag", skilled(obj{"tags": []any{"t", strings.Repeat("é", 65)}}), "body.skills.0.tags.1", "string_too_long"},
			{"a number for a tag", skilled(obj{"tags": []any{7}}), "body.skills.0.tags.0", "string_type"},
			{"33 examples", skilled(obj{"examples": texts(33, "e")}), "body.skills.0.examples", "too_long"},
			{"a long example", skilled(obj{"examples": texts(1, strings.Repeat("e", 2001))}), "body.skills.0.examples.0", "string_too_long"},
			{"no media type of a skill", skilled(obj{"inputModes": []any{"x"}}), "body.skills.0.inputModes.0", "string_pattern_mismatch"},
			{"no media type from a skill", skilled(obj{"outputModes": []any{7}}), "body.skills.0.outputModes.0", "string_type"},

			{"a text for the extension", merged(plainCard(), obj{"svc": "x"}), "body.svc", "dict_type"},
			{"a text for categories", extended("categories", "finance"), "body.svc.categories", "list_type"},
			{"33 categories", extended("categories", texts(33, "c")), "body.svc.categories", "too_long"},
			{"a long category", extended("categories", texts(1, strings.Repeat("c", 65))), "body.svc.categories.0", "string_too_long"},
			{"no language", extended("languages", []any{"en", "english language"}), "body.svc.languages.1", "string_pattern_mismatch"},
			{"65 languages", extended("languages", texts(65, "en")), "body.svc.languages", "too_long"},
			{"no jurisdiction", extended("jurisdiction", "the moon"), "body.svc.jurisdiction", "string_pattern_mismatch"},
			{"an unknown pricing model", extended("pricing_model", "gratis"), "body.svc.pricing_model", "enum"},
			{"a list for promises", extended("sla", []any{}), "body.svc.sla", "dict_type"},
			{"a negative time", extended("sla", obj{"response_time_p95_ms": -1}), "body.svc.sla.response_time_p95_ms", "greater_than_equal"},
			{"half a millisecond", extended("sla", obj{"response_time_p95_ms": 0.5}), "body.svc.sla.response_time_p95_ms", "int_from_float"},
			{"too available", extended("sla", obj{"availability_percent": 100.1}), "body.svc.sla.availability_percent", "less_than_equal"},
			{"negatively available", extended("sla", obj{"availability_percent": -1}), "body.svc.sla.availability_percent", "greater_than_equal"},
			{"a text for availability", extended("sla", obj{"availability_percent": "99"}), "body.svc.sla.availability_percent", "float_parsing"},
			{"a flag for availability", extended("sla", obj{"availability_percent": true}), "body.svc.sla.availability_percent", "float_type"},
			{"a text for A2A", extended("a2a_enabled", "yes"), "body.svc.a2a_enabled", "bool_parsing"},
			{"a list for cleartext", extended("a2a_accept_cleartext", []any{}), "body.svc.a2a_accept_cleartext", "bool_type"},
			{"no message type", extended("message_types_accepted", []any{"svc.v1.dm", "dm"}), "body.svc.message_types_accepted.1", "string_pattern_mismatch"},
			{"65 message types", extended("message_types_accepted", texts(65, "a.b.c")), "body.svc.message_types_accepted", "too_long"},
			{"a list for schemas", extended("payload_schemas", []any{}), "body.svc.payload_schemas", "dict_type"},
			{"a schema of no type", extended("payload_schemas", obj{"dm": "https://a.example"}), "body.svc.payload_schemas.dm", "value_error"},
			{"a schema that is no text", extended("payload_schemas", obj{"a.b.c": obj{}}), "body.svc.payload_schemas.a.b.c", "string_type"},
			{"a schema that is no URI", extended("payload_schemas", obj{"a.b.c": "schema.json"}), "body.svc.payload_schemas.a.b.c", "value_error"},
			{"a long URI", extended("payload_schemas", obj{"a.b.c": "urn:" + strings.Repeat("x", 2045)}), "body.svc.payload_schemas.a.b.c", "string_too_long"},
			{"65 schemas", extended("payload_schemas", schemas), "body.svc.payload_schemas", "too_long"},
		} {
			g.put(g.path("/card"), c.body).as("%s", c.what).invalid(c.loc, c.kind)
		}
		g.card(t).as("nothing was published").refused(404, "not_found")
		s.call(t, "", "GET", "/agents/x/card", nil).invalid("path.id", "uuid_parsing")
		g.put("/agents/x/card", plainCard()).invalid("path.id", "uuid_parsing")
		g.put("/agents/"+g.handle+"/card", plainCard()).invalid("path.id", "uuid_parsing")
	})
}

// TestCardLimits: what is exactly as large as allowed is accepted.
func TestCardLimits(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("carded")
		var tags, skills []any
		for i := range 32 {
			tags = append(tags, fmt.Sprintf("%02d%s", i, strings.Repeat("é", 62)))
		}
		for i := range 64 {
			skills = append(skills, obj{"id": fmt.Sprint(i), "name": "n", "description": "d"})
		}
		skills[0].(obj)["tags"] = tags
		large := merged(plainCard(), obj{"name": strings.Repeat("é", 500), "description": strings.Repeat("é", 5000), "skills": skills})
		a := g.put(g.path("/card"), large).want(200).is("name", strings.Repeat("é", 500), "description", strings.Repeat("é", 5000))
		if got, _ := a.at("skills").([]any); len(got) != 64 || !same(got[0].(obj)["tags"], tags) {
			a.errorf("the skills are not those sent")
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
		g.put(g.path("/card"), verbatim(body(65536))).as("64 KiB").want(200)
		padded := strings.Repeat(" ", 1000) + strings.TrimSuffix(body(65536), "}") + `,"ignored":"` + strings.Repeat("y", 1000) + `"}`
		g.put(g.path("/card"), verbatim(padded)).as("64 KiB, and what is ignored").want(200)
		g.put(g.path("/card"), verbatim(body(65537))).as("a byte more").invalid("body", "value_error")
	})
}

// TestCardSecurity: the service writes the security members of an A2A-enabled agent's
// card.
func TestCardSecurity(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g := s.org(t).agent("carded")
		put := func(enabled any, more obj) *answer {
			return g.put(g.path("/card"), merged(extended("a2a_enabled", enabled), more))
		}
		schemes, security := obj{"securitySchemes": obj{}}, obj{"security": []any{}}
		put(nil, schemes).as("without A2A").want(200)
		for _, c := range []struct {
			more obj
			loc  string
		}{{schemes, "[body securitySchemes]"}, {security, "[body security]"}, {merged(schemes, security), "[body securitySchemes]"}, {obj{"security": "text"}, "[body security]"}} {
			a := put(true, c.more).as("with A2A and %v", c.more).refusedByRule("card_security_fields")
			if loc := fmt.Sprint(a.complaints("card_security_fields")[0]["loc"]); loc != c.loc {
				a.errorf("located at %s, want %s", loc, c.loc)
			}
		}
		g.card(t).want(200).is("svc.a2a_enabled", false)
		put(true, obj{"security": nil, "securitySchemes": nil}).as("with nulls").want(200)
		put(nil, schemes).as("of an agent that has A2A").refusedByRule("card_security_fields")
		put(false, security).as("of an agent that had A2A until now").refusedByRule("card_security_fields")
		put(false, nil).want(200)
		put(false, security).as("after A2A").want(200)
	})
}

// TestCardAccess: only the agent's organization publishes and deletes its card. A revoked
// agent has none.
func TestCardAccess(t *testing.T) {
	each(t, func(t *testing.T, s *server) {
		g, other := s.org(t).agent("carded"), s.org(t)
		g.put(g.path("/card"), plainCard()).want(200)
		for _, o := range []struct {
			*org
			token, path, code string
			status            int
		}{
			{other, other.token, g.path("/card"), "not_owner", 403},
			{other, other.token, "/agents/" + nobody + "/card", "not_found", 404},
			{g.org, g.token, "/agents/" + nobody + "/card", "not_found", 404},
			{g.org, "", g.path("/card"), "not_authenticated", 401},
		} {
			s.call(t, o.token, "PUT", o.path, plainCard()).refused(o.status, o.code)
			s.call(t, o.token, "DELETE", o.path, nil).refused(o.status, o.code)
		}
		other.put(g.path("/card"), obj{}).as("the schema comes first").invalid("body.name", "missing")
		s.call(t, "", "GET", "/agents/"+nobody+"/card", nil).refused(404, "not_found")
		s.call(t, "", "GET", "/agents/nobody@"+g.slug+".localhost/card", nil).refused(404, "not_found")
		g.card(t).want(200)

		unlisted := g.org.post("/agents", merged(newAgent("unlisted"), obj{"unlisted": true})).want(201).str("id")
		g.put("/agents/"+unlisted+"/card", merged(plainCard(), obj{"is_public": true})).want(200)
		s.call(t, "", "GET", "/agents/"+unlisted+"/card", nil).as("unlisted, by exact id").want(200).is("is_public", true)

		g.delete(g.path("")).want(204)
		g.card(t).as("revoked").refused(404, "not_found")
		s.call(t, "", "GET", "/agents/"+g.handle+"/card", nil).as("revoked, by handle").refused(404, "not_found")
		g.put(g.path("/card"), plainCard()).refused(410, "gone")
		g.delete(g.path("/card")).refused(410, "gone")
	})
}

// TestCardSurvives: a card is as it was after the server was killed, a deleted one stays
// deleted, and the data verify.
func TestCardSurvives(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		s := start(t, "--journals", journals)
		o := s.org(t)
		kept, deleted, revoked := o.agent("kept"), o.agent("deleted"), o.agent("revoked")
		for _, g := range []*agent{kept, deleted, revoked} {
			g.put(g.path("/card"), plainCard()).want(200)
		}
		want := kept.put(kept.path("/card"), fullCard()).want(200)
		deleted.delete(deleted.path("/card")).want(204)
		revoked.delete(revoked.path("")).want(204)
		s.kill()
		s.restart(t)
		if got := kept.card(t).want(200); !same(got.body, want.body) {
			got.errorf("the card was %v", want.body)
		}
		deleted.card(t).refused(404, "not_found")
		revoked.card(t).refused(404, "not_found")
		again := kept.put(kept.path("/card"), plainCard()).want(200)
		again.is("created_at", want.at("created_at"))
		if err := s.drain(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		succeeds(t, "verify", "--data", s.dir)
	})
}

// TestCardBrand: the extension has the brand as its name, in requests, answers and
// refusals.
func TestCardBrand(t *testing.T) {
	own(t, func(t *testing.T, journals string) {
		admin := freeAddress(t)
		s := start(t, "--journals", journals, "--brand", "acme", "--tier1", "approval", "--admin-listen", admin)
		tier := func(o *org, n string) {
			succeeds(t, "org", "tier", o.slug, n, "--admin", "http://"+admin, "--data", s.dir)
		}
		o := s.org(t)
		o.get("/org").want(200).is("trust_tier", 0)
		tier(o, "1")
		g := o.agent("carded")
		a := g.put(g.path("/card"), merged(plainCard(), obj{"acme": obj{"categories": []any{"A"}}, "svc": obj{"categories": []any{"B"}}})).want(200)
		a.is("acme.categories", []any{"a"}, "acme.handle", g.handle, "acme.trust_tier", 1, "svc", nil)
		g.card(t).want(200).is("acme.categories", []any{"a"}, "svc", nil)
		g.put(g.path("/card"), merged(plainCard(), obj{"acme": obj{"categories": "a"}})).invalid("body.acme.categories", "list_type")
		g.put(g.path("/card"), merged(plainCard(), obj{"acme": obj{"payload_schemas": obj{"dm": "urn:a:b"}}})).invalid("body.acme.payload_schemas.dm", "value_error")
		tier(o, "0")
		g.card(t).want(200).is("acme.trust_tier", 0, "acme.verified", false)
		g.put(g.path("/card"), plainCard()).as("at tier 0").want(200)
	})
}
