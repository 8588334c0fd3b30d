package actors

import (
	"fmt"
	"testing"

	"parley/actors/conversation"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// statusNotices returns the changes of status in an agent's feed.
func (r *testNode) statusNotices(of parley.AgentID) (all []string) {
	r.t.Helper()
	v := r.contents.View()
	defer v.Close()
	err := v.Feed(of, 0, ^uint64(0), func(e journal.FeedEntry) bool {
		if e.Kind == journal.StatusEntry {
			status, own := record.StatusNews(e.Note)
			all = append(all, fmt.Sprint(status, own))
		}
		return true
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// TestReplyThatOpensAndEndsATask: both changes are in the feeds of both participants.
func TestReplyThatOpensAndEndsATask(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint(journals), func(t *testing.T) {
			r := newTestNode(t, withJournals(journals))
			owner, ids := r.agents("acme", 2)
			s := direct(owner, ids[0], ids[1], "do it", "")
			s.Task = true
			first := must(r.send(s))(t)
			done := answerTo(owner, first.Message, "done", "")
			done.Outcome = conversation.Completed
			must(r.reply(done))(t)
			for i, want := range []string{"[openfalse completedfalse]", "[opentrue completedtrue]"} {
				eventually(t, "both changes are in the feed", func() bool { return fmt.Sprint(r.statusNotices(ids[i])) == want })
			}
		})
	}
}
