package verify

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"parley"
	"parley/actors/agent"
	"parley/actors/keylog"
	"parley/actors/org"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
	"parley/journal/report"
)

// keyLogMultisets compare agents, the key log and the rows of its tree.
type keyLogMultisets struct {
	// leaves are the entries of agents, trees the stored hashes, places the numbers of
	// leaves.
	leaves, trees, places *report.Multiset
}

func openKeyLog(open opener) keyLogMultisets {
	return keyLogMultisets{
		leaves: open("key-log", "each event about an agent's keys is in the key log once, and nothing else is",
			"an event about keys is not in the key log", "the key log has a leaf that no agent's event made, or has it twice", leafMember),
		trees: open("key-log-hashes", "the stored hashes of the key log are those of its leaves",
			"hashes of the tree are missing or differ: proofs fail", "hashes of a leaf that the key log does not have", func(m []byte) string {
				return fmt.Sprintf("leaf %d", binary.BigEndian.Uint64(m))
			}),
		places: open("key-log-places", "each leaf of the key log is found by what it is",
			"the leaf is not found: its entry counts as not logged yet", "a number of a leaf that is not there", leafMember),
	}
}

// leafSlot spreads leaves, so that a second reading has to keep few of them.
func leafSlot(leaf []byte) parley.Slot {
	if len(leaf) < 2 {
		return 0 // a damaged one
	}
	return parley.Slot(binary.BigEndian.Uint16(leaf)) % parley.Slots
}

func leafMember(m []byte) string { return fmt.Sprintf("leaf %x", m) }

// replayKeyLog replays the key log.
func (x *verifier) replayKeyLog(s journal.Stream) streamReplay {
	t := &aggregateReplay[*keylog.State, keylog.Command, keylog.Event]{
		rules: rules.KeyLog, state: &keylog.State{}, blank: func() *keylog.State { return &keylog.State{} },
	}
	t.judge = func(_ uint64, e keylog.Event) error {
		switch e := e.(type) {
		case *keylog.Appended:
			for i, row := range keylog.Stored(t.state, e.GetLeaves()) {
				leaf, number := e.Leaves[i], big(t.state.GetSize()+uint64(i))
				x.keyLog.leaves.Find(leafSlot(leaf), 1, leaf)
				x.keyLog.trees.Expect(s.Slot(), 1, number, row)
				x.keyLog.places.Expect(leafSlot(leaf), 1, leaf, number)
			}
		}
		return nil
	}
	t.end = func() error {
		if s != rules.KeyLogStream {
			x.begin.Fault(record.StreamName(s), "there is one key log, and this is another")
		}
		return nil
	}
	return t
}

// keyEvent checks an event of an agent that is in the key log. The agent's state is the one
// before the event.
func (x *verifier) keyEvent(self parley.AgentID, s *agent.State, e agent.Event) error {
	owner, name := s.Owner(), s.GetName()
	if created, ok := e.(*agent.Created); ok {
		owner, name = parley.IDFromBytes[parley.OrgID](created.GetOrgId()), created.GetName()
	}
	if _, logged := agent.KeyLogEntry(self, "", e); !logged {
		return nil
	}
	slug, err := x.slugOf(owner)
	if err != nil {
		return err
	}
	entry, _ := agent.KeyLogEntry(self, name+"@"+slug, e)
	leaf := entry.Commitment()
	x.keyLog.leaves.Expect(leafSlot(leaf[:]), 1, leaf[:])
	x.keyLeaves.Checked++
	if entry.Number != s.GetKeyLeaves() {
		x.keyLeaves.Fault("agent "+self.String(), "its entry %d of the key log is numbered %d", s.GetKeyLeaves(), entry.Number)
	}
	return nil
}

// keysLogged checks that an entry says which keys were in force after the event.
func (x *verifier) keysLogged(self parley.AgentID, after *agent.State, e agent.Event) {
	entry, logged := agent.KeyLogEntry(self, "", e)
	if !logged {
		return
	}
	pq := ""
	if k := after.GetPqKey(); k != nil {
		pq = parley.AKPThumbprint(k.GetAlgorithm(), k.GetRaw())
	}
	signing, encryption := parley.Thumbprint(parley.Ed25519, after.GetSigningKey()), parley.Thumbprint(parley.X25519, after.GetEncryptionKey())
	if entry.SigningKid != signing || entry.EncryptionKid != encryption || entry.PQKid != pq || bytes.Equal(entry.Salt[:], make([]byte, len(entry.Salt))) {
		x.keyLeaves.Fault("agent "+self.String(), "its entry %d of the key log names other keys than it had, or has no salt", entry.Number)
	}
}

// slugOf returns the slug of an organization.
func (x *verifier) slugOf(id parley.OrgID) (string, error) {
	if slug, ok := x.slugTexts[id]; ok {
		return slug, nil
	}
	_, stored, err := x.State(rules.OrgStream(id))
	if err != nil || stored == nil {
		return "", err
	}
	o := &org.State{}
	if err := o.UnmarshalVT(stored); err != nil {
		return "", err
	}
	if len(x.slugTexts) >= ownersMax {
		clear(x.slugTexts)
	}
	x.slugTexts[id] = o.GetSlug()
	return o.GetSlug(), nil
}

// inKeyLogSlot checks the slot of a row of the key log.
func (x *verifier) inKeyLogSlot(slot parley.Slot, key []byte) {
	x.keyLeaves.Checked++
	if slot != rules.KeyLogStream.Slot() {
		x.keyLeaves.Fault(fmt.Sprintf("slot %d, key %x", slot, key), "a row of the key log lies where nobody looks for it")
	}
}
