package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
)

// judgeTasks calls every method of the agent at an endpoint, which answers as `parley a2a
// echo` does, with an access token.
func judgeTasks(ctx context.Context, endpoint, token string) error {
	card, err := resolver.Resolve(ctx, endpoint)
	if err != nil {
		return err
	}
	client, err := a2aclient.NewFromCard(ctx, card)
	if err != nil {
		return err
	}
	defer func() { _ = client.Destroy() }()
	j := judge{client, ctx, as(ctx, token), token}
	for _, step := range []struct {
		what  string
		check func() error
	}{
		{"sends, waits, continues and cancels tasks", j.sends},
		{"reads streams, and resumes them without a loss", j.streams},
		{"lists tasks and reads the extended card", j.lists},
		{"has events posted to a server, each as it is streamed", j.pushes},
		{"is told errors by their codes", j.refusals},
	} {
		if err := step.check(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		fmt.Printf("ok - a2a-go %s\n", step.what)
	}
	return nil
}

// judge is a client and its credential, which ctx carries.
type judge struct {
	*a2aclient.Client
	plain context.Context // without the credential
	ctx   context.Context
	token string
}

// as adds an access token to the calls of a context.
func as(ctx context.Context, token string) context.Context {
	return a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{"Authorization": {"Bearer " + token}})
}

func say(text string) *a2a.SendMessageRequest {
	return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))}
}

// task sends a request and returns the task, which must be in that state.
func (j judge) task(r *a2a.SendMessageRequest, state a2a.TaskState) (*a2a.Task, error) {
	result, err := j.SendMessage(j.ctx, r)
	if err != nil {
		return nil, err
	}
	t, ok := result.(*a2a.Task)
	if !ok || t.Status.State != state {
		return nil, fmt.Errorf("the answer is %+v, not a task that is %s", result, state)
	}
	return t, nil
}

func (j judge) sends() error {
	done, err := j.task(say("Good morning."), a2a.TaskStateCompleted)
	if err != nil {
		return err
	}
	if len(done.Artifacts) != 1 || len(done.Artifacts[0].Parts) != 1 || done.Artifacts[0].Parts[0].Text() != "Good morning." {
		return fmt.Errorf("the artifacts are %+v", done.Artifacts)
	}
	asked, err := j.task(say("input: which?"), a2a.TaskStateInputRequired)
	if err != nil {
		return err
	}
	answer := &a2a.SendMessageRequest{Message: a2a.NewMessageForTask(a2a.MessageRoleUser, asked, a2a.NewTextPart("that"))}
	if continued, err := j.task(answer, a2a.TaskStateCompleted); err != nil || continued.ID != asked.ID {
		return fmt.Errorf("the task %s continues as %+v: %w", asked.ID, continued, err)
	}
	slow := say("wait:120")
	slow.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
	begun, err := j.task(slow, a2a.TaskStateSubmitted)
	if err != nil {
		return err
	}
	canceled, err := j.CancelTask(j.ctx, &a2a.CancelTaskRequest{ID: begun.ID})
	if err != nil || canceled.Status.State != a2a.TaskStateCanceled {
		return fmt.Errorf("cancelled: %+v: %w", canceled, err)
	}
	one := 1
	read, err := j.GetTask(j.ctx, &a2a.GetTaskRequest{ID: asked.ID, HistoryLength: &one})
	if err != nil || len(read.History) != 1 || read.History[0].Role != a2a.MessageRoleUser {
		return fmt.Errorf("read: %+v: %w", read, err)
	}
	return nil
}

// collect returns the events of a stream, at most so many, each as a short text.
func collect(stream iter.Seq2[a2a.Event, error], most int) (seen []string, id a2a.TaskID, err error) {
	for event, err := range stream {
		if err != nil {
			return seen, id, err
		}
		id = event.TaskInfo().TaskID
		switch e := event.(type) {
		case *a2a.Task:
			seen = append(seen, "task")
		case *a2a.TaskStatusUpdateEvent:
			line := string(e.Status.State)
			if e.Status.Message != nil {
				line += " " + e.Status.Message.Parts[0].Text()
			}
			seen = append(seen, line)
		case *a2a.TaskArtifactUpdateEvent:
			seen = append(seen, "artifact "+e.Artifact.Parts[0].Text())
		default:
			return seen, id, fmt.Errorf("unexpected %T", event)
		}
		if len(seen) == most {
			break
		}
	}
	return seen, id, nil
}

func (j judge) streams() error {
	const working = string(a2a.TaskStateWorking)
	want := []string{"task", working, working + " one", working + " two", "artifact one two", string(a2a.TaskStateCompleted)}
	seen, id, err := collect(j.SendStreamingMessage(j.ctx, say("stream: one two")), len(want)+1)
	if err != nil || strings.Join(seen, ",") != strings.Join(want, ",") {
		return fmt.Errorf("the stream has %q: %w", seen, err)
	}
	// The event ids of a short task count from 0: an event is the id of its place.
	for last := range len(want) - 1 {
		resumed := a2aclient.AttachServiceParams(j.plain, a2aclient.ServiceParams{"Authorization": {"Bearer " + j.token}, "Last-Event-ID": {fmt.Sprint(last)}})
		seen, again, err := collect(j.SubscribeToTask(resumed, &a2a.SubscribeToTaskRequest{ID: id}), len(want)+1)
		if err != nil || again != id || strings.Join(seen[1:], ",") != strings.Join(want[last+1:], ",") {
			return fmt.Errorf("after the event %d the stream has %q: %w", last, seen, err)
		}
	}
	return nil
}

func (j judge) lists() error {
	seen := map[a2a.TaskID]bool{}
	for token := ""; ; {
		page, err := j.ListTasks(j.ctx, &a2a.ListTasksRequest{PageSize: 2, PageToken: token})
		if err != nil {
			return err
		}
		for _, t := range page.Tasks {
			seen[t.ID] = true
		}
		if token = page.NextPageToken; token != "" {
			continue
		}
		if len(seen) != page.TotalSize || len(seen) < 4 {
			return fmt.Errorf("%d of %d tasks were listed", len(seen), page.TotalSize)
		}
		break
	}
	// The SDK asks, and then its own parser rejects the security requirements, see parser.go.
	if _, err := j.GetExtendedAgentCard(j.ctx, &a2a.GetExtendedAgentCardRequest{}); err == nil || !strings.Contains(err.Error(), "unmarshal") {
		return fmt.Errorf("the extended card: %w", err)
	}
	return nil
}

func (j judge) refusals() error {
	_, err := j.GetTask(j.ctx, &a2a.GetTaskRequest{ID: "unknown"})
	if !errors.Is(err, a2a.ErrTaskNotFound) {
		return fmt.Errorf("an unknown task: %w", err)
	}
	done, err := j.task(say("done"), a2a.TaskStateCompleted)
	if err != nil {
		return err
	}
	if _, err = j.CancelTask(j.ctx, &a2a.CancelTaskRequest{ID: done.ID}); !errors.Is(err, a2a.ErrTaskNotCancelable) {
		return fmt.Errorf("an ended task is cancelled: %w", err)
	}
	more := &a2a.SendMessageRequest{Message: a2a.NewMessageForTask(a2a.MessageRoleUser, done, a2a.NewTextPart("more"))}
	if _, err = j.SendMessage(j.ctx, more); !errors.Is(err, a2a.ErrUnsupportedOperation) {
		return fmt.Errorf("an ended task is continued: %w", err)
	}
	if _, err = j.SendMessage(j.ctx, &a2a.SendMessageRequest{Message: &a2a.Message{ID: "m", Role: a2a.MessageRoleUser}}); !errors.Is(err, a2a.ErrInvalidParams) {
		return fmt.Errorf("a message without parts: %w", err)
	}
	if _, err = j.GetTask(as(j.plain, "wrong"), &a2a.GetTaskRequest{ID: done.ID}); err == nil || !strings.Contains(err.Error(), "401") {
		return fmt.Errorf("a wrong token: %w", err)
	}
	return nil
}
