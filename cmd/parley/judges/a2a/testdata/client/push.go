package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// receiver is a target of push notifications.
type receiver struct {
	mu   sync.Mutex
	got  []a2a.Event
	bad  error
	done chan struct{} // closed when a task has ended, or a notification was bad
	once sync.Once
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	event, err := notification(q)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.bad = err
		r.once.Do(func() { close(r.done) })
		return
	}
	r.got = append(r.got, event)
	if update, ok := event.(*a2a.TaskStatusUpdateEvent); ok && update.Status.State.Terminal() {
		r.once.Do(func() { close(r.done) })
	}
}

// notification checks a request and reads its event.
func notification(q *http.Request) (a2a.Event, error) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/a2a+json", "Authorization": "Bearer a-credential", "X-A2A-Notification-Token": "a-token", "A2A-Notification-Token": "a-token",
	} {
		if q.Header.Get(name) != value {
			return nil, fmt.Errorf("the header %s is %q", name, q.Header.Get(name))
		}
	}
	var r a2a.StreamResponse
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("the SDK cannot read %s: %w", body, err)
	}
	return r.Event, nil
}

// pushes drives the four methods of push notification configurations, and compares what
// arrives with what a stream of the task has.
func (j judge) pushes() error {
	to := &receiver{done: make(chan struct{})}
	server := httptest.NewServer(to)
	defer server.Close()
	asked, err := j.task(say("input: which?"), a2a.TaskStateInputRequired)
	if err != nil {
		return err
	}
	if err := j.pushConfigs(asked.ID, server.URL); err != nil {
		return err
	}
	answer := &a2a.SendMessageRequest{Message: a2a.NewMessageForTask(a2a.MessageRoleUser, asked, a2a.NewTextPart("stream: one two"))}
	var streamed []a2a.Event
	for event, err := range j.SendStreamingMessage(j.ctx, answer) {
		if err != nil {
			return err
		}
		streamed = append(streamed, event)
	}
	select {
	case <-to.done:
	case <-time.After(wait):
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	// The first says that the task was opened again, which the stream's task shows.
	if to.bad != nil || len(to.got) != len(streamed) || len(to.got) < 2 {
		return fmt.Errorf("%d notifications came, %d events were streamed: %w", len(to.got), len(streamed), to.bad)
	}
	got, _ := json.Marshal(to.got[1:])
	want, _ := json.Marshal(streamed[1:])
	if string(got) != string(want) {
		return fmt.Errorf("notified %s, streamed %s", got, want)
	}
	return nil
}

// pushConfigs leaves one configuration of a task.
func (j judge) pushConfigs(task a2a.TaskID, url string) error {
	config := &a2a.PushConfig{TaskID: task, ID: "mine", URL: url, Token: "a-token", Auth: &a2a.PushAuthInfo{Scheme: "Bearer", Credentials: "a-credential"}}
	same := func(c *a2a.PushConfig, err error) error {
		if err != nil || c.Auth == nil || c.TaskID != task || c.ID != config.ID || c.URL != url || c.Token != config.Token || *c.Auth != *config.Auth {
			return fmt.Errorf("the configuration is %+v: %w", c, err)
		}
		return nil
	}
	if err := same(j.CreateTaskPushConfig(j.ctx, config)); err != nil {
		return err
	}
	other, err := j.CreateTaskPushConfig(j.ctx, &a2a.PushConfig{TaskID: task, URL: url})
	if err != nil || other.ID == "" {
		return fmt.Errorf("a configuration without an id: %+v: %w", other, err)
	}
	if err := same(j.GetTaskPushConfig(j.ctx, &a2a.GetTaskPushConfigRequest{TaskID: task, ID: config.ID})); err != nil {
		return err
	}
	if all, err := j.ListTaskPushConfigs(j.ctx, &a2a.ListTaskPushConfigRequest{TaskID: task}); err != nil || len(all) != 2 {
		return fmt.Errorf("%d configurations are listed: %w", len(all), err)
	}
	if err := j.DeleteTaskPushConfig(j.ctx, &a2a.DeleteTaskPushConfigRequest{TaskID: task, ID: other.ID}); err != nil {
		return err
	}
	if _, err := j.GetTaskPushConfig(j.ctx, &a2a.GetTaskPushConfigRequest{TaskID: task, ID: other.ID}); !errors.Is(err, a2a.ErrTaskNotFound) {
		return fmt.Errorf("a deleted configuration: %w", err)
	}
	if all, err := j.ListTaskPushConfigs(j.ctx, &a2a.ListTaskPushConfigRequest{TaskID: task}); err != nil || len(all) != 1 || same(all[0], nil) != nil {
		return fmt.Errorf("after one was deleted %+v are listed: %w", all, err)
	}
	if _, err := j.CreateTaskPushConfig(j.ctx, &a2a.PushConfig{TaskID: task, URL: "http://10.0.0.1/"}); !errors.Is(err, a2a.ErrInvalidParams) {
		return fmt.Errorf("a target in a private network: %w", err)
	}
	return nil
}
