package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"parley/client/api"
	"parley/client/clienttest"
	"parley/client/parley"
)

// TestCards checks what the client sends and reads, on a server with another brand.
func TestCards(t *testing.T) {
	id := parley.AgentID(clienttest.ClientID)
	for _, brand := range []string{"svc", "acme"} {
		t.Run(brand, func(t *testing.T) {
			s := newScript(t)
			var asked []string
			s.Mux.HandleFunc("/agents/", func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				asked = append(asked, r.Method+" "+r.URL.EscapedPath()+" "+r.Header.Get("Authorization")+" "+string(body))
				if r.Method == http.MethodDelete {
					w.WriteHeader(204)
					return
				}
				if len(asked) == 1 {
					clienttest.Refuse(w, 503, "outcome_unknown", nil)
					return
				}
				shown, _ := json.Marshal(api.Card{ID: id, Name: "n", Extension: api.CardExtension{Categories: []string{"a"}}})
				clienttest.Answer(w, 200, json.RawMessage(api.Rebrand(shown, "svc", brand)))
			})
			c := s.client(t, WithBrand(brand))
			card, err := c.Agents.PutCard(t.Context(), api.PutCard{ID: id, Name: "n", Description: "d", IsPublic: true, Extension: &api.PutCardExtension{Categories: []string{"a"}}})
			if err != nil || card.ID != id || !slices.Equal(card.Extension.Categories, []string{"a"}) {
				t.Fatalf("%+v, %v", card, err)
			}
			if card, err = c.Agents.Card(t.Context(), "n@x.localhost"); err != nil || !slices.Equal(card.Extension.Categories, []string{"a"}) {
				t.Fatalf("%+v, %v", card, err)
			}
			if err := c.Agents.DeleteCard(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			put := "PUT /agents/" + id.String() + `/card Bearer token-1 {"name":"n","description":"d","` + brand + `":{"categories":["a"]},"is_public":true}`
			want := []string{put, put, "GET /agents/n@x.localhost/card  ", "DELETE /agents/" + id.String() + "/card Bearer token-1 "}
			if !slices.Equal(asked, want) {
				t.Errorf("asked %q\nwant  %q", asked, want)
			}
		})
	}
}

func TestCardErrors(t *testing.T) {
	s := newScript(t)
	s.Mux.HandleFunc("/agents/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			clienttest.Answer(w, 200, []string{"no card"})
			return
		}
		clienttest.Refuse(w, 422, "card_security_fields", nil)
	})
	c := s.client(t)
	if card, err := c.Agents.Card(t.Context(), "a"); err == nil {
		t.Errorf("read %+v", card)
	}
	var refused *Error
	if _, err := c.Agents.PutCardJSON(t.Context(), parley.AgentID{}, []byte("{}")); !errors.As(err, &refused) || refused.Code != "card_security_fields" {
		t.Errorf("refused with %v", err)
	}
}
