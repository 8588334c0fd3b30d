package a2a

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"parley/actors/conversation"
	"parley/actors/query"
	"parley/actors/record"
	"parley/client/parley"
	"parley/http/submission"
	"parley/journal"
)

const (
	// historyMax bounds the messages that a task shows, and how far back artifacts are looked
	// for that were posted before their ids were kept.
	historyMax = 100
	// artifactsOmitted and historyTruncated are the members of a task's metadata that say what
	// was left out of it.
	artifactsOmitted, historyTruncated = "artifacts_omitted", "history_truncated"
	// parentsMax bounds the way from a task to the root of its conversations, as far as it
	// is not known yet.
	parentsMax = 10_000
	// contextsMax is how many roots of conversations are remembered.
	contextsMax = 1 << 15
)

// visible returns the conversation of a task as the caller may see it: one of its agents
// began it with the agent that the request addresses.
func (b *Bridge) visible(c *call, taskID string) (*conversation.State, error) {
	id, err := parley.ParseID[parley.ConversationID](taskID)
	if err != nil {
		return nil, errNotFound
	}
	s, err := b.Node.Messages.Conversation(c.Context(), id)
	switch {
	case errors.Is(err, parley.ErrNotFound), errors.Is(err, parley.ErrGone):
		return nil, errNotFound
	case err != nil:
		return nil, err
	case !b.seen(c, s):
		return nil, errNotFound
	}
	return s, nil
}

// erased reports whether a conversation can no longer be read, because an organization was
// erased.
func (b *Bridge) erased(ctx context.Context, id parley.ConversationID) bool {
	_, err := b.Node.Messages.Conversation(ctx, id)
	return errors.Is(err, journal.ErrErased)
}

// seen reports whether a conversation is a task of the caller with the addressed agent.
func (b *Bridge) seen(c *call, s *conversation.State) bool {
	return s.GroupID().Zero() && c.Caller.Owns(s.InitiatorOrg(), s.Initiator()) && s.Role(c.to.AgentID()) == conversation.Responder
}

// contextKey is a conversation as an organization sees it.
type contextKey struct {
	org parley.OrgID
	id  parley.ConversationID
}

// contextOf returns the id of the root of a conversation in which an organization takes
// part: the last of its parents before one in which only others do, or the conversation
// itself.
func (b *Bridge) contextOf(ctx context.Context, org parley.OrgID, s *conversation.State) (parley.ConversationID, error) {
	start := contextKey{org, s.ConversationID()}
	if root, known := b.contexts.GetIfPresent(start); known {
		return root, nil
	}
	root := start.id
	for range parentsMax {
		id := s.ParentID()
		if id.Zero() {
			break
		}
		// Who begins a conversation takes part in the parent that it names.
		part := s.GroupID().Zero() && s.InitiatorOrg() == org
		parent, err := b.Node.Messages.Conversation(ctx, id)
		gone := errors.Is(err, parley.ErrNotFound) || errors.Is(err, parley.ErrGone)
		if err != nil && !gone {
			return root, err
		}
		if !part && (gone || !takesPart(parent, org)) {
			break
		}
		if root = id; gone {
			break
		}
		if known, found := b.contexts.GetIfPresent(contextKey{org, id}); found {
			root = known
			break
		}
		s = parent
	}
	b.contexts.Set(start, root)
	return root, nil
}

// takesPart reports whether a conversation is one between two agents of which one is the
// organization's.
func takesPart(s *conversation.State, org parley.OrgID) bool {
	return s.GroupID().Zero() && (s.InitiatorOrg() == org || parley.IDFromBytes[parley.OrgID](s.GetOtherOwner()) == org)
}

// view renders a task for its initiator.
type view struct {
	bridge    *Bridge
	id, in    string // of the task and its context
	responder parley.AgentID
	// waiting are the tasks of its context that a new task names.
	waiting []string
}

func (b *Bridge) viewOf(ctx context.Context, s *conversation.State) (view, error) {
	root, err := b.contextOf(ctx, s.InitiatorOrg(), s)
	responder, _ := s.Other(s.Initiator())
	return view{bridge: b, id: s.ConversationID().String(), in: root.String(), responder: responder}, err
}

// kind is what a message of the responder means for a task, by its type, or because it is its
// whole answer.
type kind int

const (
	isMessage kind = iota
	isResult       // an artifact
	isStatus
	isError
	isLone // the whole answer
)

// kindOf returns what a message means. lone says that the responder has answered by a lone
// message: then it has sent no other.
func (v view) kindOf(r *record.Message, lone bool) kind {
	word, _ := strings.CutPrefix(r.GetType(), v.bridge.Brand+".v1.")
	switch {
	case r.Sender() != v.responder:
		return isMessage
	case lone:
		return isLone
	case word == submission.TaskResponse:
		return isResult
	case word == submission.StatusUpdate:
		return isStatus
	case word == submission.TaskError:
		return isError
	}
	return isMessage
}

// message renders one message of the task.
func (v view) message(r *record.Message) *Message {
	s := v.bridge.decode(r.GetContent())
	m := &Message{MessageID: r.MessageID().String(), ContextID: v.in, TaskID: v.id, Role: roleAgent, Parts: s.parts, Metadata: s.metadata}
	if r.Sender() != v.responder {
		if m.Role = roleUser; s.messageID != "" {
			m.MessageID = s.messageID
		}
	}
	return m
}

// artifact renders a reply that is a result.
func (v view) artifact(r *record.Message) Artifact {
	s := v.bridge.decode(r.GetContent())
	return Artifact{ArtifactID: r.MessageID().String(), Parts: s.parts, Metadata: s.metadata}
}

// metadata says what A2A has no state for.
func metadata(status conversation.Status, reason string) map[string]any {
	m := map[string]any{}
	if status == conversation.Paused {
		m["status"] = status.String()
	}
	if reason != "" {
		m["reason"] = reason
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// task renders a moment of the task. history bounds the messages in it, nil means all that
// the moment has.
func (v view) task(m *query.Moment, history *int) *Task {
	t := &Task{
		ID: v.id, ContextID: v.in, Metadata: metadata(m.State.GetStatus(), ""),
		Status: TaskStatus{State: stateOf(m.State.GetStatus(), m.State.GetAuthRequired()), Timestamp: stamp(m.State.GetUpdatedMs())},
	}
	if len(v.waiting) > 0 {
		t.note(inputRequiredTasks, v.waiting)
	}
	var omitted int
	if t.Artifacts, omitted = v.artifacts(m); omitted > 0 {
		t.note(artifactsOmitted, omitted)
	}
	for i := range m.Messages {
		r := m.Messages[i].Record
		switch v.kindOf(r, m.State.GetLoneMessage()) {
		case isResult, isStatus, isError:
		case isMessage, isLone:
			t.History = append(t.History, *v.message(r))
		}
	}
	if len(m.Messages) > 0 {
		last := m.Messages[len(m.Messages)-1].Record
		if last.Sender() == v.responder && v.kindOf(last, m.State.GetLoneMessage()) != isResult {
			t.Status.Message = v.message(last)
		}
	}
	if m.Cut && (history == nil || len(t.History) < *history) {
		t.note(historyTruncated, true)
	}
	switch {
	case history == nil:
	case *history == 0:
		t.History = nil // which is left out
	case len(t.History) > *history:
		t.History = t.History[len(t.History)-*history:]
	}
	return t
}

// artifacts returns the newest artifacts of a moment, oldest first: those that the state names,
// and those among the latest messages that it does not know yet. omitted is how many others the
// task is known to have.
func (v view) artifacts(m *query.Moment) (out []Artifact, omitted int) {
	all := map[parley.MessageID]*record.Message{}
	for i := range m.Artifacts {
		all[m.Artifacts[i].Record.MessageID()] = m.Artifacts[i].Record
	}
	for i := range m.Messages {
		if r := m.Messages[i].Record; v.kindOf(r, m.State.GetLoneMessage()) == isResult {
			all[r.MessageID()] = r
		}
	}
	// The ids of a conversation's messages ascend.
	ids := slices.SortedFunc(maps.Keys(all), func(a, b parley.MessageID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range ids[max(0, len(ids)-conversation.ArtifactsMax):] {
		out = append(out, v.artifact(all[id]))
	}
	return out, max(int(m.State.GetArtifactCount()), len(ids)) - len(out)
}

// note sets a member of the task's metadata.
func (t *Task) note(name string, value any) {
	if t.Metadata == nil {
		t.Metadata = map[string]any{}
	}
	t.Metadata[name] = value
}

// update renders an event of the task. It returns nil if the event is none for A2A: a
// message of the initiator, or one that the next event reports, see reported.
func (v view) update(e *query.ConversationEvent, last *record.Message, isTask bool) *StreamResponse {
	status := TaskStatus{State: stateOf(e.Status, e.AuthRequired), Timestamp: stamp(e.UpdatedMs)}
	switch x := e.Event.(type) {
	case *conversation.StatusChanged:
		if last != nil && v.reported(last, e.Lone) == x.GetStatus() {
			status.Message = v.message(last)
		}
		return &StreamResponse{StatusUpdate: &StatusUpdate{v.id, v.in, status, metadata(e.Status, x.GetReason())}}
	case *conversation.Posted:
		if e.Message == nil || e.Message.Record.Sender() != v.responder {
			return nil
		}
		switch r := e.Message.Record; v.kindOf(r, e.Lone) {
		case isLone:
			return nil
		case isResult:
			return &StreamResponse{ArtifactUpdate: &ArtifactUpdate{v.id, v.in, v.artifact(r), true}}
		case isError:
			if isTask {
				return nil
			}
			fallthrough
		default:
			status.Message = v.message(r)
			return &StreamResponse{StatusUpdate: &StatusUpdate{v.id, v.in, status, metadata(e.Status, "")}}
		}
	case *conversation.Started, *conversation.Broadcasted: // not in a conversation between two agents
	}
	return nil
}

// reported returns the status whose event shows a message that came right before it, 0 if none
// does: an error is shown as the task fails, a lone message as it is completed.
func (v view) reported(r *record.Message, lone bool) conversation.Status {
	switch v.kindOf(r, lone) {
	case isError:
		return conversation.Failed
	case isLone:
		return conversation.Completed
	case isMessage, isResult, isStatus:
	}
	return 0
}

// interrupted reports whether a task waits for its initiator.
func interrupted(s conversation.Status) bool { return s == conversation.InputRequired }
