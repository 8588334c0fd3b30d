package agents

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"parley/actors/agent"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/rest"
	"parley/http/view"
)

// Put publishes the card of one of the caller's agents. // spec: Agent cards
func (s Cards) Put(c *rest.Call, in *api.PutCard) (rest.Rendered, error) {
	if _, err := s.Agents.Own(c, in.ID); err != nil {
		return rest.Rendered{}, err
	}
	member := securityMember(in)
	stored := storedCard(in)
	command := agent.PublishCard{Public: in.IsPublic, A2AEnabled: stored.GetA2AEnabled(), NamesSecurity: member != ""}
	published, err := s.Node.Agents.PublishCard(c.Context(), in.ID, command, stored)
	if refused := (*parley.Refusal)(nil); errors.As(err, &refused) && refused.Is(agent.ErrCardSecurity) {
		err = refused.With("loc", []any{"body", member})
	}
	if err != nil {
		return rest.Rendered{}, err
	}
	card, _, err := s.Agents.Card(c.Context(), published.Agent, published.Card)
	if err != nil {
		return rest.Rendered{}, err
	}
	body, err := s.Show.Branded(card)
	return rest.Rendered{JSON: body}, err
}

// Get returns the card of an active agent, by id or handle. It need not be public:
// the caller knows the agent already.
func (s Cards) Get(c *rest.Call, in *api.GetCard) (rest.Rendered, error) {
	return s.document(c, in.ID, false)
}

// GetWellKnown returns the card of an active agent if it is public, also of an
// unlisted agent. // spec: Directory and discovery (all public, no auth)
func (s Cards) GetWellKnown(c *rest.Call, in *api.GetWellKnownCard) (rest.Rendered, error) {
	return s.document(c, in.ID.String(), true)
}

// document answers with the card of an active agent. If it must be public, one that is not
// counts as none.
func (s Cards) document(c *rest.Call, name string, public bool) (rest.Rendered, error) {
	a, err := s.Agents.Public(c, name)
	if err != nil {
		return rest.Rendered{}, err
	}
	stored, err := s.Node.Agents.Card(c.Context(), a.AgentID())
	if err == nil && public && !stored.GetIsPublic() {
		err = query.ErrNoCard
	}
	if err != nil {
		return rest.Rendered{}, err
	}
	card, changed, err := s.Agents.Card(c.Context(), a, stored)
	if err != nil {
		return rest.Rendered{}, err
	}
	body, err := s.Show.Branded(card)
	if err != nil {
		return rest.Rendered{}, err
	}
	return c.Document(jsontext.Value(body), changed, rest.CacheFiveMinutes)
}

// Delete deletes the card of one of the caller's agents. Repeating it has no effect.
func (s Cards) Delete(c *rest.Call, in *api.DeleteCard) (rest.NoContent, error) {
	_, err := s.Agents.Own(c, in.ID)
	if err == nil {
		_, err = s.Node.Agents.Change(c.Context(), in.ID, agent.WithdrawCard{})
	}
	return rest.NoContent{}, err
}

// securityMember returns the member of a request that only the service may write, "" if
// it has none.
func securityMember(in *api.PutCard) string {
	switch {
	case in.SecuritySchemes != nil:
		return "securitySchemes"
	case in.Security != nil:
		return "security"
	}
	return ""
}

// storedCard returns a card in the form in which it is stored.
func storedCard(in *api.PutCard) *record.Card {
	card := &record.Card{
		Name: in.Name, Description: in.Description, Version: in.Version, DefaultInputModes: in.DefaultInputModes, DefaultOutputModes: in.DefaultOutputModes,
		A2AAcceptCleartext: true,
	}
	if p := in.Provider; p != nil {
		card.Provider = &record.CardProvider{Organization: p.Organization, Url: p.URL}
	}
	if can := in.Capabilities; can != nil {
		card.Capabilities = &record.CardCapabilities{Streaming: can.Streaming, PushNotifications: can.PushNotifications}
	}
	for _, skill := range in.Skills {
		card.Skills = append(card.Skills, &record.CardSkill{
			Id: skill.ID, Name: skill.Name, Description: skill.Description, Tags: view.Folded(skill.Tags), Examples: skill.Examples,
			InputModes: skill.InputModes, OutputModes: skill.OutputModes,
		})
	}
	if x := in.Extension; x != nil {
		extend(card, x)
	}
	return card
}

// extend sets what the extension of a request says.
func extend(card *record.Card, x *api.PutCardExtension) {
	card.Categories, card.Languages, card.MessageTypesAccepted = view.Folded(x.Categories), view.Folded(x.Languages), view.Once(x.MessageTypesAccepted)
	card.Jurisdiction, card.PricingModel = strings.ToUpper(strings.TrimSpace(rest.Text(x.Jurisdiction))), rest.Text(x.PricingModel)
	card.A2AEnabled, card.A2AAcceptCleartext = x.A2AEnabled, x.A2AAcceptCleartext == nil || *x.A2AAcceptCleartext
	if x.SLA != nil {
		card.Sla = &record.CardServiceLevel{ResponseTimeP95Ms: x.SLA.ResponseTimeP95Ms, AvailabilityPercent: x.SLA.AvailabilityPercent}
	}
	for _, messageType := range slices.Sorted(maps.Keys(x.PayloadSchemas)) {
		card.PayloadSchemas = append(card.PayloadSchemas, &record.CardSchema{MessageType: messageType, Uri: x.PayloadSchemas[messageType]})
	}
}
