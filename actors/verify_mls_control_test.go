package actors

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"parley/actors/encoding"
	"parley/actors/group"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

// isMLSEntry matches feed entries of events of MLS groups that have a kind.
func isMLSEntry(kind byte) func(k, v []byte) bool {
	return func(k, v []byte) bool { return isGroupEntry(k, v) && v[25] == kind }
}

// isMemberRow matches the rows of agents in journal.MLSMemberTable, isCountRow the counts.
func isMemberRow(k, v []byte) bool { return ofTable(journal.MLSMemberTable)(k, v) && len(k) == 4+32 }

func isCountRow(k, v []byte) bool { return ofTable(journal.MLSMemberTable)(k, v) && len(k) == 4+24 }

// alterMLS changes the first row of a table.
func alterMLS[M any, P interface {
	*M
	proto.Message
}](x *tamperer, fits func(k, v []byte) bool, change func(P)) {
	x.alter('R', fits, func(v []byte) []byte {
		m := P(new(M))
		if err := encoding.Unmarshal(v, m); err != nil {
			x.t.Fatal(err)
		}
		change(m)
		b, err := encoding.Marshal(m)
		if err != nil {
			x.t.Fatal(err)
		}
		return b
	})
}

// rewriteCommit changes the first commit that matches, as the log has it.
func rewriteCommit(x *tamperer, fits func(*group.Committed) bool, change func(*group.Committed)) {
	rewriteEvent(x, journal.GroupStream, rules.Group, func(e group.Event) bool {
		c, ok := e.(*group.Committed)
		return ok && fits(c)
	}, func(e group.Event) { change(e.(*group.Committed)) })
}

// mlsControls plant faults in the data of MLS groups.
var mlsControls = map[string]tamperCase{
	"a commit is gone": {func(x *tamperer) { x.dropFirst('R', ofTable(journal.MLSCommitTable)) }, []string{"mls-commit-rows"}, false},
	"a commit is another": {func(x *tamperer) {
		alterMLS(x, ofTable(journal.MLSCommitTable), func(c *record.MLSCommit) { c.Commit[0] ^= 1 })
	}, []string{"mls-commit-rows"}, false},
	"a commit is by another": {func(x *tamperer) {
		alterMLS(x, ofTable(journal.MLSCommitTable), func(c *record.MLSCommit) { c.CommittedBy = nobody[:] })
	}, []string{"mls-commit-rows"}, false},
	"a commit is of later": {func(x *tamperer) {
		alterMLS(x, ofTable(journal.MLSCommitTable), func(c *record.MLSCommit) { c.CreatedMs++ })
	}, []string{"mls-commit-rows"}, false},
	"a GroupInfo is gone": {func(x *tamperer) { x.dropFirst('R', ofTable(journal.MLSGroupInfoTable)) }, []string{"mls-group-info-rows"}, false},
	"a GroupInfo is an earlier": {func(x *tamperer) {
		alterMLS(x, ofTable(journal.MLSGroupInfoTable), func(i *record.MLSGroupInfo) { i.Epoch-- })
	}, []string{"mls-group-info-rows"}, false},
	"a GroupInfo is another": {func(x *tamperer) {
		alterMLS(x, ofTable(journal.MLSGroupInfoTable), func(i *record.MLSGroupInfo) { i.GroupInfo[0] ^= 1 })
	}, []string{"mls-group-info-rows"}, false},
	"a Welcome is gone": {func(x *tamperer) { x.dropFirst('R', ofTable(journal.MLSWelcomeTable)) }, []string{"mls-welcome-rows"}, false},
	"a Welcome is another": {
		func(x *tamperer) {
			alterMLS(x, ofTable(journal.MLSWelcomeTable), func(w *record.MLSWelcome) { w.Welcome[0] ^= 1 })
		},
		[]string{"group-history"},
		false,
	},
	"a Welcome that nobody awaits": {func(x *tamperer) {
		k, v := x.find('R', ofTable(journal.MLSWelcomeTable))
		x.set(append(k[:len(k)-8:len(k)-8], bigEndian(77)...), v)
	}, []string{"mls-welcome-rows"}, false},
	"a Welcome is counted too often": {func(x *tamperer) { x.alter('R', isCountRow, flipLast) }, []string{"mls-welcome-counts"}, false},
	"nobody counts a Welcome":        {func(x *tamperer) { x.dropFirst('R', isCountRow) }, []string{"mls-welcome-counts", "mls-welcome-rows"}, false},
	"who was removed does not know it": {func(x *tamperer) {
		alterMLS(x, func(k, v []byte) bool { return isMemberRow(k, v) && removedIn(v) }, func(m *record.MLSMember) { m.RemovedMs = 0 })
	}, []string{"mls-removal-rows"}, false},
	"who was removed sees more": {func(x *tamperer) {
		alterMLS(x, func(k, v []byte) bool { return isMemberRow(k, v) && removedIn(v) }, func(m *record.MLSMember) { m.RemovedIn++ })
	}, []string{"mls-removal-rows"}, false},
	"a row that nobody reads": {func(x *tamperer) {
		k, v := x.find('R', isCountRow)
		x.set(k[:len(k)-1], v)
	}, []string{"tables"}, false},
	"a commit in another epoch": {func(x *tamperer) {
		rewriteCommit(x, func(c *group.Committed) bool { return c.GetEpoch() == 1 }, func(c *group.Committed) { c.Epoch = 5 })
	}, []string{"group-history"}, true},
	"a commit by an empty seat": {func(x *tamperer) {
		rewriteCommit(x, func(c *group.Committed) bool { return c.GetEpoch() == 1 }, func(c *group.Committed) { c.By = 77 })
	}, []string{"group-history"}, true},
	"a commit of another suite": {func(x *tamperer) {
		rewriteCommit(x, func(c *group.Committed) bool { return c.GetEpoch() == 1 }, func(c *group.Committed) { c.CipherSuite = 2 })
	}, []string{"group-history"}, true},
	"a commit adds who has a leaf": {func(x *tamperer) {
		rewriteCommit(x, func(c *group.Committed) bool { return c.GetEpoch() == 1 }, func(c *group.Committed) { c.Added = []uint32{1} })
	}, []string{"group-history"}, true},
	"a commit removes an empty seat": {func(x *tamperer) {
		rewriteCommit(x, func(c *group.Committed) bool { return c.GetEpoch() == 1 }, func(c *group.Committed) { c.Removed = []uint32{77} })
	}, []string{"group-history"}, true},
	"a member was not notified about a commit":     {func(x *tamperer) { x.dropFirst('N', isMLSEntry(record.MLSCommitted)) }, []string{"group-news"}, false},
	"a member was not notified about a Welcome":    {func(x *tamperer) { x.dropFirst('N', isMLSEntry(record.MLSWelcomed)) }, []string{"group-news"}, false},
	"nobody was notified who awaits a leaf":        {func(x *tamperer) { x.dropFirst('N', isMLSEntry(record.MLSAdmission)) }, []string{"group-news"}, false},
	"nobody was notified about a leaf left behind": {func(x *tamperer) { x.dropFirst('N', isMLSEntry(record.MLSRemoval)) }, []string{"group-news"}, false},
	"a pending member got a broadcast": {func(x *tamperer) {
		x.alter('C', func(_, v []byte) bool { return bytes.HasSuffix(v, x.agents[2][:]) }, func(v []byte) []byte {
			return append(v[:len(v)-20], append([]byte{0, 0, 0, 4}, x.agents[3][:]...)...)
		})
	}, []string{"broadcast-readers"}, true},
}

func removedIn(v []byte) bool {
	m := &record.MLSMember{}
	return encoding.Unmarshal(v, m) == nil && m.GetRemovedMs() != 0
}

// TestVerifyMLSControls plants one fault at a time in the data of an MLS group.
func TestVerifyMLSControls(t *testing.T) {
	skipUnderRace(t)
	w := &fullStore{manual: newManualClock(noon), testNode: newTestNode(t, inTheClear)}
	w.owner, w.agents = w.testNode.agents("acme", 5)
	c := must(w.createGroup(w.owner, w.agents[0], "board", group.Open, false))(t)
	for _, a := range w.agents[1:] {
		must(c.join(a))(t)
	}
	c.mustCommit(w.agents[0], w.agents[1:3], nil)
	for _, from := range w.agents[:2] {
		if err := c.tell(from, "sealed", 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.remove(w.agents[2], w.agents[2]); err != nil {
		t.Fatal(err)
	}
	c.mustCommit(w.agents[1], nil, w.agents[2:3])
	c.mustCommit(w.agents[0], nil, w.agents[4:5])
	w.close()
	heard := map[string]bool{}
	whole := plantAll(t, w, mlsControls, heard) == len(mlsControls)
	for _, c := range w.tampered(t, func(*tamperer) {}).Checks() {
		if whole && isMLSCheck(c.Name) && !heard[c.Name] {
			t.Errorf("no control makes check %q report", c.Name)
		}
	}
}

// isMLSCheck reports whether a check examines only data of MLS groups.
func isMLSCheck(name string) bool { return strings.HasPrefix(name, "mls-") }
