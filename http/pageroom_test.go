package http

import (
	"math"
	"strings"
	"testing"

	"parley"
	"parley/actors"
	"parley/journal"
)

// TestSizeBoundHolds renders the longest message of each kind: what is counted for
// it is enough, and not much more than it takes.
func TestSizeBoundHolds(t *testing.T) {
	h := hallInMemory(t, 1)
	defer h.close()
	long := h.agent(strings.Repeat("n", parley.AgentNameMax))
	other := parley.IDFromBytes[parley.OrgID](long.Bytes())
	id := parley.Copy(parley.IDFromBytes[parley.MessageID](long.Bytes()), math.MaxUint32>>16)
	record := func(from, to parley.OrgID, group []byte) *actors.Record {
		return &actors.Record{
			Id: id.Bytes(), ConversationId: long.Bytes(), From: long.Bytes(), To: long.Bytes(), FromOrg: from.Bytes(), ToOrg: to.Bytes(),
			Content: []byte(`"c":"` + strings.Repeat("c", 1000) + `"`), SelfPayload: strings.Repeat("Q", 2000), Group: group, Recipients: math.MaxUint32,
		}
	}
	read := journal.Receipts{TransferredAt: 1, ReadAt: 2}
	for what, c := range map[string]struct {
		record *actors.Record
		slack  int
	}{
		"sent":      {record(h.owner, other, nil), 40},
		"received":  {record(other, h.owner, nil), 40},
		"broadcast": {record(h.owner, other, long.Bytes()), 460},
		"copy":      {record(other, h.owner, long.Bytes()), 460},
	} {
		v := viewer{org: h.owner, service: h.service}
		takes := len(appendMessage(nil, actors.Message{Record: c.record, Marks: read}, v))
		if bound := v.sizeBound(c.record); takes > bound || takes+c.slack < bound {
			t.Errorf("%s: takes %d bytes, %d are counted", what, takes, bound)
		}
	}
	if page := len(appendPage(nil, nil, viewer{}, h.service.cursor("l", math.MaxUint64))); page > pageFrame {
		t.Errorf("an empty page takes %d bytes, %d are counted", page, pageFrame)
	}
}
