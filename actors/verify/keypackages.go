package verify

import (
	"fmt"

	"parley"
	"parley/actors/agent"
	"parley/actors/record"
)

// What an agent's rows about MLS KeyPackages are for.
const (
	keptOnce = iota
	keptAsLastResort
	handedOut
)

// keepsKeyPackages records how many rows of each use an agent must have.
func (x *verifier) keepsKeyPackages(self parley.AgentID, s *agent.State) {
	x.keyPackages.Expect(self.Slot(), uint64(s.GetKeyPackages()), self[:], []byte{keptOnce})
	x.keyPackages.Expect(self.Slot(), uint64(s.GetHandedOut()), self[:], []byte{handedOut})
	if s.GetLastResort() {
		x.keyPackages.Expect(self.Slot(), 1, self[:], []byte{keptAsLastResort})
	}
}

// keyPackageRow checks the row of a KeyPackage. It is never in an outbox: the agent itself
// writes it.
func (x *verifier) keyPackageRow(slot parley.Slot, key, value []byte) {
	k, _ := record.ParseKeyPackageKey(key)
	x.keyPackageContent.Checked++
	x.keyPackageSlot(slot, k.Agent)
	if !k.Of(value) {
		x.keyPackageContent.Fault("agent "+k.Agent.String(), "its KeyPackage of hash %x has other bytes: nobody can use it", k.Hash)
	}
	use := byte(keptOnce)
	if k.LastResort {
		use = keptAsLastResort
	}
	x.keyPackages.Find(slot, 1, key[:16], []byte{use})
}

// handedOutRow checks the row of a KeyPackage that was claimed.
func (x *verifier) handedOutRow(slot parley.Slot, key []byte) {
	x.keyPackageContent.Checked++
	x.keyPackageSlot(slot, parley.IDFromBytes[parley.AgentID](key[:16]))
	x.keyPackages.Find(slot, 1, key[:16], []byte{handedOut})
}

func (x *verifier) keyPackageSlot(slot parley.Slot, of parley.AgentID) {
	if slot != of.Slot() {
		x.keyPackageContent.Fault("agent "+of.String(), "a row about its KeyPackages is in slot %d, where nobody looks for it", slot)
	}
}

// keyPackageMember names a member of the multiset of KeyPackages.
func keyPackageMember(m []byte) string {
	return fmt.Sprintf("%s of agent %s", [...]string{"KeyPackage", "KeyPackage of last resort", "claimed KeyPackage"}[m[16]], idText(m[:16]))
}
