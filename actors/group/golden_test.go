package group_test

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"parley/actors/actorstest"
	"parley/actors/encoding"
	"parley/actors/group"
	"parley/client/parley"
)

// goldenRequest returns a request with every field set.
func goldenRequest() *group.Request {
	at := actorstest.Epoch.UnixMilli()
	return &group.Request{
		Id: idOf("request"), Agent: idOf("gil"), Org: idOf("globex"), Status: group.Pending, Policy: group.Unanimity,
		Message: "hello", InvitedBy: idOf("ada"), Consented: true, CreatedMs: at, ExpiresMs: at + 2, ResolvedMs: at + 1,
		Mark: 7, Total: 6, Electorate: 5, Approvals: 1, Denials: 1, Reason: group.ReasonFull, Silent: true,
	}
}

func goldenOffer() *group.Offer {
	return &group.Offer{
		Number: 9, Agent: idOf("gus"), Org: idOf("globex"), Role: group.RoleMember, Request: idOf("request"), Asked: true,
	}
}

func goldenSnapshot() *group.Snapshot {
	at := actorstest.Epoch.UnixMilli()
	return &group.Snapshot{
		Id: idOf("club"), Org: idOf("acme"), Name: "club", Description: "a club", Policy: group.Majority,
		Public: true, Isolated: true, VoteHours: 72, CreatedMs: at, DeletedMs: at + 3, LastSeat: 8,
		Seats: []*group.Seat{
			{Number: 1, Agent: idOf("ada"), Org: idOf("acme"), Role: group.Admin, JoinedMs: at, Offer: 1, Leaf: true},
			{Number: 7, Agent: idOf("abe"), Org: idOf("acme"), Role: group.RoleMember, JoinedMs: at + 1, Offer: 8, Leaf: true},
		},
		Offers: []*group.Offer{goldenOffer()}, Requests: []*group.Request{goldenRequest()},
		Ballots: []*group.Ballot{{
			Request: idOf("request"), Votes: []*group.Vote{{Seat: 1, Approve: true}},
		}},
		LastRequestId: idOf("request"), LastOffer: 9, Conversation: idOf("conversation"),
		Declined: []*group.Declined{{Offer: 7, Reason: group.ReasonIsolation}},
		Epoch:    300, CipherSuite: 1, Leaves: []*group.Leaf{{Seat: 6, Agent: idOf("gus")}},
		FilingDay: 20000, Filings: []*group.Filings{{Agent: idOf("gil"), Count: 3}},
	}
}

func idOf(name string) []byte { return parley.AnyID(actorstest.Named(name)).Bytes() }

func digest(of string) []byte {
	d := sha256.Sum256([]byte(of))
	return d[:]
}

func TestGolden(t *testing.T) {
	at, request := actorstest.Epoch.UnixMilli(), idOf("request")
	policy, hours := group.Open, int32(24)
	settled := goldenRequest()
	settled.Status = group.Canceled
	actorstest.Golden(
		t, "testdata/events.golden",
		actorstest.Rules[*group.Snapshot, group.Command, group.Event]{
			Zero: func() *group.Snapshot { return &group.Snapshot{} }, Tag: group.Tag, New: group.New,
		},
		goldenSnapshot(),
		[]group.Event{
			&group.Founded{
				Id: idOf("club"), Org: idOf("acme"), Name: "club", Description: "a club", Policy: group.Closed,
				Public: true, Isolated: true, VoteHours: 72, AtMs: at,
			},
			&group.Changed{Description: proto.String(""), Policy: &policy, Public: proto.Bool(false), VoteHours: &hours, AtMs: at},
			&group.Filed{Request: goldenRequest(), Counted: true},
			&group.Consented{Request: request, AtMs: at},
			&group.Voted{Request: request, Seat: 7, Approve: true, AtMs: at},
			&group.Carried{Request: request, ExpiresMs: at + 2, AtMs: at},
			&group.Offered{Offer: goldenOffer(), AtMs: at},
			&group.Seated{Offer: 9, Seat: 8, AtMs: at},
			&group.Withdrawn{Offer: 9, Reason: group.ReasonIsolation, AtMs: at},
			&group.Resolved{Request: settled, Told: idOf("ada")},
			&group.Left{Seat: 7, How: group.Departure_kicked, By: idOf("ada"), AtMs: at},
			&group.RoleChanged{Seat: 7, Role: group.Admin, AtMs: at},
			&group.Deleted{By: idOf("ada"), AtMs: at},
			&group.Convened{Conversation: idOf("conversation"), By: idOf("ada"), AtMs: at},
			&group.Committed{
				Epoch: 299, By: 1, Added: []uint32{7, 300}, Removed: []uint32{2}, CipherSuite: 1, Commit: digest("commit"),
				GroupInfo: digest("group info"), Welcome: digest("welcome"), AtMs: at,
			},
		},
	)
}

// TestSnapshotIsWhole: a state restored from a snapshot gives the same snapshot, byte
// for byte. A field that the state drops is found.
func TestSnapshotIsWhole(t *testing.T) {
	for _, empty := range []string{"", "ballots", "offers", "last_request_id", "last_offer", "last_seat", "conversation", "declined", "epoch", "cipher_suite", "leaves", "filing_day", "filings"} {
		want, err := encoding.Marshal(goldenSnapshot())
		if err != nil {
			t.Fatal(err)
		}
		held := goldenSnapshot().ProtoReflect()
		if f := held.Descriptor().Fields(); empty != "" {
			held.Clear(f.ByName(protoreflect.Name(empty)))
		}
		poorer, err := encoding.Marshal(held.Interface())
		if err != nil {
			t.Fatal(err)
		}
		s := &group.State{}
		if err := encoding.Unmarshal(poorer, s); err != nil {
			t.Fatal(err)
		}
		got, err := encoding.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if whole := bytes.Equal(got, want); whole != (empty == "") {
			t.Errorf("without %q: snapshot complete: %v", empty, whole)
		}
	}
}
