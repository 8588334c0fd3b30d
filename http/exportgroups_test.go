package http

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/actors/query"
	"parley/http/api"
)

// TestExportHasTheHistoryOfGroups: every seat, request and vote is in the history, deleted
// groups are in the export, and what feeds have of a group is beside it.
func TestExportHasTheHistoryOfGroups(t *testing.T) {
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprint("journals=", journals), func(t *testing.T) {
			x := newExportScene(t, journals)
			g, p := x.groupHarness, x.first
			poll := g.group("poll", `,"enrollment_policy":"majority"`)
			asked := g.second.ask("POST", "/groups/"+poll+"/join", `{"message":"please"}`, as(g.bob)).want(200).at("request").(map[string]any)["id"].(string)
			p.ask("POST", "/groups/"+poll+"/requests/"+asked+"/vote", `{"vote":"deny"}`, as(g.ann)).want(200)
			x.votes(poll)
			p.ask("PATCH", "/groups/"+poll, `{"description":"d","visibility":"public"}`, as(g.ann)).want(200)
			over := g.group("over", "")
			p.ask("DELETE", "/groups/"+over, "", as(g.ann)).want(204)
			e := p.export()
			names, votes := map[string][]string{}, []string(nil)
			for i, r := range e.byType[api.ExportGroup] {
				shown := api.ExportedGroup{}
				for _, l := range e.lines {
					if l.Type == api.ExportGroup && strings.Contains(string(l.Data[:60]), r["id"].(string)) {
						if err := json.Unmarshal(l.Data, &shown); err != nil {
							t.Fatal(err)
						}
					}
				}
				for _, h := range shown.History {
					if h.Event == api.RequestVoted {
						votes = append(votes, h.Vote)
					}
					names[shown.Name] = append(names[shown.Name], h.Event)
				}
				if deleted := shown.DeletedAt != nil; deleted != (shown.Name == "over") || len(shown.Announced) == 0 {
					t.Errorf("group %d: %v", i, r)
				}
				if places := map[string]int{"ours": 1, "poll": 2, "over": 3}; shown.RosterPlace != places[shown.Name] {
					t.Errorf("%s has place %d", shown.Name, shown.RosterPlace)
				}
			}
			want := []string{"founded", "seat_offered", "seat_taken", "request_filed", "request_voted", "request_resolved"}
			if got := names["poll"]; len(got) < 12 || !slices.Equal(got[:len(want)], want) || got[len(got)-1] != "changed" {
				t.Errorf("the history of the poll is %q, want %q", got, want)
			}
			if !slices.Equal(votes, []string{api.Deny, api.Approve, ""}) {
				t.Errorf("the votes are %q; the third is of another organization", votes)
			}
			if got := names["over"]; len(got) == 0 || got[len(got)-1] != "deleted" || len(names) != 3 {
				t.Errorf("the histories are %q", names)
			}
		})
	}
}

// votes seats bob in a group whose members vote, and lets ann and him vote on another agent.
func (x *exportScene) votes(poll string) {
	ask := func(p *tenant, agent string) string {
		return p.ask("POST", "/groups/"+poll+"/join", ``, as(agent)).want(200).at("request").(map[string]any)["id"].(string)
	}
	path := "/groups/" + poll + "/requests/"
	x.first.ask("POST", path+ask(x.second, x.bob)+"/vote", `{"vote":"approve"}`, as(x.ann)).want(200)
	about := ask(x.first, x.art)
	x.second.ask("POST", path+about+"/vote", `{"vote":"deny"}`, as(x.bob)).want(200)
}

// TestExportOfALongHistory: a history may be longer than the chunks in which an export is
// written.
func TestExportOfALongHistory(t *testing.T) {
	x := newExportScene(t, 1)
	id := x.group("long", "")
	for i := range 300 {
		body := fmt.Sprintf(`{"description":"%d %s"}`, i, strings.Repeat("é", 900))
		x.first.ask("PATCH", "/groups/"+id, body, as(x.ann)).want(200)
	}
	for _, r := range x.first.export().byType[api.ExportGroup] {
		if history := r["history"].([]any); r["id"] == id && len(history) != 303 {
			t.Errorf("the history has %d events", len(history))
		}
	}
}

// TestExportOfGroupsWithLittleMemory: an export that may remember few places reads groups and
// conversations in several passes, and is the same.
func TestExportOfGroupsWithLittleMemory(t *testing.T) {
	x := newExportScene(t, 4)
	for i := range 40 {
		id := x.group(fmt.Sprint("g", i), "")
		x.seat(id, x.first, x.art)
		x.first.ask("POST", "/messages", fmt.Sprintf(`{"to_handle":"#g%d@first.home.example","type":"a.b.c","encrypted_payload":"QUJD"}`, i), as(x.ann)).want(201)
	}
	read := func(capacity int) (all []string) {
		e, err := x.node.Orgs.Export(context.Background(), x.first.owner, capacity)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		text := ""
		err = errorsOf(e.Groups(query.GroupVisitor{
			Begin:     func(g query.ExportedGroup) error { text = fmt.Sprint(g.ID, g.Place); return nil },
			Announced: func(n query.ExportedNews) error { text += fmt.Sprint(n); return nil },
			End:       func() error { all = append(all, text); return nil },
		}), e.Conversations(func(c query.ExportedConversation) error {
			all = append(all, fmt.Sprint(c.ConversationID(), c.Listed, c.Announced))
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	much, little := read(1<<20), read(0)
	if len(much) < 80 || !slices.Equal(much, little) {
		t.Errorf("%d groups and conversations, with little memory %d", len(much), len(little))
	}
}
