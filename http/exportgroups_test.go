package http

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"parley/actors/group"
	stored "parley/actors/query/export"
)

// TestExportOfGroupsWithLittleMemory: an export that may remember few ids reads groups and
// conversations in several passes, and is the same. Deleted groups are in it.
func TestExportOfGroupsWithLittleMemory(t *testing.T) {
	x := newExportScene(t, 4)
	for i := range 160 {
		id := x.group(fmt.Sprint("g", i), "")
		x.seat(id, x.first, x.art)
		x.first.ask("POST", "/messages", fmt.Sprintf(`{"to_handle":"#g%d@first.home.example","type":"a.b.c","encrypted_payload":"QUJD"}`, i), as(x.ann)).want(201)
		if i%2 == 0 {
			x.first.ask("DELETE", "/groups/"+id, "", as(x.ann)).want(204)
		}
	}
	read := func(capacity int) (all []string, deleted int) {
		e, err := x.node.Orgs.Export(context.Background(), x.first.owner, capacity)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		err = errorsOf(e.Groups(func(g *group.State) error {
			if g.Deleted() {
				deleted++
			}
			all = append(all, g.ID.String())
			return nil
		}), e.Conversations(func(c stored.Conversation) error {
			all = append(all, fmt.Sprint(c.ConversationID(), len(c.Changes)))
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		return all, deleted
	}
	much, deleted := read(1 << 20)
	little, _ := read(0)
	if len(much) < 320 || deleted != 80 || !slices.Equal(much, little) {
		t.Errorf("%d groups and conversations, %d deleted, with little memory %d", len(much), deleted, len(little))
	}
}
