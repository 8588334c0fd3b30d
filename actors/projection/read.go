package projection

import (
	"time"

	"parley"
	"parley/actors/agent"
	"parley/actors/directory"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

// readAgent puts an agent's card into the index, or removes it.
func (d *Directory) readAgent(v journal.View, id parley.AgentID) error {
	doc, err := d.docOf(v, id)
	if err != nil && !parley.IsRefusal(err) {
		return err
	}
	if doc == nil { // no card that the directory may show, or its organization was erased
		d.remove(id)
		return nil
	}
	owner := d.orgs[doc.OrgID]
	if owner == nil {
		o, err := orgOf(v, doc.OrgID)
		if err != nil {
			return err
		}
		owner = &orgCards{tier: o.GetTrustTier(), agents: map[parley.AgentID]struct{}{}}
		d.orgs[doc.OrgID] = owner
	}
	owner.agents[id], d.owners[id] = struct{}{}, doc.OrgID
	doc.Verified = owner.tier >= 1
	return d.agents.Put(*doc, nil)
}

func (d *Directory) remove(id parley.AgentID) {
	if !d.agents.Remove(id) {
		return
	}
	owner := d.orgs[d.owners[id]]
	delete(d.owners, id)
	delete(owner.agents, id)
}

// docOf returns an agent's card as the index has it; nil if the directory must not show
// one.
func (d *Directory) docOf(v journal.View, id parley.AgentID) (*directory.Doc, error) {
	value, found, err := v.Row(id.Slot(), journal.CardTable, id[:])
	if err != nil || !found {
		return nil, err
	}
	card := &record.Card{}
	if err := card.UnmarshalVT(value); err != nil {
		return nil, err
	}
	a := &agent.State{}
	if _, _, err := rules.Agent.Load(v, rules.AgentStream(id), a); err != nil {
		return nil, err
	}
	if !card.GetIsPublic() || !a.Exists() || a.Revoked() || a.GetUnlisted() {
		return nil, nil
	}
	doc := &directory.Doc{
		AgentID: id, OrgID: a.Owner(), Name: card.GetName(), Description: card.GetDescription(), Categories: card.GetCategories(), Languages: card.GetLanguages(),
		Jurisdiction: card.GetJurisdiction(), PricingModel: card.GetPricingModel(), MessageTypes: card.GetMessageTypesAccepted(),
		Created: card.CreatedAt(), Updated: card.UpdatedAt(),
	}
	for _, s := range card.GetSkills() {
		doc.Skills = append(doc.Skills, directory.Skill{Name: s.GetName(), Description: s.GetDescription(), Tags: s.GetTags()})
	}
	return doc, nil
}

func orgOf(v journal.View, id parley.OrgID) (*org.State, error) {
	o := &org.State{}
	_, _, err := rules.Org.Load(v, rules.OrgStream(id), o)
	return o, err
}

// readOrg has the cards of an organization read again if its tier has changed.
func (d *Directory) readOrg(v journal.View, id parley.OrgID) error {
	owner := d.orgs[id]
	if owner == nil {
		return nil
	}
	o, err := orgOf(v, id)
	if err != nil || o.GetTrustTier() == owner.tier {
		return err
	}
	owner.tier = o.GetTrustTier()
	for a := range owner.agents {
		d.noteAll(change{journal.AgentStream, parley.AnyID(a)})
	}
	return nil
}

// readGroup puts a public group into the index, or removes it.
func (d *Directory) readGroup(v journal.View, id parley.GroupID) error {
	value, found, err := v.Row(journal.DirectorySlot, journal.PublicTable, id[:])
	if err != nil && !parley.IsRefusal(err) {
		return err
	}
	if err != nil || !found {
		d.groups.Remove(id)
		return nil
	}
	g := &record.PublicGroup{}
	if err := g.UnmarshalVT(value); err != nil {
		return err
	}
	owner, err := orgOf(v, g.Owner())
	if err != nil {
		return err
	}
	at := time.UnixMilli(g.GetCreatedMs()).UTC()
	d.groups.Put(directory.GroupDoc{
		GroupID: id, OrgID: g.Owner(), Name: g.GetName(), Description: g.GetDescription(), Created: at, Updated: at,
		Handle: parley.Handle{Group: true, Name: g.GetName(), Slug: owner.GetSlug(), Domain: d.o.Domain}.String(),
	})
	return nil
}
