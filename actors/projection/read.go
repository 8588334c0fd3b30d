package projection

import (
	"errors"
	"time"

	"parley/actors/agent"
	"parley/actors/directory"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// readAgent puts an agent's card into the index, or removes it.
func (d *Directory) readAgent(v journal.View, id parley.AgentID) error {
	doc, stored, err := docOf(v, id)
	if err != nil && !parley.IsRefusal(err) {
		return err
	}
	if doc == nil { // no card that the directory may show, or its organization was erased
		d.remove(id)
		return d.versions.hide(v, id, stored)
	}
	owner := d.orgs[doc.OrgID]
	if owner == nil {
		o, version, err := orgOf(v, doc.OrgID)
		if err != nil {
			return err
		}
		owner = &orgCards{tier: o.GetTrustTier(), version: version, agents: map[parley.AgentID]struct{}{}}
		d.orgs[doc.OrgID] = owner
	}
	delete(d.hidden, id)
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
// one. stored says that there is a card, or was one before its organization was erased.
//
// Every change of a card comes with an event of its agent, so the version of the agent is
// that of the card.
func docOf(v journal.View, id parley.AgentID) (doc *directory.Doc, stored bool, err error) {
	value, found, err := v.Row(id.Slot(), journal.CardTable, id[:])
	if err != nil || !found {
		return nil, errors.Is(err, journal.ErrErased), err
	}
	card := &record.Card{}
	if err := card.UnmarshalVT(value); err != nil {
		return nil, true, err
	}
	a := &agent.State{}
	if _, _, err := rules.Agent.Load(rules.StoredIn(v), rules.AgentStream(id), a); err != nil {
		return nil, true, err
	}
	if !card.GetIsPublic() || !a.Exists() || a.Revoked() || a.GetUnlisted() {
		return nil, true, nil
	}
	version, err := v.Version(rules.AgentStream(id))
	if err != nil {
		return nil, true, err
	}
	doc = &directory.Doc{
		AgentID: id, OrgID: a.Owner(), Name: card.GetName(), Description: card.GetDescription(), Categories: card.GetCategories(), Languages: card.GetLanguages(),
		Jurisdiction: card.GetJurisdiction(), PricingModel: card.GetPricingModel(), MessageTypes: card.GetMessageTypesAccepted(),
		Created: card.CreatedAt(), Updated: card.UpdatedAt(), Version: version,
	}
	for _, s := range card.GetSkills() {
		doc.Skills = append(doc.Skills, directory.Skill{Name: s.GetName(), Description: s.GetDescription(), Tags: s.GetTags()})
	}
	return doc, true, nil
}

func orgOf(v journal.View, id parley.OrgID) (o *org.State, version uint64, err error) {
	o = &org.State{}
	if _, _, err = rules.Org.Load(rules.StoredIn(v), rules.OrgStream(id), o); err == nil {
		version, err = v.Version(rules.OrgStream(id))
	}
	return o, version, err
}

// readOrg has the cards of an organization read again if its tier has changed.
func (d *Directory) readOrg(v journal.View, id parley.OrgID) error {
	owner := d.orgs[id]
	if owner == nil {
		return nil
	}
	o, version, err := orgOf(v, id)
	if err != nil {
		return err
	}
	owner.version = version
	if o.GetTrustTier() == owner.tier {
		return nil
	}
	owner.tier = o.GetTrustTier()
	for a := range owner.agents {
		d.changed.add(change{journal.AgentStream, parley.AnyID(a)})
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
	owner, _, err := orgOf(v, g.Owner())
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
