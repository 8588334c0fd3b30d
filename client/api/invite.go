package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/client/parley"
)

// InvitesMax is how many agents one request may invite.
const InvitesMax = 100

// inviteMessageMax is the maximum length of an invitation's message, in characters.
const inviteMessageMax = 500

// Invite invites one or several agents to a group: POST /groups/{id}/invite. The answer
// is an InviteResult for one and InviteResults for several.
type Invite struct {
	ID parley.GroupID `json:"-" path:"id" required:"true"`
	// ActingAgent is the agent that invites; by default the organization's first admin
	// in the group, else its first member.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`

	// Either AgentID or Handle names one agent, or Agents names several.
	AgentID *parley.AgentID `json:"agent_id,omitzero"`
	Handle  *string         `json:"handle,omitzero" aliases:"agent_handle" example:"bob@acme.localhost"`
	// Agents are each named by id or handle as a string, or by an object with agent_id
	// or handle and optionally a message.
	Agents  []Target `json:"agents,omitzero" aliases:"members,invites,agent_ids,handles" maxItems:"100"`
	Message *string  `json:"message,omitzero" maxLength:"500"`
}

// InviteResult is the answer to an invitation of one agent.
type InviteResult struct {
	// RequestID is null if no invitation is needed.
	RequestID *parley.JoinRequestID `json:"request_id"`
	// Status is invited, pending (a nomination) or not_required (an open group).
	Status string `json:"status" enum:"invited,pending,not_required"`
}

// Outcomes of an invitation.
const (
	Invited       = "invited"
	InvitePending = "pending"
	NotRequired   = "not_required"
	Skipped       = "skipped"
)

// Reasons why an agent of a list was not invited.
const (
	SkipNotFound  = "not_found"
	SkipRevoked   = "revoked"
	SkipSelf      = "self"
	SkipMember    = "already_member"
	SkipInvited   = "already_invited"
	SkipIsolation = "isolation_conflict"
	SkipFull      = "group_full"
	SkipQuota     = "quota_exceeded"
)

// Invitation is the outcome for one entry of a list of agents to invite.
type Invitation struct {
	// AgentID is null, like Handle, if the agent is not known.
	AgentID   *parley.AgentID       `json:"agent_id"`
	Handle    *string               `json:"handle"`
	RequestID *parley.JoinRequestID `json:"request_id"`
	Status    string                `json:"status" enum:"invited,pending,not_required,skipped"`
	// Reason is null unless Status is skipped.
	Reason *string `json:"reason" enum:"not_found,revoked,self,already_member,already_invited,isolation_conflict,group_full,quota_exceeded"`
}

// InviteResults is the answer to an invitation of several agents.
type InviteResults struct {
	// Results has a row for each agent, in the order given.
	Results []Invitation `json:"results"`
	Invited int          `json:"invited"`
	Pending int          `json:"pending"`
	Skipped int          `json:"skipped"`
}

// InviteAnswer is an InviteResult if the request named one agent, and InviteResults if
// it named several.
type InviteAnswer struct {
	One     *InviteResult
	Several *InviteResults
}

// OneOf returns the shapes that the answer may have.
func (InviteAnswer) OneOf() []any { return []any{InviteResult{}, InviteResults{}} }

// MarshalJSON writes the value that is set.
func (a InviteAnswer) MarshalJSON() ([]byte, error) {
	if a.Several != nil {
		return json.Marshal(a.Several)
	}
	return json.Marshal(a.One)
}

// UnmarshalJSON reads either shape.
func (a *InviteAnswer) UnmarshalJSON(b []byte) error {
	several := InviteResults{}
	if err := json.Unmarshal(b, &several); err != nil {
		return err
	}
	if several.Results != nil {
		*a = InviteAnswer{Several: &several}
		return nil
	}
	*a = InviteAnswer{One: &InviteResult{}}
	return json.Unmarshal(b, a.One)
}

// Target names an agent to invite to a group: a JSON string with its id or handle, or
// an object with agent_id or handle and optionally a message.
type Target jsontext.Value

// TargetNamed returns a Target with an id or a handle.
func TargetNamed(name string) Target {
	b, _ := json.Marshal(name)
	return b
}

// MarshalJSON writes the target unchanged.
func (t Target) MarshalJSON() ([]byte, error) { return orNull(t), nil }

// MarshalJSONTo writes the target unchanged.
func (t Target) MarshalJSONTo(enc *jsontext.Encoder) error { return enc.WriteValue(orNull(t)) }

// UnmarshalJSON keeps a copy of b without checking it.
func (t *Target) UnmarshalJSON(b []byte) error {
	*t = bytes.Clone(bytes.TrimSpace(b))
	return nil
}

// UnmarshalJSONFrom keeps a copy of the next value without checking it.
func (t *Target) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	b, err := dec.ReadValue()
	if err != nil {
		return err
	}
	return t.UnmarshalJSON(b)
}

// Named is the content of a Target.
type Named struct {
	// Name is an id or a handle, as it was sent.
	Name string
	// Message is nil if the target has no message of its own.
	Message *string
}

// Read returns the name in the target. Whether the name has the right form and exists
// is checked later, so that one bad entry does not spoil a list. fault is a sentence if
// the value is not a target at all, and empty otherwise.
func (t Target) Read() (named Named, fault string) {
	const shape = "should be an id or a handle, or an object with agent_id or handle"
	if len(t) > 0 && t[0] == '"' {
		_ = json.Unmarshal(t, &named.Name)
		return named, ""
	}
	if len(t) == 0 || t[0] != '{' {
		return named, shape
	}
	var in struct {
		AgentID     *string `json:"agent_id"`
		ID          *string `json:"id"`
		Handle      *string `json:"handle"`
		AgentHandle *string `json:"agent_handle"`
		Message     *string `json:"message"`
	}
	if jsonv2.Unmarshal(t, &in) != nil { // names as they are spelled, unlike the other
		return named, shape
	}
	found := 0
	for _, name := range []*string{in.AgentID, in.Handle} {
		if name != nil {
			named.Name = *name
			found++
		}
	}
	for _, name := range []*string{in.ID, in.AgentHandle} {
		if found == 0 && name != nil {
			named.Name = *name
			found++
		}
	}
	switch {
	case found == 0:
		return named, shape
	case found > 1:
		return named, "exactly one of agent_id and handle is required"
	case in.Message != nil && utf8.RuneCountInString(*in.Message) > inviteMessageMax:
		return named, "message should have at most 500 characters"
	}
	named.Message = in.Message
	return named, ""
}

// Check checks the targets in Members.
func (in *CreateGroup) Check() []FieldError { return checkTargets("members", in.Members) }

// Check checks whom an invitation names: one agent, or a list of them.
func (in *Invite) Check() []FieldError {
	faults := checkTargets("agents", in.Agents)
	fault := func(field, msg string) {
		faults = append(faults, FieldError{Loc: []any{"body", field}, Msg: "Value error, " + msg, Type: valueError})
	}
	named := 0
	for _, there := range []bool{in.AgentID != nil, in.Handle != nil, in.Agents != nil} {
		if there {
			named++
		}
	}
	if named != 1 {
		fault("agent_id", "exactly one of agent_id, handle and agents is required")
	}
	if in.Handle != nil {
		if h, err := parley.ParseHandle(strings.TrimSpace(*in.Handle)); err != nil || h.Group {
			fault("handle", "the handle should be of the form agent@org.domain")
		}
	}
	return faults
}

func checkTargets(field string, targets []Target) (faults []FieldError) {
	for i, t := range targets {
		if _, fault := t.Read(); fault != "" {
			faults = append(faults, FieldError{Loc: []any{"body", field, i}, Msg: "Value error, " + fault, Type: valueError})
		}
	}
	return faults
}
