package projection

import (
	"bytes"
	"encoding/gob"
	"fmt"

	"parley/actors/directory"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// versions are the versions of what the index was read from.
type versions struct {
	// orgs are organizations that have, or had, cards in the index, and hidden the agents whose
	// cards are stored and not in the index.
	orgs   map[parley.OrgID]*orgCards
	hidden map[parley.AgentID]uint64
}

// orgCards are the cards of an organization in the index, the tier that they have, and the
// version of the organization that has this tier.
type orgCards struct {
	tier    int32
	version uint64
	agents  map[parley.AgentID]struct{}
}

func noVersions() versions {
	return versions{orgs: map[parley.OrgID]*orgCards{}, hidden: map[parley.AgentID]uint64{}}
}

// hide notes that an agent is not in the index, and in which version, if a card of it is
// stored.
func (v versions) hide(in journal.View, id parley.AgentID, stored bool) error {
	delete(v.hidden, id)
	if !stored {
		return nil
	}
	version, err := in.Version(rules.AgentStream(id))
	if err == nil {
		v.hidden[id] = version
	}
	return err
}

// savedVersions are the versions as a checkpoint has them beside the cards: ids and numbers only.
type savedVersions struct {
	Orgs   map[string]savedOrg // by the bytes of their ids, which gob writes as they are
	Hidden map[string]uint64
}

type savedOrg struct {
	Tier    int32
	Version uint64
}

// encode returns the versions of organizations with cards, and of at most hiddenMax agents whose
// cards are not shown.
func (v versions) encode() []byte {
	saved := savedVersions{map[string]savedOrg{}, map[string]uint64{}}
	for id, owner := range v.orgs {
		if len(owner.agents) > 0 {
			saved.Orgs[string(id[:])] = savedOrg{owner.tier, owner.version}
		}
	}
	for id, version := range v.hidden {
		if len(saved.Hidden) == hiddenMax {
			break
		}
		saved.Hidden[string(id[:])] = version
	}
	var b bytes.Buffer
	_ = gob.NewEncoder(&b).Encode(saved) // no field of it can fail
	return b.Bytes()
}

// decodeVersions is the reverse of encode.
func decodeVersions(b []byte) (versions, error) {
	var saved savedVersions
	v := noVersions()
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(&saved); err != nil {
		return v, fmt.Errorf("%w: %w", directory.ErrCheckpoint, err)
	}
	for id, owner := range saved.Orgs {
		v.orgs[parley.IDFromBytes[parley.OrgID]([]byte(id))] = &orgCards{tier: owner.Tier, version: owner.Version, agents: map[parley.AgentID]struct{}{}}
	}
	for id, version := range saved.Hidden {
		v.hidden[parley.IDFromBytes[parley.AgentID]([]byte(id))] = version
	}
	return v, nil
}
