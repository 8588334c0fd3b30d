package a2a

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"parley/actors/conversation"
)

// The objects of A2A 1.0 as they are written, in ProtoJSON: camelCase names, enums by name,
// members that are not set left out. // source: A2A 1.0 section 4

// Roles of a message.
const (
	roleUser  = "ROLE_USER"
	roleAgent = "ROLE_AGENT"
)

// Message is one message of a task.
type Message struct {
	MessageID        string         `json:"messageId"`
	ContextID        string         `json:"contextId,omitzero"`
	TaskID           string         `json:"taskId,omitzero"`
	Role             string         `json:"role"`
	Parts            jsontext.Value `json:"parts,omitzero"`
	Metadata         jsontext.Value `json:"metadata,omitzero"`
	Extensions       []string       `json:"extensions,omitzero"`
	ReferenceTaskIDs []string       `json:"referenceTaskIds,omitzero"`
	// Kind is a member that messages had in A2A 0.3. It is never written.
	Kind jsontext.Value `json:"kind,omitzero"`
}

// Task is a conversation between an agent and the organization that began it.
type Task struct {
	ID        string         `json:"id"`
	ContextID string         `json:"contextId"`
	Status    TaskStatus     `json:"status"`
	Artifacts []Artifact     `json:"artifacts,omitzero"`
	History   []Message      `json:"history,omitzero"`
	Metadata  map[string]any `json:"metadata,omitzero"`
}

// TaskStatus is the state of a task. Message is the agent's last word on it.
type TaskStatus struct {
	State     string   `json:"state"`
	Message   *Message `json:"message,omitzero"`
	Timestamp string   `json:"timestamp"`
}

// Artifact is a result of a task.
type Artifact struct {
	ArtifactID string         `json:"artifactId"`
	Parts      jsontext.Value `json:"parts"`
	Metadata   jsontext.Value `json:"metadata,omitzero"`
}

// sendResult is the result of SendMessage: exactly one member is set.
type sendResult struct {
	Task    *Task    `json:"task,omitzero"`
	Message *Message `json:"message,omitzero"`
}

// StreamResponse is one event of a stream: exactly one member is set.
type StreamResponse struct {
	Task           *Task           `json:"task,omitzero"`
	StatusUpdate   *StatusUpdate   `json:"statusUpdate,omitzero"`
	ArtifactUpdate *ArtifactUpdate `json:"artifactUpdate,omitzero"`
}

// StatusUpdate says that the status of a task has changed, or that the agent wrote something.
type StatusUpdate struct {
	TaskID    string         `json:"taskId"`
	ContextID string         `json:"contextId"`
	Status    TaskStatus     `json:"status"`
	Metadata  map[string]any `json:"metadata,omitzero"`
}

// ArtifactUpdate brings a result, whole.
type ArtifactUpdate struct {
	TaskID    string   `json:"taskId"`
	ContextID string   `json:"contextId"`
	Artifact  Artifact `json:"artifact"`
	LastChunk bool     `json:"lastChunk"`
}

// states are the names of states. A paused task is one that works; its metadata say so.
var states = map[conversation.Status]string{
	conversation.Submitted: "TASK_STATE_SUBMITTED", conversation.Open: "TASK_STATE_WORKING", conversation.Paused: "TASK_STATE_WORKING",
	conversation.InputRequired: "TASK_STATE_INPUT_REQUIRED", conversation.Completed: "TASK_STATE_COMPLETED",
	conversation.Failed: "TASK_STATE_FAILED", conversation.Canceled: "TASK_STATE_CANCELED", conversation.Rejected: "TASK_STATE_REJECTED",
}

// authRequired is the state of a task that waits for an authorization, which is one of input
// for a conversation.
const authRequired = "TASK_STATE_AUTH_REQUIRED"

// stateOf returns the name of the state that a status gives a task. auth says that it is
// because of an authorization.
func stateOf(s conversation.Status, auth bool) string {
	if auth {
		return authRequired
	}
	return states[s]
}

// stamp formats an instant in Unix milliseconds.
func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
