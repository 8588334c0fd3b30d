package http

import (
	"math"
	"strings"
	"testing"

	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
	"parley/http/rest"
	"parley/http/view"
	"parley/journal"
)

// TestSizeBoundHolds renders the longest message of each kind. The counted size is
// large enough, but not much larger than necessary.
func TestSizeBoundHolds(t *testing.T) {
	h := harnessInMemory(t, 1)
	defer h.close()
	long := h.agent(strings.Repeat("n", parley.AgentNameMax))
	other := parley.IDFromBytes[parley.OrgID](long.Bytes())
	id := parley.Copy(parley.IDFromBytes[parley.MessageID](long.Bytes()), math.MaxUint32>>16)
	stored := func(from, to parley.OrgID, group []byte) *record.Message {
		turn := uint32(math.MaxUint32)
		if group != nil {
			turn = 0
		}
		return &record.Message{
			Id: id.Bytes(), ConversationId: long.Bytes(), From: long.Bytes(), To: long.Bytes(), FromOrg: from.Bytes(), ToOrg: to.Bytes(),
			Type: "svc.v1.dm", Content: storedWith([]byte(`{"c":"` + strings.Repeat("c", 1000) + `"}`)), SelfPayload: strings.Repeat("Q", 2000), Group: group, Recipients: math.MaxUint32, Turn: turn,
		}
	}
	read := journal.Receipts{TransferredAt: 1, ReadAt: 2}
	for what, c := range map[string]struct {
		record *record.Message
		slack  int
	}{
		"sent":      {stored(h.owner, other, nil), 40},
		"received":  {stored(other, h.owner, nil), 40},
		"broadcast": {stored(h.owner, other, long.Bytes()), 520},
		"copy":      {stored(other, h.owner, long.Bytes()), 520},
	} {
		v := view.Viewer{Principal: parley.Principal{Org: h.owner}}
		takes := len(view.AppendMessage(nil, h.service.agents.ToView(t.Context(), query.Message{Record: c.record, Receipts: read}), v))
		if bound := v.SizeBound(c.record); takes > bound || takes+c.slack < bound {
			t.Errorf("%s: takes %d bytes, %d are counted", what, takes, bound)
		}
	}
	if page := len(view.AppendPage(nil, nil, view.Viewer{}, h.service.lists.Cursor("l", math.MaxUint64))); page > rest.PageFrame {
		t.Errorf("an empty page takes %d bytes, %d are counted", page, rest.PageFrame)
	}
}
