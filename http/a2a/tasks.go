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

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/query"
	"parley/client/parley"
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

// cancelTask ends a task on behalf of the agent that began it. One that is canceled already is
// the answer again. // source: A2A 1.0 section 3.1.5
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
		if s, err = b.visible(c, in.ID); err == nil && s.GetStatus() != conversation.Canceled {
			err = errCancelable
		}
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
	// placeBytes is what the place of a task takes in memory while a list is sorted, and
	// placeStep for how many of them memory is reserved at a time.
	placeBytes, placeStep = 64, 4096
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
	if in.Status != "" && in.Status != authRequired && !slices.Contains(slices.Collect(maps.Values(states)), in.Status) {
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
	list := "a2a tasks " + c.to.AgentID().String() + " " + c.Caller.Name() + " " + in.ContextID + " " + in.Status + " " + in.UpdatedAfter + " " + c.in.ActingAgent
	all, err := b.tasksOf(c, in)
	if err != nil {
		return nil, err
	}
	total, held := len(all), len(all)*placeBytes
	if err := c.Reserve(held + 2*parley.PageBytesMax); err != nil {
		return nil, err
	}
	if in.PageToken != "" {
		position, err := b.Cursors.Open(list, in.PageToken)
		if err != nil || len(position) != 24 {
			return nil, invalid("pageToken", "is not a token of this list")
		}
		after := place(binary.BigEndian.Uint64(position), position[8:])
		all = slices.DeleteFunc(all, func(p taskPlace) bool { return compareTasks(after, p) >= 0 })
	}
	out, size := taskList{Tasks: []jsontext.Value{}, PageSize: *in.PageSize, TotalSize: total}, 0
	for i, at := range all {
		text, err := b.listed(c, in, at.id)
		if errors.Is(err, parley.ErrNotFound) || errors.Is(err, parley.ErrGone) { // erased since
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(out.Tasks) == *in.PageSize || len(out.Tasks) > 0 && size+len(text) > parley.PageBytesMax {
			last := all[i-1]
			out.NextPageToken = b.Cursors.Seal(list, append(binary.BigEndian.AppendUint64(nil, uint64(last.updated)), last.id[:]...))
			break
		}
		size += len(text)
		if err := c.Reserve(held + 2*size + 2*parley.PageBytesMax); err != nil { // for the tasks, the answer, and the next task
			return nil, err
		}
		out.Tasks = append(out.Tasks, text)
	}
	return out, nil
}

// listed renders a task of a list. Without history and artifacts only its last message is
// read.
func (b *Bridge) listed(c *call, in *listParams, id parley.ConversationID) (jsontext.Value, error) {
	history, limit := in.HistoryLength, historyMax
	if history == nil {
		history = new(0)
	}
	if *history == 0 && !in.IncludeArtifacts {
		limit = 1
	}
	read := b.Node.Messages.ConversationAt
	if in.IncludeArtifacts {
		read = b.Node.Messages.TaskAt
	}
	// listTasks has reserved the memory.
	m, err := read(c.Context(), id, query.Latest, limit, fitsTask(func(int) error { return nil }))
	if err != nil {
		return nil, err
	}
	v, err := b.viewOf(c.Context(), m.State)
	if err != nil {
		return nil, err
	}
	t := v.task(&m, history)
	if !in.IncludeArtifacts {
		t.Artifacts = nil
		if delete(t.Metadata, artifactsOmitted); len(t.Metadata) == 0 {
			t.Metadata = nil
		}
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

// tasksOf returns the places of the caller's tasks with the addressed agent that a list asks
// for, in its order.
func (b *Bridge) tasksOf(c *call, in *listParams) (all []taskPlace, err error) {
	err = b.eachInitiator(c, func(agent parley.AgentID) error {
		return b.Node.Messages.EachTask(c.Context(), agent, c.to.AgentID(), func(s *conversation.State) error {
			asked, err := b.asked(c.Context(), c, in, s)
			if err != nil || !asked {
				return err
			}
			if len(all)%placeStep == 0 {
				err = c.Reserve((len(all) + placeStep) * placeBytes)
			}
			all = append(all, placeOf(s))
			return err
		})
	})
	slices.SortFunc(all, compareTasks)
	return all, err
}

// eachInitiator calls fn with the agent that the header names, or with all agents of the
// caller, until it fails.
func (b *Bridge) eachInitiator(c *call, fn func(parley.AgentID) error) error {
	if c.in.ActingAgent != "" {
		a, err := b.Agents.Acting(c.Call, c.in.ActingAgent)
		if err != nil {
			return err
		}
		return fn(a.AgentID())
	}
	var bad error
	err := b.Agents.Each(c.Call, 0, func(_ uint64, a *agent.State) bool {
		bad = fn(a.AgentID())
		return bad == nil
	})
	return cmp.Or(bad, err)
}

// asked reports whether a conversation is a task that a list asks for.
func (b *Bridge) asked(ctx context.Context, c *call, in *listParams, s *conversation.State) (bool, error) {
	switch {
	case !b.seen(c, s), in.Status != "" && stateOf(s.GetStatus(), s.GetAuthRequired()) != in.Status, !in.after.IsZero() && !s.UpdatedAt().After(in.after):
		return false, nil
	case in.ContextID == "":
		return true, nil
	}
	root, err := b.contextOf(ctx, c.Caller.Org, s)
	return root.String() == in.ContextID, err
}
