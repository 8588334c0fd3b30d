package importing

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley"
	"parley/actors/agent"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/http/api"
	"parley/journal"
)

// writeAgents writes the organization's agents, in the order of their creation: of agents
// with the same key, the first is found by it.
func (w *writer) writeAgents() error {
	order := make([]*api.ExportedAgent, len(w.agents))
	for i := range w.agents {
		order[w.agents[i].RosterPlace-1] = &w.agents[i]
	}
	for _, a := range order {
		if err := w.writeAgent(a); err != nil {
			return fmt.Errorf("agent %s: %w", a.ID, err)
		}
	}
	return nil
}

func (w *writer) writeAgent(a *api.ExportedAgent) error {
	events, err := keyHistory(a)
	if err != nil {
		return err
	}
	entry := &journal.Entry{Slot: a.ID.Slot(), At: w.began()}
	if jsontext.Value(a.Card).Kind() == '{' {
		card, err := readCard(a.Card)
		if err != nil {
			return fmt.Errorf("card: %w", err)
		}
		events = append(events, published(card)...)
		stored, err := card.MarshalVT()
		if err != nil {
			return err
		}
		w.row(entry, journal.CardTable, a.ID, stored)
	}
	if a.RevokedAt != nil {
		events = append(events, &agent.Revoked{AtMs: a.RevokedAt.UnixMilli()})
	} else {
		events = append(events, w.memberships(a.ID)...)
		w.concerns(entry, a.ID)
	}
	if a.LastActiveAt != nil {
		w.row(entry, journal.ActivityTable, a.ID, record.HourRow(record.Hour(a.LastActiveAt.Time)))
	}
	state := &agent.State{}
	create, err := stream(rules.Agent, rules.AgentStream(a.ID), state, events)
	if err != nil {
		return err
	}
	entry.Effects = append(entry.Effects, create)
	w.findByKeys(entry, state)
	return w.add(entry)
}

// row adds a row of an agent that belongs to its organization.
func (w *writer) row(e *journal.Entry, table journal.Table, id parley.AgentID, value []byte) {
	e.Rows = append(e.Rows, journal.Row{Slot: id.Slot(), Table: table, Key: id.Bytes(), Value: value, Owners: journal.OwnedBy(w.org.ID)})
}

// findByKeys adds the rows that map the thumbprints of an agent's keys to it.
func (w *writer) findByKeys(e *journal.Entry, s *agent.State) {
	keys := append(
		slices.Clone(s.GetFormerKeys()), &agent.FormerKey{Curve: parley.Ed25519, Raw: s.GetSigningKey()},
		&agent.FormerKey{Curve: parley.X25519, Raw: s.GetEncryptionKey()},
	)
	for _, k := range keys {
		kid := parley.Thumbprint(k.GetCurve(), k.GetRaw())
		if w.kids[kid] {
			continue
		}
		w.kids[kid] = true
		e.Effects = append(e.Effects, journal.PutRow{Row: journal.Row{
			Slot: parley.SlotOf(kid), Table: journal.KidTable, Key: []byte(kid), Value: s.AgentID().Bytes(),
		}})
	}
}

// writeStranger writes what stands for an agent of another organization. Its keys are not
// known.
func (w *writer) writeStranger(p *party) error {
	events := []agent.Event{
		&agent.Created{
			Id: p.id.Bytes(), OrgId: p.org.Bytes(), Name: p.name, HumanOversight: true, Unlisted: true,
			IncomingPolicy: agent.AcceptAll, OutgoingPolicy: agent.SendAll, AtMs: p.id.Time().UnixMilli(),
		},
		&agent.Revoked{AtMs: w.Now.UnixMilli()},
	}
	create, err := stream(rules.Agent, rules.AgentStream(p.id), &agent.State{}, events)
	if err != nil {
		return err
	}
	return w.add(&journal.Entry{Slot: p.id.Slot(), At: w.began(), Effects: []journal.Effect{create}})
}

// published returns the events of a card, and numbers the card.
func published(card *record.Card) (events []agent.Event) {
	for _, at := range slices.Compact([]int64{card.CreatedMs, card.UpdatedMs}) {
		events = append(events, &agent.CardPublished{IsPublic: card.IsPublic, A2AEnabled: card.A2AEnabled, AtMs: at})
		card.Revision++
	}
	return events
}

// readCard returns a card as it is stored. What the server adds when it shows a card is
// dropped.
func readCard(shown []byte) (*record.Card, error) {
	members := map[string]jsontext.Value{}
	if err := json.Unmarshal(shown, &members); err != nil {
		return nil, err
	}
	// The extension has the brand of the server as its name: it is the only member of a card
	// with verification words.
	for name, value := range members {
		var words struct {
			Words string `json:"verification_words"`
		}
		if value.Kind() == '{' && json.Unmarshal(value, &words) == nil && words.Words != "" {
			shown = api.Rebrand(shown, name, api.DefaultBrand)
		}
	}
	in, err := decode[api.Card](shown)
	if err != nil {
		return nil, err
	}
	card := &record.Card{
		CreatedMs: in.CreatedAt.UnixMilli(), UpdatedMs: in.CreatedAt.UnixMilli(), IsPublic: in.IsPublic, Name: in.Name,
		Description: orEmpty(in.Description), Version: in.Version, DefaultInputModes: in.DefaultInputModes, DefaultOutputModes: in.DefaultOutputModes,
	}
	if in.UpdatedAt != nil {
		card.UpdatedMs = in.UpdatedAt.UnixMilli()
	}
	if p := in.Provider; p != nil {
		card.Provider = &record.CardProvider{Organization: p.Organization, Url: p.URL}
	}
	if can := in.Capabilities; can != nil {
		card.Capabilities = &record.CardCapabilities{Streaming: can.Streaming, PushNotifications: can.PushNotifications}
	}
	for _, s := range in.Skills {
		card.Skills = append(card.Skills, &record.CardSkill{
			Id: s.ID, Name: s.Name, Description: s.Description, Tags: s.Tags, Examples: s.Examples, InputModes: s.InputModes, OutputModes: s.OutputModes,
		})
	}
	extendCard(card, &in.Extension)
	return card, nil
}

// extendCard sets what the extension of a card says.
func extendCard(card *record.Card, x *api.CardExtension) {
	card.Categories, card.Languages, card.MessageTypesAccepted = x.Categories, x.Languages, x.MessageTypesAccepted
	card.Jurisdiction, card.PricingModel = orEmpty(x.Jurisdiction), orEmpty(x.PricingModel)
	card.A2AEnabled, card.A2AAcceptCleartext = x.A2AEnabled, x.A2AAcceptCleartext
	if x.SLA != nil {
		card.Sla = &record.CardServiceLevel{ResponseTimeP95Ms: x.SLA.ResponseTimeP95Ms, AvailabilityPercent: x.SLA.AvailabilityPercent}
	}
	for _, messageType := range slices.Sorted(maps.Keys(x.PayloadSchemas)) {
		card.PayloadSchemas = append(card.PayloadSchemas, &record.CardSchema{MessageType: messageType, Uri: x.PayloadSchemas[messageType]})
	}
}
