package view

import (
	"time"

	"github.com/go-json-experiment/json"

	"parley/actors/agent"
	"parley/actors/org"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/auth"
)

// Site is where the service is and how it is named, which is part of much that it shows.
type Site struct {
	// BaseURL is the public address, without a trailing slash.
	BaseURL string
	// Domain is the service domain in handles.
	Domain string
	// Brand is the neutral word in header names and message types, in lower case.
	Brand string
	// Since is when the service has had these names: what is made of them may have changed then.
	Since time.Time
}

// Card returns a card as it is shown.
func (s *Site) Card(a *agent.State, o *org.State, stored *record.Card) api.Card {
	card := api.Card{
		ID: a.AgentID(), AgentID: a.AgentID(), CreatedAt: api.At(stored.CreatedAt()), UpdatedAt: new(api.At(stored.UpdatedAt())),
		Name: stored.GetName(), Description: new(stored.GetDescription()), Version: stored.Version,
		DefaultInputModes: stored.GetDefaultInputModes(), DefaultOutputModes: stored.GetDefaultOutputModes(),
		Skills: []api.AgentSkill{}, IsPublic: stored.GetIsPublic(), Extension: s.extensionOf(a, o, stored),
	}
	if p := stored.GetProvider(); p != nil {
		card.Provider = &api.CardProvider{Organization: p.GetOrganization(), URL: p.GetUrl()}
	}
	if can := stored.GetCapabilities(); can != nil {
		card.Capabilities = &api.CardCapabilities{Streaming: can.GetStreaming(), PushNotifications: can.GetPushNotifications()}
	}
	for _, skill := range stored.GetSkills() {
		card.Skills = append(card.Skills, api.AgentSkill{
			ID: skill.GetId(), Name: skill.GetName(), Description: skill.GetDescription(), Tags: skill.GetTags(), Examples: skill.GetExamples(),
			InputModes: skill.GetInputModes(), OutputModes: skill.GetOutputModes(),
		})
	}
	return card
}

// extensionOf returns the extension of a card: what its owner set, and what the service
// adds.
func (s *Site) extensionOf(a *agent.State, o *org.State, stored *record.Card) api.CardExtension {
	handle := s.Handle(a, o)
	x := api.CardExtension{
		AgentID: a.AgentID(), OrgID: a.Owner(), Address: handle, Handle: handle,
		Categories: stored.GetCategories(), Languages: stored.GetLanguages(), Jurisdiction: OrNull(stored.GetJurisdiction()),
		PricingModel: OrNull(stored.GetPricingModel()), Verified: o.GetTrustTier() >= 1, TrustTier: int(o.GetTrustTier()),
		A2AEnabled: stored.GetA2AEnabled(), A2AAcceptCleartext: stored.GetA2AAcceptCleartext(), HumanOversight: a.GetHumanOversight(),
		MessageTypesAccepted: stored.GetMessageTypesAccepted(), PayloadSchemas: map[string]string{},
		VerificationWords: auth.VerificationWords(a.GetSigningKey()),
		SigningKey:        api.NewJWK(parley.Ed25519, a.GetSigningKey()), EncryptionKey: api.NewJWK(parley.X25519, a.GetEncryptionKey()),
	}
	if stored.GetA2AEnabled() {
		x.A2AEndpoint = new(s.BaseURL + "/a2a/" + handle)
	}
	if promised := stored.GetSla(); promised != nil {
		x.SLA = &api.CardServiceLevel{ResponseTimeP95Ms: promised.ResponseTimeP95Ms, AvailabilityPercent: promised.AvailabilityPercent}
	}
	for _, schema := range stored.GetPayloadSchemas() {
		x.PayloadSchemas[schema.GetMessageType()] = schema.GetUri()
	}
	return x
}

// CardChanged returns when a card as it is shown last changed: the card, the agent's keys
// and oversight, the organization's tier, or the addresses that the service is configured
// with.
func (s *Site) CardChanged(a *agent.State, o *org.State, updatedMs int64) time.Time {
	latest := max(updatedMs, o.GetEmailConfirmedMs(), o.GetTierGrantedMs(), o.GetWorkloadRaisedMs(), s.Since.Unix()*1000)
	if at := a.CardChangedAt(); !at.IsZero() {
		latest = max(latest, at.UnixMilli())
	}
	return time.UnixMilli(latest).UTC()
}

// Branded renders a card with the brand as the name of its extension.
func (s *Site) Branded(card api.Card) ([]byte, error) {
	body, err := json.Marshal(card, json.Deterministic(true))
	return api.Rebrand(body, api.DefaultBrand, s.Brand), err
}

// ListedFields returns what the directory says of an agent beyond the members that every card
// has.
func ListedFields(card *api.Card) api.AgentFacts {
	x := &card.Extension
	tags := []string{}
	for i := range card.Skills {
		tags = append(tags, card.Skills[i].Tags...)
	}
	return api.AgentFacts{
		OrgID: x.OrgID, Handle: x.Handle, Categories: x.Categories, Tags: Once(tags), Languages: x.Languages, Jurisdiction: x.Jurisdiction,
		PricingModel: x.PricingModel, MessageTypesAccepted: x.MessageTypesAccepted, Verified: x.Verified, TrustTier: x.TrustTier,
		HumanOversight: x.HumanOversight, A2AEnabled: x.A2AEnabled,
	}
}
