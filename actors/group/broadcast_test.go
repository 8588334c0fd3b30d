package group_test

import (
	"strings"
	"testing"

	"parley/actors/actorstest"
	"parley/actors/group"
)

// BenchmarkSend decides a broadcast to 10,000 members and lists its recipients.
func BenchmarkSend(b *testing.B) {
	s := groupOf(10_000)
	do(b, s, group.Send{From: nth(1), Conversation: after(s.Conversation)})
	b.ReportAllocs()
	for b.Loop() {
		send(b, s)
	}
}

// send decides a broadcast in the group's current conversation.
func send(tb testing.TB, s *group.State) {
	from := s.Members()[len(s.Members())/2].Agent
	events, err := group.Decide(s, group.Send{From: from}, actorstest.Epoch)
	if to := s.Recipients(from); err != nil || len(events) > 0 || len(to) != len(s.Members())-1 {
		tb.Fatalf("%d of %d receive it; %v, %v", len(to), len(s.Members()), events, err)
	}
}

// sendAllocations bounds the allocations of deciding a broadcast: the list of
// recipients.
const sendAllocations = 1

func TestAllocationsOfSend(t *testing.T) {
	for _, members := range []int{100, 10_000} {
		s := groupOf(members)
		do(t, s, group.Send{From: nth(1), Conversation: after(s.Conversation)})
		if got := testing.AllocsPerRun(100, func() { send(t, s) }); got > sendAllocations {
			t.Errorf("%d members: %v allocations for a broadcast, %d allowed", members, got, sendAllocations)
		}
	}
}

// TestDeclinedKept: a group remembers why the latest offered seats were not taken, up
// to a maximum number, also after a snapshot.
func TestDeclinedKept(t *testing.T) {
	const beyond = 6
	s := groupOf(2)
	first := s.LastOffer + 1
	for range group.DeclinedKept + beyond {
		do(t, s, group.Invite{
			RequestID: nextRequest(s), By: group.Caller{Agent: nth(1)}, Agent: agent("bea"), Org: owner("bea"), Known: true, Founding: true,
		})
		do(t, s, group.Join{Agent: agent("bea"), Org: owner("bea")})
		do(t, s, group.Answer{Offer: s.LastOffer, Refusal: group.ReasonIsolation})
		do(t, s, group.Forget{Agent: agent("bea")})
	}
	for _, s := range []*group.State{s, reshaped(s, func(*group.Snapshot) {})} {
		for offer := first; offer <= s.LastOffer; offer++ {
			want := group.ReasonIsolation
			if offer < first+beyond {
				want = ""
			}
			if _, seated, reason, kept := s.Fate(offer); seated || kept || reason != want {
				t.Errorf("offer %d of %d to %d: seated %v, kept %v, %q", offer, first, s.LastOffer, seated, kept, reason)
			}
		}
	}
}

// TestWellToldControl: the comparison of the oracle's seats and broadcasts with the
// group must find each planted error.
func TestWellToldControl(t *testing.T) {
	begin := func() (*life, *oracle) {
		life, o := rules.Begin(), &oracle{}
		for _, c := range []group.Command{
			group.Found{ID: actorstest.Named("club"), Org: owner("ada"), Founder: idIn("ada"), Name: "club", Policy: group.Open, VoteHours: 72},
			group.Answer{Offer: 1},
			group.Join{Agent: idIn("abe"), Org: owner("abe")},
			group.Answer{Offer: 2},
			group.Join{Agent: idIn("bea"), Org: owner("bea")},
			group.Answer{Offer: 3, Refusal: group.ReasonIsolation},
			group.Join{Agent: idIn("bea"), Org: owner("bea")},
		} {
			o.Predict(c, life.Now)
			if _, err := life.Do(t, c); err != nil {
				t.Fatal(err)
			}
		}
		return life, o
	}
	for want, wrong := range map[string]func(*oracle){
		"":                func(*oracle) {},
		"offer 3":         func(o *oracle) { o.kept[2].declined = group.ReasonFull },
		"offer 4":         func(o *oracle) { o.kept[3].settled = true },
		"offer 1":         func(o *oracle) { o.kept[0].who = idIn("abe") },
		"offer 2":         func(o *oracle) { o.chairs[1].left = true },
		"bea by offer 4":  func(o *oracle) { o.kept[3].who = idIn("cat") },
		"ada sends to [{": func(o *oracle) { o.chairs[1].number = 3 },
	} {
		life, o := begin()
		wrong(o)
		got := ""
		if err := o.wellTold(life.State); err != nil {
			got = err.Error()
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}
