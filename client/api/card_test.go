package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"parley/client/api"
	"parley/client/parley"
)

func TestRebrand(t *testing.T) {
	for body, want := range map[string]string{
		`{"svc":1}`:                         `{"acme":1}`,
		` { "a" : {"svc":2} , "svc" : {} }`: ` { "a" : {"svc":2} , "acme" : {} }`,
		`{"\u0073vc":1,"b":"svc"}`:          `{"acme":1,"b":"svc"}`,
		`{"a":"svc"}`:                       `{"a":"svc"}`,
		`{"a":["svc",{"svc":1}]}`:           `{"a":["svc",{"svc":1}]}`,
		`["svc"]`:                           `["svc"]`,
		`{"a":1,`:                           `{"a":1,`,
		`{"a`:                               `{"a`,
		``:                                  ``,
	} {
		if got := string(api.Rebrand([]byte(body), "svc", "acme")); got != want {
			t.Errorf("%s became %s, want %s", body, got, want)
		}
	}
	if got := string(api.Rebrand([]byte(`{"svc":1}`), "svc", "svc")); got != `{"svc":1}` {
		t.Errorf("the same brand gives %s", got)
	}
}

// locations lists the locations of faults.
func locations(faults []api.FieldError) string {
	var all []string
	for _, f := range faults {
		text, _ := json.Marshal(f.Loc)
		all = append(all, string(text))
	}
	return strings.Join(all, " ")
}

func TestCardCheck(t *testing.T) {
	long := strings.Repeat("é", 5000)
	skills := func(n int) (all []api.PutCardSkill) {
		for i := range n {
			all = append(all, api.PutCardSkill{ID: fmt.Sprint(i), Name: "n", Description: long})
		}
		return all
	}
	for _, c := range []struct {
		what string
		card api.PutCard
		want string
	}{
		{"plain", api.PutCard{Name: "n", Description: "d"}, ""},
		{"lines in a description", api.PutCard{Name: "n", Description: "a\nb\u202e"}, ""},
		{"an invisible name", api.PutCard{Name: "a\u202eb"}, `["body","name"]`},
		{"a provider", api.PutCard{Name: "n", Provider: &api.CardProvider{Organization: "Acme", URL: "http://acme.example:8080/x?y"}}, ""},
		{"an invisible provider", api.PutCard{Name: "n", Provider: &api.CardProvider{Organization: "a\x07", URL: "https://acme.example"}}, `["body","provider","organization"]`},
		{"a script", api.PutCard{Name: "n", Provider: &api.CardProvider{Organization: "Acme", URL: "javascript:alert(1)"}}, `["body","provider","url"]`},
		{"a path", api.PutCard{Name: "n", Provider: &api.CardProvider{Organization: "Acme", URL: "/home"}}, `["body","provider","url"]`},
		{"no host", api.PutCard{Name: "n", Provider: &api.CardProvider{Organization: "Acme", URL: "https://"}}, `["body","provider","url"]`},
		{"no URL at all", api.PutCard{Name: "n", Provider: &api.CardProvider{Organization: "Acme", URL: "http://[::1"}}, `["body","provider","url"]`},
		{"a skill twice", api.PutCard{Name: "n", Skills: []api.PutCardSkill{{ID: "a"}, {ID: "b"}, {ID: "a"}}}, `["body","skills",2,"id"]`},
		{"an invisible skill", api.PutCard{Name: "n", Skills: []api.PutCardSkill{{ID: "a"}, {ID: "b", Name: "\u200b"}}}, `["body","skills",1,"name"]`},
		{"schemas", api.PutCard{Name: "n", Extension: &api.PutCardExtension{PayloadSchemas: map[string]string{"svc.v1.dm": "https://a.example/s.json", "a.b.c": "urn:x:y"}}}, ""},
		{
			"bad schemas",
			api.PutCard{Name: "n", Extension: &api.PutCardExtension{PayloadSchemas: map[string]string{"dm": "https://a.example", "a.b.c": "s.json"}}},
			`["body","svc","payload_schemas","a.b.c"] ["body","svc","payload_schemas","dm"]`,
		},
		{"six long skills", api.PutCard{Name: "n", Skills: skills(6)}, ""},
		{"seven long skills", api.PutCard{Name: "n", Skills: skills(7)}, `["body"]`},
		{"ignored members", api.PutCard{Name: "n", Security: jsontext.Value(`"` + strings.Repeat("x", parley.CardBytesMax) + `"`)}, ""},
	} {
		if got := locations(c.card.Check()); got != c.want {
			t.Errorf("%s: faults at %s, want %s", c.what, got, c.want)
		}
	}
}

// TestCardSize checks the exact size up to which a card is accepted, in bytes of the JSON
// that a client sends.
func TestCardSize(t *testing.T) {
	card := api.PutCard{Name: "n", Description: "d"}
	for i := range 40 {
		card.Skills = append(card.Skills, api.PutCardSkill{ID: fmt.Sprint(i), Name: "n", Description: "d"})
	}
	size := func() int {
		b, err := json.Marshal(card)
		if err != nil {
			t.Fatal(err)
		}
		return len(b)
	}
	for i := 0; size() < parley.CardBytesMax; i++ {
		card.Skills[i].Description += strings.Repeat("x", min(4999, parley.CardBytesMax-size()))
	}
	if size() != parley.CardBytesMax || len(card.Check()) != 0 {
		t.Fatalf("a card of %d bytes: %v", size(), card.Check())
	}
	card.Name += "n"
	if faults := card.Check(); locations(faults) != `["body"]` || !strings.Contains(faults[0].Msg, "at most 65536 bytes of compact JSON, not 65537") {
		t.Errorf("a card of %d bytes: %v", size(), faults)
	}
}
