package http

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"parley/client/api"
	"parley/client/parley"
	"parley/http/a2a"
	"parley/http/rest"
)

// card returns the A2A card of an active agent, public or not, listed or not.
// // spec: A2A bridge
func (s bridge) card(c *rest.Call, in *api.GetA2ACard) (rest.Rendered, error) {
	a, err := s.agents.Addressed(c, in.Handle)
	if err != nil {
		return rest.Rendered{}, err
	}
	if err := s.takeKeys(c.Context()); err != nil {
		return rest.Rendered{}, err
	}
	card, err := s.bridgeCards.Card(c.Context(), a)
	if err != nil {
		return rest.Rendered{}, err
	}
	return c.Document(jsontext.Value(card.JSON), card.Changed, rest.CacheFiveMinutes)
}

// extension describes the extension of A2A cards, at its URI.
func (s bridge) extension(c *rest.Call, in *api.GetA2AExtension) (rest.Rendered, error) {
	if in.Brand != s.Brand {
		return rest.Rendered{}, parley.ErrNotFound
	}
	return c.Document(a2a.Extension(s.BaseURL, s.Brand), time.Unix(s.started, 0), rest.CacheHour)
}

// call answers a request to an agent over A2A. // spec: A2A bridge
func (s bridge) call(c *rest.Call, in *api.A2ARequest) error { return s.core.bridge.Serve(c, in) }
