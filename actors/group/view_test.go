package group_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"parley/actors/actorstest"
	"parley/actors/group"
	"parley/client/parley"
)

var viewedAt = time.UnixMilli(1000)

// viewed returns a private group of acme with the members gil of globex, abe and ada, who
// is an admin, and two pending requests, of which the first has expired.
func viewed() *group.State {
	s := &group.State{}
	group.Evolve(s, &group.Founded{Id: parley.GroupID(actorstest.Named("club")).Bytes(), Org: owner("ada").Bytes(), Policy: group.Majority, AtMs: 1})
	for i, name := range []string{"gil", "abe", "ada"} {
		o := &group.Offer{Number: uint32(i + 1), Agent: agent(name).Bytes(), Org: owner(name).Bytes(), Role: group.RoleMember}
		if name == "ada" {
			o.Role = group.Admin
		}
		group.Evolve(s, &group.Offered{Offer: o})
		group.Evolve(s, &group.Seated{Offer: o.GetNumber(), Seat: o.GetNumber(), AtMs: 2})
	}
	for i, name := range []string{"zoe", "gus"} {
		group.Evolve(s, &group.Filed{Request: &group.Request{
			Id: parley.JoinRequestID{15: byte(i + 1)}.Bytes(), Agent: agent(name).Bytes(), Org: owner(name).Bytes(), Status: group.Pending,
			Policy: group.Majority, Mark: 3, Total: 3, Electorate: 3, ExpiresMs: 900 + 1000*int64(i),
		}})
	}
	return s
}

// TestAccess reads a group for each kind of organization with each need, while the group is
// private, public and deleted.
func TestAccess(t *testing.T) {
	const unknown, foreign, gone = "not_found", "not_owner", "gone"
	insider, stranger := owner("gil"), owner("zoe")
	for name, row := range map[string]struct {
		org             parley.OrgID
		public, deleted bool
		has             group.Access
		// answers are those to the needs Stranger, Onlooker and Insider.
		answers [3]string
	}{
		"a member's":                     {insider, false, false, group.Insider, [3]string{}},
		"the owner":                      {owner("ada"), false, false, group.Insider, [3]string{}},
		"a stranger":                     {stranger, false, false, group.Stranger, [3]string{"", unknown, unknown}},
		"a stranger, public":             {stranger, true, false, group.Onlooker, [3]string{"", "", foreign}},
		"nobody, public":                 {parley.OrgID{}, true, false, group.Onlooker, [3]string{"", "", foreign}},
		"a member's, deleted":            {insider, false, true, group.Insider, [3]string{gone, gone, gone}},
		"a stranger, public and deleted": {stranger, true, true, group.Stranger, [3]string{unknown, unknown, unknown}},
	} {
		s := viewed()
		s.Public = row.public
		if row.deleted {
			s.DeletedMs = 5
		}
		v, err := s.View(group.GetView{Viewer: group.Viewer{Caller: group.Caller{Org: row.org}}, Access: true}, viewedAt)
		if err != nil || v.Access != row.has {
			t.Errorf("%s, read by the server itself: access %v, %v", name, v.Access, err)
		}
		for need, want := range row.answers {
			q := group.Viewer{Caller: group.Caller{Org: row.org}, Needs: group.Stranger + group.Access(need)}
			for _, query := range []group.Query{group.GetView{Viewer: q}, group.ListMembers{Viewer: q}, group.ListRequests{Viewer: q}} {
				refusal, code := (*parley.Refusal)(nil), ""
				if _, err := query.Answer(s, viewedAt); errors.As(err, &refusal) {
					code = refusal.Code
				}
				if code != want {
					t.Errorf("%s: %T with need %d: %q, want %q", name, query, q.Needs, code, want)
				}
			}
		}
	}
}

func TestView(t *testing.T) {
	s := viewed()
	v, err := s.View(group.GetView{
		Viewer: group.Viewer{Caller: group.Caller{Org: owner("ada")}}, MemberIDs: true, FirstMembers: true,
		Agents: []parley.AgentID{agent("zoe"), agent("abe")}, Request: parley.JoinRequestID{15: 2},
	}, viewedAt)
	switch {
	case err != nil:
		t.Fatal(err)
	case v.Members != 3 || !slices.Equal(v.MemberIDs, []parley.AgentID{agent("gil"), agent("abe"), agent("ada")}):
		t.Errorf("members: %d, %v", v.Members, v.MemberIDs)
	case !slices.Equal(v.FirstMembers, []parley.AgentID{agent("abe"), agent("ada")}):
		t.Errorf("first members: %v", v.FirstMembers)
	case v.Agents[0].Seated() || !v.Agents[1].Seated() || v.Agents[1].Agent != agent("abe"):
		t.Errorf("agents: %+v", v.Agents)
	case v.Request == nil || v.Request.MayVote || v.Request.MayVoteReason != group.NoActingAgent || v.Request.Expired:
		t.Errorf("request: %+v", v.Request)
	}
	gil := group.Viewer{Caller: group.Caller{Org: owner("gil")}}
	for _, want := range []group.ListMembers{{Viewer: gil}, {Viewer: gil, Limit: 1}, {Viewer: gil, After: 1, Limit: 2}, {Viewer: gil, After: 3, Limit: 2}} {
		all, _ := want.Answer(s, viewedAt)
		members := s.Members()[want.After:]
		if want.Limit > 0 {
			members = members[:min(len(members), want.Limit)]
		}
		if got := all.([]group.Member); !slices.Equal(got, members) || len(got) > 0 && &got[0] == &members[0] {
			t.Errorf("%+v: %v", want, got)
		}
	}
}

func TestListRequests(t *testing.T) {
	s := viewed()
	for name, row := range map[string]struct {
		q    group.ListRequests
		want []byte
	}{
		"live":        {group.ListRequests{}, []byte{2}},
		"all":         {group.ListRequests{Overdue: true}, []byte{1, 2}},
		"a page":      {group.ListRequests{Overdue: true, Limit: 1}, []byte{1}},
		"the next":    {group.ListRequests{Overdue: true, Limit: 1, After: parley.JoinRequestID{15: 1}}, []byte{2}},
		"pending":     {group.ListRequests{Status: group.Pending}, []byte{2}},
		"invitations": {group.ListRequests{Status: group.Invited}, nil},
	} {
		row.q.Viewer.Caller = group.Caller{Org: owner("gil")} // its only member votes
		answer, err := row.q.Answer(s, viewedAt)
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		for _, v := range answer.(group.RequestList).Requests {
			id := v.Request.RequestID()
			got = append(got, id[15])
			if v.Expired != (id[15] == 1) || v.MayVote == v.Expired {
				t.Errorf("%s: %+v", name, v)
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

// TestViewSettled: a settled request is seen alike with and without its group.
func TestViewSettled(t *testing.T) {
	s := viewed()
	for _, status := range []group.Status{group.Approved, group.Denied, group.Expired, group.Accepted, group.Canceled} {
		r := &group.Request{Id: parley.JoinRequestID{1}.Bytes(), Agent: agent("zoe").Bytes(), Status: status, Mark: 3}
		for _, by := range []group.Caller{caller("ada"), caller("zoe"), caller("org:a"), caller("org:g")} {
			if with, without := s.ViewRequest(r, by, viewedAt), group.ViewSettled(r); !reflect.DeepEqual(with, without) {
				t.Errorf("%v, for %v: %+v and %+v", status, by, with, without)
			}
		}
	}
}

// TestFate: an answer about a seat says whether the group still exists.
func TestFate(t *testing.T) {
	s := viewed()
	for _, deletedMs := range []int64{0, 5} {
		s.DeletedMs = deletedMs
		f, err := group.GetFate{Offer: 2}.Answer(s, viewedAt)
		if got := f.(group.Fate); err != nil || !got.Seated || got.Member.Agent != agent("abe") || got.Deleted != (deletedMs != 0) {
			t.Errorf("%+v, %v", got, err)
		}
	}
}
