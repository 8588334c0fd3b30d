package client

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"parley/client/api"
	"parley/client/clienttest"
	"parley/client/parley"
)

// TestDirectory checks what the client sends and reads, on a server with another brand.
func TestDirectory(t *testing.T) {
	id, org, yes := parley.AgentID(clienttest.ClientID), parley.OrgID(clienttest.ClientID), true
	s := newScript(t)
	var asked []string
	s.Mux.HandleFunc("/directory/", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization")+" "+r.URL.Query().Encode())
		switch r.URL.Path {
		case "/directory/categories":
			clienttest.Answer(w, 200, json.RawMessage(`[{"name":"office","count":2}]`))
		case "/directory/agents":
			if r.URL.Query().Get("cursor") == "" {
				clienttest.Answer(w, 200, json.RawMessage(`{"items":[{"name":"a","handle":"a@x","score":1}],"next_cursor":"c","has_more":true,"search_mode":["text"],"total":2}`))
				return
			}
			clienttest.Answer(w, 200, json.RawMessage(`{"items":[{"name":"b"}],"next_cursor":null,"has_more":false,"search_mode":["text"],"total":2}`))
		default:
			shown, _ := json.Marshal(api.ListedAgent{Card: api.Card{ID: id, Extension: api.CardExtension{Categories: []string{"office"}}}})
			clienttest.Answer(w, 200, json.RawMessage(api.Rebrand(shown, "svc", "acme")))
		}
	})
	c := s.client(t, WithBrand("acme"))
	text := func(s string) *string { return &s }
	in := api.FindAgents{
		SearchText: api.SearchText{Q: text("q"), Query: text("r"), Semantic: text("s")}, Category: []string{"c", "d"}, Tag: []string{"t"}, Language: []string{"l"},
		Jurisdiction: text("j"), MessageType: text("m"), OrgID: &org, Verified: &yes, PricingModel: text("free"), Limit: 7, Sort: api.SortName,
	}
	var names []string
	for row, err := range All(t.Context(), c.Directory.AgentRows, in) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, row.Name)
	}
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("found %q", names)
	}
	if listed, err := c.Directory.ListedAgent(t.Context(), id); err != nil || listed.ID != id || !slices.Equal(listed.Extension.Categories, []string{"office"}) {
		t.Errorf("%+v, %v", listed, err)
	}
	if all, err := c.Directory.Categories(t.Context()); err != nil || len(*all) != 1 || (*all)[0].Count != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	query := "category=c&category=d&jurisdiction=j&language=l&limit=7&message_type=m&org_id=" + org.String() + "&pricing_model=free&q=q&query=r&semantic=s&sort=name&tag=t&verified=true"
	want := []string{
		"GET /directory/agents  " + query, "GET /directory/agents  category=c&category=d&cursor=c" + query[len("category=c&category=d"):],
		"GET /directory/agents/" + id.String() + "  ", "GET /directory/categories  ",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q\nwant  %q", asked, want)
	}
}
