package actors

import (
	"context"
	"testing"

	"parley/actors/conversation"
)

// TestTaskMeanings: what replies and changes mean for tasks is stored as the rules decide it, which
// the verification of every test node checks, and survives a restart.
func TestTaskMeanings(t *testing.T) {
	r := newTestNode(t)
	owner, ids := r.agents("acme", 2)
	ctx := context.Background()
	begin := func(task bool) Posted {
		s := direct(owner, ids[0], ids[1], "hello", "")
		s.Task = task
		return must(r.send(s))(t)
	}
	ask := func(of Posted, status, reason string) {
		must(r.node.Messages.ChangeStatus(ctx, ChangeStatus{Conversation: of.Message.Conversation(), By: ids[1:], Status: status, Reason: reason}))(t)
	}
	alone := begin(true)
	for range 3 {
		more := answerTo(owner, alone.Message, "more", "")
		more.From, more.To = ids[0], ids[1]
		must(r.reply(more))(t)
	}
	ask(alone, "input_required", "auth_required")
	last := answerTo(owner, alone.Message, "hi", "")
	last.Lone = true
	must(r.reply(last))(t)

	waits := begin(true)
	ask(waits, "open", "")
	ask(waits, "input_required", "auth_required")

	long := begin(false)
	for range 70 { // beyond two stored states
		result := answerTo(owner, long.Message, "result", "")
		result.Outcome = conversation.Completed
		must(r.reply(result))(t)
	}
	r.restart()
	state := func(of Posted) *conversation.State {
		return must(r.node.Messages.Conversation(ctx, of.Message.Conversation()))(t)
	}
	if s := state(alone); !s.GetLoneMessage() || s.GetStatus() != conversation.Completed || s.GetUnanswered() != 3 || s.GetAuthRequired() {
		t.Errorf("answered alone: %v", s)
	}
	if s := state(waits); !s.GetAuthRequired() || s.GetStatus() != conversation.InputRequired {
		t.Errorf("waits for an authorization: %v", s)
	}
	if s := state(long); s.GetArtifactCount() != 70 || len(s.NewestArtifacts()) != 64 || s.NewestArtifacts()[0] != s.LastMessage() {
		t.Errorf("%d artifacts, of which %d are known", s.GetArtifactCount(), len(s.NewestArtifacts()))
	}
}
