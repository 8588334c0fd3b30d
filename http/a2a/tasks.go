package a2a

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley"
	"parley/actors"
	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/query"
	"parley/actors/record"
	"parley/http/content"
)

// taskParams are the parameters of methods about one task.
type taskParams struct {
	ID            string `json:"id"`
	HistoryLength *int   `json:"historyLength"`
}

func readTask(c *call) (*taskParams, error) {
	in, err := params[taskParams](c)
	switch {
	case err != nil:
		return nil, err
	case in.ID == "":
		return nil, invalid("id", "is required")
	}
	return in, checkHistory("historyLength", in.HistoryLength)
}

// getTask returns a task.
func (b *Bridge) getTask(c *call) (any, error) {
	in, err := readTask(c)
	if err != nil {
		return nil, err
	}
	s, err := b.visible(c, in.ID)
	if err != nil {
		return nil, err
	}
	v, err := b.viewOf(c.Context(), s)
	if err != nil {
		return nil, err
	}
	return b.taskNow(c, s.ConversationID(), v, in.HistoryLength)
}

// cancelTask ends a task on behalf of the agent that began it.
func (b *Bridge) cancelTask(c *call) (any, error) {
	in, err := readTask(c)
	if err != nil {
		return nil, err
	}
	s, err := b.visible(c, in.ID)
	if err != nil {
		return nil, err
	}
	_, err = b.Node.Messages.ChangeStatus(c.Context(), actors.ChangeStatus{
		Conversation: s.ConversationID(), By: []parley.AgentID{s.Initiator()}, Status: conversation.Canceled.String(),
	})
	if errors.Is(err, conversation.ErrInvalidTransition) {
		return nil, errCancelable
	}
	if err != nil {
		return nil, err
	}
	v, err := b.viewOf(c.Context(), s)
	if err != nil {
		return nil, err
	}
	return b.taskAfter(c, s.ConversationID(), v, nil)
}

// extendedCard returns the card for authenticated callers.
func (b *Bridge) extendedCard(c *call) (any, error) {
	text, err := b.Cards.Extended(c.Context(), c.to)
	return jsontext.Value(text), err
}

const (
	listPageDefault = 50
	listPageMax     = 100
	// listScanMax is how many conversations a list of tasks looks at: of one agent after the
	// other, the newest first.
	listScanMax = 1000
	// listStep is how many conversations of an agent are read at a time.
	listStep = 100
)

// listParams are the parameters of ListTasks.
type listParams struct {
	ContextID        string `json:"contextId"`
	Status           string `json:"status"`
	PageSize         *int   `json:"pageSize"`
	PageToken        string `json:"pageToken"`
	HistoryLength    *int   `json:"historyLength"`
	UpdatedAfter     string `json:"statusTimestampAfter"`
	IncludeArtifacts bool   `json:"includeArtifacts"`

	after time.Time
}

// taskList is the result of ListTasks.
type taskList struct {
	Tasks         []jsontext.Value `json:"tasks"`
	NextPageToken string           `json:"nextPageToken"`
	PageSize      int              `json:"pageSize"`
	TotalSize     int              `json:"totalSize"`
}

func readList(c *call) (*listParams, error) {
	in, err := params[listParams](c)
	if err != nil {
		return nil, err
	}
	if in.PageSize == nil {
		in.PageSize = new(listPageDefault)
	}
	if *in.PageSize < 1 || *in.PageSize > listPageMax {
		return nil, invalid("pageSize", "must be a number from 1 to 100")
	}
	if in.Status == "TASK_STATE_UNSPECIFIED" {
		in.Status = ""
	}
	if in.Status != "" && in.Status != "TASK_STATE_AUTH_REQUIRED" && !slices.Contains(slices.Collect(maps.Values(states)), in.Status) {
		return nil, invalid("status", "must be a state such as TASK_STATE_WORKING")
	}
	if in.UpdatedAfter != "" {
		if in.after, err = time.Parse(time.RFC3339, in.UpdatedAfter); err != nil {
			return nil, invalid("statusTimestampAfter", "must be an instant such as 2026-01-31T12:00:00.000Z")
		}
	}
	return in, checkHistory("historyLength", in.HistoryLength)
}

// listTasks lists the caller's tasks with the addressed agent, the latest change first.
func (b *Bridge) listTasks(c *call) (any, error) {
	in, err := readList(c)
	if err != nil {
		return nil, err
	}
	list := "a2a tasks " + c.to.AgentID().String() + " " + c.Caller.Org.String() + " " + in.ContextID + " " + in.Status + " " + in.UpdatedAfter + " " + c.in.ActingAgent
	all, err := b.tasksOf(c, in)
	if err != nil {
		return nil, err
	}
	total, size := len(all), 0
	if err := c.Reserve(parley.PageBytesMax); err != nil {
		return nil, err
	}
	if in.PageToken != "" {
		position, err := b.Cursors.Open(list, in.PageToken)
		if err != nil || len(position) != 24 {
			return nil, invalid("pageToken", "is not a token of this list")
		}
		at := binary.BigEndian.Uint64(position)
		all = slices.DeleteFunc(all, func(s *conversation.State) bool { return compareTasks(place(at, position[8:]), placeOf(s)) >= 0 })
	}
	out := taskList{Tasks: []jsontext.Value{}, PageSize: *in.PageSize, TotalSize: total}
	for i, s := range all {
		text, err := b.listed(c, in, s)
		if err != nil {
			return nil, err
		}
		if i == *in.PageSize || i > 0 && size+len(text) > parley.PageBytesMax {
			last := placeOf(all[i-1])
			out.NextPageToken = b.Cursors.Seal(list, append(binary.BigEndian.AppendUint64(nil, uint64(last.updated)), last.id[:]...))
			break
		}
		size += len(text)
		if err := c.Reserve(2*size + parley.PageBytesMax); err != nil { // for the tasks, the answer, and the next task
			return nil, err
		}
		out.Tasks = append(out.Tasks, text)
	}
	return out, nil
}

// listed renders a task of a list. Without history and artifacts only its last message is
// read.
func (b *Bridge) listed(c *call, in *listParams, s *conversation.State) (jsontext.Value, error) {
	v, err := b.viewOf(c.Context(), s)
	if err != nil {
		return nil, err
	}
	history, limit := in.HistoryLength, historyMax
	if history == nil {
		history = new(0)
	}
	if *history == 0 && !in.IncludeArtifacts {
		limit = 1
	}
	size := 0
	m, err := b.Node.Messages.ConversationAt(c.Context(), s.ConversationID(), query.Latest, limit, func(r *record.Message) (bool, error) {
		first := size == 0
		size += 2 * content.Size(r)
		return first || size <= parley.PageBytesMax, nil
	})
	if err != nil {
		return nil, err
	}
	t := v.task(&m, history)
	if !in.IncludeArtifacts {
		t.Artifacts = nil
	}
	return json.Marshal(t)
}

// taskPlace is the place of a task in a list.
type taskPlace struct {
	updated int64
	id      parley.ConversationID
}

func place(updated uint64, id []byte) taskPlace {
	return taskPlace{int64(updated), parley.IDFromBytes[parley.ConversationID](id)}
}

func placeOf(s *conversation.State) taskPlace {
	return taskPlace{s.GetUpdatedMs(), s.ConversationID()}
}

// compareTasks orders the latest change first.
func compareTasks(a, b taskPlace) int {
	return cmp.Or(cmp.Compare(b.updated, a.updated), strings.Compare(string(b.id[:]), string(a.id[:])))
}

// tasksOf returns the tasks of the caller with the addressed agent that a list asks for, in
// its order.
func (b *Bridge) tasksOf(c *call, in *listParams) (all []*conversation.State, err error) {
	scanned := 0
	err = b.eachInitiator(c, func(agent parley.AgentID) (more bool, err error) {
		for before := uint64(0); scanned < listScanMax; {
			page, next, err := b.Node.Messages.Conversations(c.Context(), agent, before, listStep)
			if err != nil {
				return false, err
			}
			scanned += max(1, len(page))
			for _, s := range page {
				asked, err := b.asked(c.Context(), c, in, s)
				if err != nil {
					return false, err
				}
				if asked && s.Initiator() == agent {
					all = append(all, s)
				}
			}
			if before = next; next == 0 {
				break
			}
		}
		return scanned < listScanMax, nil
	})
	slices.SortFunc(all, func(a, b *conversation.State) int { return compareTasks(placeOf(a), placeOf(b)) })
	return all, err
}

// eachInitiator calls fn with the agent that the header names, or with all agents of the
// caller.
func (b *Bridge) eachInitiator(c *call, fn func(parley.AgentID) (more bool, err error)) error {
	if c.in.ActingAgent != "" {
		a, err := b.Desk.Acting(c.Call, c.in.ActingAgent)
		if err == nil {
			_, err = fn(a.AgentID())
		}
		return err
	}
	var ids []parley.AgentID
	err := b.Node.Agents.Each(c.Context(), c.Caller.Org, func(a *agent.State) bool {
		ids = append(ids, a.AgentID())
		return len(ids) < listScanMax
	})
	for _, id := range ids {
		if err != nil {
			return err
		}
		var more bool
		if more, err = fn(id); !more {
			break
		}
	}
	return err
}

// asked reports whether a conversation is a task that a list asks for.
func (b *Bridge) asked(ctx context.Context, c *call, in *listParams, s *conversation.State) (bool, error) {
	switch {
	case !b.seen(c, s), in.Status != "" && states[s.GetStatus()] != in.Status, !in.after.IsZero() && !s.UpdatedAt().After(in.after):
		return false, nil
	case in.ContextID == "":
		return true, nil
	}
	root, err := b.contextOf(ctx, s)
	return root.String() == in.ContextID, err
}
