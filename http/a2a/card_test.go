package a2a

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gowebpki/jcs"

	"parley/client/api"
	"parley/http/auth"
)

const (
	testBase  = "https://parley.example"
	testJWKS  = testBase + "/.well-known/jwks.json"
	testAgent = testBase + "/a2a/bob@acme.parley.example"
)

// bareCard is a card with nothing but what its owner must give, as the service shows it.
func bareCard() api.Card {
	return api.Card{
		Name: "Bob", Description: new(""), Skills: []api.AgentSkill{},
		Extension: api.CardExtension{Handle: "bob@acme.parley.example", A2AEnabled: true, A2AAcceptCleartext: true, A2AEndpoint: new(testAgent), PayloadSchemas: map[string]string{}},
	}
}

// fullCard has every member.
func fullCard() api.Card {
	card := bareCard()
	card.Description, card.Version, card.Provider = new("Checks <invoices> & more — ünïcode 🧾."), new("2.1"), &api.CardProvider{Organization: "Acme", URL: "https://acme.example"}
	card.Capabilities = &api.CardCapabilities{}
	card.DefaultInputModes, card.DefaultOutputModes = []string{"image/png"}, []string{"text/csv"}
	card.Skills = []api.AgentSkill{
		{ID: "check", Name: "Check", Description: "Compares.", Tags: []string{"audit"}, Examples: []string{"", "Is 17 right?"}, InputModes: []string{"text/plain"}},
		{ID: "explain", Name: "Explain", Tags: []string{}, Examples: []string{""}},
	}
	card.Extension.SLA = &api.CardServiceLevel{ResponseTimeP95Ms: new(int64(800)), AvailabilityPercent: new(99.95)}
	card.Extension.Categories, card.Extension.Verified, card.Extension.TrustTier = []string{"finance"}, true, 1
	card.Extension.PayloadSchemas = map[string]string{"acme.v1.invoice": "https://acme.example/schema"}
	return card
}

func testKey(letter byte) auth.SigningKey {
	return auth.NewSigningKey([]byte(strings.Repeat(string(letter), ed25519.SeedSize)), time.Unix(0, 0))
}

func signed(t *testing.T, shown api.Card) []byte {
	t.Helper()
	card, err := NewCard(shown, testBase, "svc")
	if err != nil {
		t.Fatal(err)
	}
	text, err := Sign(card, testKey('c'), testJWKS)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func membersOf(t *testing.T, text []byte) map[string]any {
	t.Helper()
	members := map[string]any{}
	if err := json.Unmarshal(text, &members); err != nil {
		t.Fatal(err)
	}
	return members
}

func TestCardOfAgentThatSaysLittle(t *testing.T) {
	card, err := NewCard(bareCard(), testBase, "svc")
	if err != nil {
		t.Fatal(err)
	}
	sealed := "application/vnd.svc.encrypted+json"
	for what, pair := range map[string][2]any{
		"description": {card.Description, "Bob"}, "version": {card.Version, "1.0.0"}, "interfaces": {card.SupportedInterfaces, []api.A2AInterface{{URL: testAgent, ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0"}}},
		"skills":       {card.Skills, []api.A2ASkill{{ID: "message", Name: "Bob", Description: "Bob", Tags: []string{"message"}}}},
		"input modes":  {card.DefaultInputModes, []string{"text/plain", "application/json", sealed}},
		"output modes": {card.DefaultOutputModes, []string{"text/plain", "application/json", sealed}},
		"requirement":  {card.SecurityRequirements, []api.A2ASecurityRequirement{needing("org"), needing("agents")}},
		"streaming":    {card.Capabilities.Streaming && card.Capabilities.PushNotifications && card.Capabilities.ExtendedAgentCard, true},
	} {
		if fmt.Sprint(pair[0]) != fmt.Sprint(pair[1]) {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
	secret := bareCard()
	secret.Extension.A2AAcceptCleartext = false
	if card, err = NewCard(secret, testBase, "svc"); err != nil || fmt.Sprint(card.DefaultInputModes) != "["+sealed+"]" {
		t.Errorf("an agent that rejects cleartext accepts %v, %v", card.DefaultInputModes, err)
	}
}

func TestCardKeepsWhatTheOwnerSaid(t *testing.T) {
	text := string(signed(t, fullCard()))
	for _, want := range []string{
		`"version":"2.1"`, `"provider":{"organization":"Acme","url":"https://acme.example"}`, `"defaultInputModes":["image/png"]`, `"defaultOutputModes":["text/csv"]`,
		`"streaming":true`, `"pushNotifications":true`, `"extendedAgentCard":true`, `"examples":["Is 17 right?"]`, `"tags":["explain"]`, `"tags":["audit"]`,
		`"description":"Checks <invoices> & more — ünïcode 🧾."`, `"availability_percent":99.95`, `"acme.v1.invoice":"https://acme.example/schema"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the card has no %s: %s", want, text)
		}
	}
}

// firstEmpty returns the path of a member that is empty, null, false or 0; "" if there is
// none.
func firstEmpty(at string, value any) string {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if found := firstEmpty(at+"."+name, member); found != "" {
				return found
			}
		}
		if len(value) > 0 {
			return ""
		}
	case []any:
		for i, element := range value {
			if found := firstEmpty(fmt.Sprint(at, "[", i, "]"), element); found != "" {
				return found
			}
		}
		if len(value) > 0 {
			return ""
		}
	case string, float64, bool:
		if value != "" && value != 0.0 && value != false {
			return ""
		}
	}
	return at
}

// TestSignedCardHasNoEmptyMember: verifiers disagree about empty members, so there is none.
func TestSignedCardHasNoEmptyMember(t *testing.T) {
	for name, shown := range map[string]api.Card{"bare": bareCard(), "full": fullCard()} {
		if at := firstEmpty("card", membersOf(t, signed(t, shown))); at != "" {
			t.Errorf("%s: %s is empty", name, at)
		}
	}
	for _, planted := range []any{nil, "", false, 0.0, []any{}, map[string]any{}} {
		if at := firstEmpty("card", map[string]any{"a": "b", "c": []any{"d", planted}}); at != "card.c[1]" {
			t.Errorf("control: %v is found at %q", planted, at)
		}
	}
}

// verify verifies a card with a key as a strict client does that knows nothing of this
// package.
func verify(t *testing.T, card map[string]any, key auth.SigningKey) bool {
	t.Helper()
	signature := card["signatures"].([]any)[0].(map[string]any)
	rest := map[string]any{}
	for name, member := range card {
		if name != "signatures" {
			rest[name] = member
		}
	}
	text, err := json.Marshal(rest)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := jcs.Transform(text)
	if err != nil {
		t.Fatal(err)
	}
	protected := signature["protected"].(string)
	raw, err := base64.RawURLEncoding.Strict().DecodeString(signature["signature"].(string))
	if err != nil {
		t.Fatal(err)
	}
	return ed25519.Verify(key.Public(), []byte(protected+"."+base64.RawURLEncoding.EncodeToString(payload)), raw)
}

func TestSignature(t *testing.T) {
	text := signed(t, fullCard())
	if again, err := jcs.Transform(text); err != nil || string(again) != string(text) {
		t.Errorf("the card is not canonical: %v", err)
	}
	card := membersOf(t, text)
	if !verify(t, card, testKey('c')) {
		t.Error("the signature does not verify")
	}
	if verify(t, card, testKey('d')) {
		t.Error("the signature verifies with another key")
	}
	header, err := base64.RawURLEncoding.Strict().DecodeString(card["signatures"].([]any)[0].(map[string]any)["protected"].(string))
	want := fmt.Sprintf(`{"alg":"EdDSA","jku":%q,"kid":%q,"typ":"JOSE"}`, testJWKS, testKey('c').Kid)
	if err != nil || string(header) != want {
		t.Errorf("header %s, %v, want %s", header, err, want)
	}
	card["name"] = "Mallory"
	if verify(t, card, testKey('c')) {
		t.Error("control: a changed card verifies")
	}
}

// TestExtendedCard: the extension is added below the brand, and the rest stays signed.
func TestExtendedCard(t *testing.T) {
	shown := fullCard()
	text, err := Extend(signed(t, shown), "acme", shown.Extension)
	if err != nil {
		t.Fatal(err)
	}
	card := membersOf(t, text)
	extension, _ := card["acme"].(map[string]any)
	if human, there := extension["human_oversight"]; extension["handle"] != "bob@acme.parley.example" || !there || human != false {
		t.Errorf("the extension is %v", extension)
	}
	// Readers that know the schema of A2A alone find it in the params, without what is empty.
	params := card["capabilities"].(map[string]any)["extensions"].([]any)[0].(map[string]any)["params"]
	if want := pruned(extension); !reflect.DeepEqual(params, want) {
		t.Errorf("the params are %v, the extension %v", params, want)
	}
	if verify(t, card, testKey('c')) {
		t.Error("the signature covers the extension")
	}
	delete(card, "acme")
	if !verify(t, card, testKey('c')) {
		t.Error("the signature does not cover the rest")
	}
}

// BenchmarkSign is what a request costs that finds no signed card.
func BenchmarkSign(b *testing.B) {
	shown, key := fullCard(), testKey('c')
	for b.Loop() {
		card, err := NewCard(shown, testBase, "svc")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Sign(card, key, testJWKS); err != nil {
			b.Fatal(err)
		}
	}
}
