package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley"
)

// InvitesMax is how many agents one request may ask in.
const InvitesMax = 100

// inviteMessageMax is how long the words beside an invitation may be.
const inviteMessageMax = 500

// Invite asks one agent into a group, or several: POST /groups/{id}/invite. The
// answer is an InviteResult for one and InviteResults for several.
type Invite struct {
	ID parley.GroupID `json:"-" path:"id" required:"true"`
	// ActingAgent invites; by default the organization's first admin in the group,
	// else its first member.
	ActingAgent string `json:"-" header:"X-Svc-Agent"`

	// Either AgentID or Handle names one agent, or Agents names several.
	AgentID *parley.AgentID `json:"agent_id,omitzero"`
	Handle  *string         `json:"handle,omitzero" aliases:"agent_handle" example:"bob@acme.localhost"`
	// Agents are each named by its id or handle as a string, or by an object with
	// agent_id or handle and perhaps a message.
	Agents  []Target `json:"agents,omitzero" aliases:"members,invites,agent_ids,handles" maxItems:"100"`
	Message *string  `json:"message,omitzero" maxLength:"500"`
}

// InviteResult is the answer to an invitation of one agent.
type InviteResult struct {
	// RequestID is null where no invitation is needed.
	RequestID *parley.JoinRequestID `json:"request_id"`
	// Status is invited, pending (a nomination) or not_required (an open group).
	Status string `json:"status" enum:"invited,pending,not_required"`
}

// What became of an invitation.
const (
	Invited       = "invited"
	InvitePending = "pending"
	NotRequired   = "not_required"
	Skipped       = "skipped"
)

// Why an agent of a list was not invited.
const (
	SkipNotFound  = "not_found"
	SkipRevoked   = "revoked"
	SkipSelf      = "self"
	SkipMember    = "already_member"
	SkipInvited   = "already_invited"
	SkipIsolation = "isolation_conflict"
	SkipFull      = "group_full"
)

// Invitation is what became of one entry of a list of agents to invite.
type Invitation struct {
	// AgentID and Handle are null where the agent is not known.
	AgentID   *parley.AgentID       `json:"agent_id"`
	Handle    *string               `json:"handle"`
	RequestID *parley.JoinRequestID `json:"request_id"`
	Status    string                `json:"status" enum:"invited,pending,not_required,skipped"`
	// Reason is null unless Status is skipped.
	Reason *string `json:"reason" enum:"not_found,revoked,self,already_member,already_invited,isolation_conflict,group_full"`
}

// InviteResults is the answer to an invitation of several agents.
type InviteResults struct {
	// Results has a row for each agent, in the order given.
	Results []Invitation `json:"results"`
	Invited int          `json:"invited"`
	Pending int          `json:"pending"`
	Skipped int          `json:"skipped"`
}

// InviteAnswer is an InviteResult or InviteResults, as one agent or several were
// asked in.
type InviteAnswer struct {
	One     *InviteResult
	Several *InviteResults
}

// OneOf are the shapes that the answer may have.
func (InviteAnswer) OneOf() []any { return []any{InviteResult{}, InviteResults{}} }

// MarshalJSON writes the one that is there.
func (a InviteAnswer) MarshalJSON() ([]byte, error) {
	if a.Several != nil {
		return json.Marshal(a.Several)
	}
	return json.Marshal(a.One)
}

// UnmarshalJSON reads the one that it is.
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

// Target names an agent that is asked into a group: a JSON string with its id
// or handle, or an object with agent_id or handle and perhaps a message.
type Target jsontext.Value

// TargetNamed is a Target of an id or a handle.
func TargetNamed(name string) Target {
	b, _ := json.Marshal(name)
	return b
}

// MarshalJSON writes the target as it is.
func (t Target) MarshalJSON() ([]byte, error) { return orNull(t), nil }

// MarshalJSONTo writes the target as it is.
func (t Target) MarshalJSONTo(enc *jsontext.Encoder) error { return enc.WriteValue(orNull(t)) }

// UnmarshalJSON keeps a copy of b, whatever it is.
func (t *Target) UnmarshalJSON(b []byte) error {
	*t = bytes.Clone(bytes.TrimSpace(b))
	return nil
}

// UnmarshalJSONFrom keeps a copy of the next value, whatever it is.
func (t *Target) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	b, err := dec.ReadValue()
	if err != nil {
		return err
	}
	return t.UnmarshalJSON(b)
}

// Named is what a Target says.
type Named struct {
	// Name is an id or a handle, as it was sent.
	Name string
	// Message is nil where the target has none of its own.
	Message *string
}

// Read tells whom the target names. Whether the name is of the right form and
// anybody's is judged later: one bad entry does not spoil a list. fault is a
// sentence about what is no target at all, empty if it is one.
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

// Check judges the targets of a roster.
func (in *CreateGroup) Check() []FieldError { return checkTargets("members", in.Members) }

// Check judges whom an invitation names: one agent, or a list of them.
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
