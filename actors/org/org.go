// Package org holds the rules of an organization: its record, its credentials
// and how many agents and groups it may own. It does no I/O and reads no clock.
package org

import (
	"bytes"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/client/parley"
)

// Exists reports whether the organization was ever registered.
func (s *State) Exists() bool { return len(s.GetId()) > 0 }

// OrgID returns the organization's id.
func (s *State) OrgID() (id parley.OrgID) {
	copy(id[:], s.GetId())
	return id
}

// CreatedAt returns when the organization registered, UTC.
func (s *State) CreatedAt() time.Time { return time.UnixMilli(s.GetCreatedMs()).UTC() }

// Credential returns the credential with that client id, live or revoked; nil if there is
// none.
func (s *State) Credential(client parley.ClientID) *Credential {
	for _, c := range s.GetCredentials() {
		if c.Client() == client {
			return c
		}
	}
	return nil
}

// Client returns the credential's id.
func (c *Credential) Client() (id parley.ClientID) {
	copy(id[:], c.GetClientId())
	return id
}

// Command asks for a change of an organization.
//
//sumtype:decl
type Command interface{ command() }

// Register creates the organization. Registering one that exists changes nothing, so the
// command may be repeated after a crash.
type Register struct {
	ID    parley.OrgID
	Name  string
	Slug  string
	Email string
	// Tier is the initial trust tier.
	Tier       int
	ClientID   parley.ClientID
	SecretHash []byte
	// ChallengeID and Difficulty, in bits, are those of the solved proof of work.
	ChallengeID string
	Difficulty  int
}

// AddCredential adds a credential.
type AddCredential struct {
	ClientID   parley.ClientID
	SecretHash []byte
	Scope      parley.Scope
	// Agents are those to which it is limited, nil if it is not. The caller has checked that they
	// are active ones of the organization.
	Agents      []parley.AgentID
	Description string
	// Expires is when its end is due, zero for never.
	Expires time.Time
}

// RevokeCredential revokes a credential and its tokens.
type RevokeCredential struct {
	ClientID parley.ClientID
}

// AnnounceExpiries announces the credentials of which an instant of Announcements has come.
type AnnounceExpiries struct{}

// AddAgent adds a new agent to the count. Names are stored in rows, so the lookup of the
// name comes with the command.
type AddAgent struct {
	AgentID parley.AgentID
	Name    string
	// NameTaken is a lookup: an agent of the organization has or had the name.
	NameTaken bool
	// AgentLimit is how many active agents the organization may own; nil means no limit.
	AgentLimit *int
}

// RetireAgent removes a revoked agent from the count. The organization does not store
// which agents are active.
type RetireAgent struct {
	AgentID parley.AgentID
	// Retired is a lookup: this agent was removed from the count before.
	Retired bool
}

// AddGroup adds a new group to the count. As with AddAgent, the lookup of the name comes
// with the command.
type AddGroup struct {
	GroupID parley.GroupID
	Name    string
	// NameTaken is a lookup: a group of the organization has or had the name.
	NameTaken bool
	// GroupLimit is how many groups the organization may own; nil means no limit.
	GroupLimit *int
}

// RetireGroup removes a deleted group from the count. A group reports its deletion once.
type RetireGroup struct {
	GroupID parley.GroupID
}

// GrantTier sets the organization's trust tier, higher or lower. It is the operator's
// decision: email verification does not change it, and if it lowers the tier, neither does
// a workload identity.
type GrantTier struct {
	// Tier is 0 to TierMax.
	Tier int
	// AtLeast says that a higher tier stays.
	AtLeast bool
}

// SetAllowance sets a quota for this organization that overrides its tier's.
type SetAllowance struct {
	// Quota is its name in GET /org/quotas. This package does not know which names exist.
	Quota string
	// Limit is the new limit; nil means no limit.
	Limit *int
}

// LiftAllowance returns a quota to that of the organization's tier.
type LiftAllowance struct {
	Quota string
}

// Suspend stops all activity of the organization until Resume. Both are the operator's.
type Suspend struct{}

// Resume ends a suspension.
type Resume struct{}

// Hold keeps the organization from being erased until Release. Both are the operator's.
type Hold struct{}

// Release ends a hold.
type Release struct{}

// ConfirmEmail says that the organization returned the token that was mailed to its
// address at registration. It raises the tier once, and does not override the operator.
type ConfirmEmail struct{}

func (Suspend) command()          {}
func (Hold) command()             {}
func (Release) command()          {}
func (ProveWorkload) command()    {}
func (Resume) command()           {}
func (Erase) command()            {}
func (GrantTier) command()        {}
func (SetAllowance) command()     {}
func (LiftAllowance) command()    {}
func (ConfirmEmail) command()     {}
func (Register) command()         {}
func (Change) command()           {}
func (AddCredential) command()    {}
func (RevokeCredential) command() {}
func (AnnounceExpiries) command() {}
func (AddAgent) command()         {}
func (RetireAgent) command()      {}
func (AddGroup) command()         {}
func (RetireGroup) command()      {}

// Event is a fact about an organization: past tense, append-only on disk.
//
//sumtype:decl
type Event interface {
	proto.Message
	event()
}

func (*Registered) event()        {}
func (*Changed) event()           {}
func (*CredentialAdded) event()   {}
func (*CredentialRevoked) event() {}
func (*ExpiryAnnounced) event()   {}
func (*AgentAdded) event()        {}
func (*AgentRetired) event()      {}
func (*GroupAdded) event()        {}
func (*GroupRetired) event()      {}
func (*TierGranted) event()       {}
func (*AllowanceSet) event()      {}
func (*AllowanceLifted) event()   {}
func (*EmailConfirmed) event()    {}
func (*Suspended) event()         {}
func (*Resumed) event()           {}
func (*Held) event()              {}
func (*Released) event()          {}
func (*WorkloadProven) event()    {}
func (*ErasureBegun) event()      {}

// Tag returns the number that identifies an event's kind on disk. Numbers are added,
// never changed or reused.
func Tag(e Event) byte {
	switch e.(type) {
	case *Registered:
		return 1
	case *Changed:
		return 2
	case *CredentialAdded:
		return 3
	case *CredentialRevoked:
		return 4
	case *AgentAdded:
		return 5
	case *AgentRetired:
		return 6
	case *GroupAdded:
		return 7
	case *GroupRetired:
		return 8
	case *TierGranted:
		return 9
	case *AllowanceSet:
		return 10
	case *AllowanceLifted:
		return 11
	case *EmailConfirmed:
		return 12
	case *Suspended:
		return 13
	case *Resumed:
		return 14
	case *WorkloadProven:
		return 15
	case *ErasureBegun:
		return 16
	case *Held:
		return 17
	case *Released:
		return 18
	case *ExpiryAnnounced:
		return 19
	}
	panic("org: unknown event")
}

// New returns an empty event of the kind with this tag, false for an unknown tag.
func New(tag byte) (Event, bool) {
	switch tag {
	case 1:
		return &Registered{}, true
	case 2:
		return &Changed{}, true
	case 3:
		return &CredentialAdded{}, true
	case 4:
		return &CredentialRevoked{}, true
	case 5:
		return &AgentAdded{}, true
	case 6:
		return &AgentRetired{}, true
	case 7:
		return &GroupAdded{}, true
	case 8:
		return &GroupRetired{}, true
	case 9:
		return &TierGranted{}, true
	case 10:
		return &AllowanceSet{}, true
	case 11:
		return &AllowanceLifted{}, true
	case 12:
		return &EmailConfirmed{}, true
	case 13:
		return &Suspended{}, true
	case 14:
		return &Resumed{}, true
	case 15:
		return &WorkloadProven{}, true
	case 16:
		return &ErasureBegun{}, true
	case 17:
		return &Held{}, true
	case 18:
		return &Released{}, true
	case 19:
		return &ExpiryAnnounced{}, true
	}
	return nil, false
}

// Refusals of an organization.
var (
	ErrUnknown           = parley.ErrNotFound.Saying("There is no such organization.")
	ErrUnknownCredential = parley.ErrNotFound.Saying("The organization has no such credential.")
	ErrSlugImmutable     = parley.Refuse(parley.Conflict, "slug_immutable", "An organization's slug cannot change.")
	// ErrLastCredential keeps an organization from locking itself out, because it has no
	// other way to regain access.
	ErrLastCredential = parley.Refuse(parley.Conflict, "last_credential", "The last live credential of scope org that does not expire cannot be revoked. Add another one first.")
	ErrExpiresEarly   = parley.Refuse(parley.Unprocessable, "validation_error", "Value error, expires_at must be in the future").With("loc", "expires_at")
	ErrNameTaken      = parley.Refuse(parley.Conflict, "name_taken", "An agent of your organization has or had this name.")
	ErrGroupNameTaken = ErrNameTaken.Saying("A group of your organization has or had this name.")
	// ErrQuotaExceeded carries quota, limit, used and resets_at.
	ErrQuotaExceeded = parley.Refuse(parley.Forbidden, "quota_exceeded", "Your organization has used up its quota.")
	// ErrNoSuchTier and ErrBadLimit are answers to the operator.
	ErrNoSuchTier = parley.Refuse(parley.Unprocessable, "validation_error", "A trust tier is a number from 0 to 3.")
	ErrBadLimit   = parley.Refuse(parley.Unprocessable, "validation_error", "A limit is a number from 0 on, or none.")
)

// Decide applies the rules to c in state s and returns the resulting events, or the
// refusal. It never changes s. A command that changes nothing yields no event.
func Decide(s *State, c Command, now time.Time) ([]Event, error) {
	if _, first := c.(Register); !first && !s.Exists() {
		return nil, ErrUnknown
	}
	if s.Erasing() {
		return decideErasing(c)
	}
	switch c := c.(type) {
	case Register:
		return decideRegister(s, c, now)
	case Change:
		return decideChange(s, c, now)
	case AddCredential:
		return decideAddCredential(s, c, now)
	case RevokeCredential:
		return decideRevokeCredential(s, c, now)
	case AnnounceExpiries:
		return announceExpiries(s, now), nil
	case AddAgent:
		return decideAddAgent(s, c, now)
	case RetireAgent:
		return decideRetireAgent(s, c, now)
	case AddGroup:
		return decideAddGroup(s, c, now)
	case RetireGroup:
		return decideRetireGroup(s, c, now)
	case GrantTier:
		return decideGrantTier(s, c, now)
	case SetAllowance:
		return decideSetAllowance(s, c, now)
	case LiftAllowance:
		return decideLiftAllowance(s, c, now)
	case ConfirmEmail:
		return decideConfirmEmail(s, now)
	case ProveWorkload:
		return decideProveWorkload(s, c, now)
	case Suspend:
		return decideSuspend(s, now), nil
	case Resume:
		return decideResume(s, now), nil
	case Hold:
		return decideHold(s, now), nil
	case Release:
		return decideRelease(s, now), nil
	case Erase:
		return decideErase(s, now)
	}
	panic("org: unknown command")
}

func decideRegister(s *State, c Register, now time.Time) ([]Event, error) {
	if s.Exists() {
		return nil, nil
	}
	return []Event{&Registered{
		Id: c.ID.Bytes(), Name: c.Name, Slug: c.Slug, ContactEmail: c.Email, TrustTier: int32(c.Tier),
		ClientId: c.ClientID.Bytes(), SecretHash: c.SecretHash, AtMs: now.UnixMilli(),
		ChallengeId: c.ChallengeID, Difficulty: uint32(c.Difficulty),
	}}, nil
}

func decideAddAgent(s *State, c AddAgent, now time.Time) ([]Event, error) {
	if c.NameTaken {
		return nil, ErrNameTaken
	}
	if err := within(c.AgentLimit, "agents", s.GetActiveAgents()); err != nil {
		return nil, err
	}
	return []Event{&AgentAdded{AgentId: c.AgentID.Bytes(), AtMs: now.UnixMilli()}}, nil
}

func decideRetireAgent(s *State, c RetireAgent, now time.Time) ([]Event, error) {
	if c.Retired || s.GetActiveAgents() == 0 {
		return nil, nil
	}
	return []Event{&AgentRetired{AgentId: c.AgentID.Bytes(), AtMs: now.UnixMilli()}}, nil
}

func decideAddGroup(s *State, c AddGroup, now time.Time) ([]Event, error) {
	if c.NameTaken {
		return nil, ErrGroupNameTaken
	}
	if err := within(c.GroupLimit, "groups", s.GetActiveGroups()); err != nil {
		return nil, err
	}
	return []Event{&GroupAdded{GroupId: c.GroupID.Bytes(), AtMs: now.UnixMilli()}}, nil
}

func decideRetireGroup(s *State, c RetireGroup, now time.Time) ([]Event, error) {
	if s.GetActiveGroups() == 0 {
		return nil, nil
	}
	return []Event{&GroupRetired{GroupId: c.GroupID.Bytes(), AtMs: now.UnixMilli()}}, nil
}

// within refuses one more of what a quota counts if the quota is used up.
func within(limit *int, quota string, used int64) error {
	if limit == nil || used < int64(*limit) {
		return nil
	}
	return ErrQuotaExceeded.OverQuota(quota, *limit, int(used), nil)
}

// Evolve folds one event into s. It cannot fail: an event is a fact.
func Evolve(s *State, e Event) {
	switch e := e.(type) {
	case *Registered:
		s.Id, s.Name, s.Slug, s.ContactEmail = e.Id, e.Name, e.Slug, e.ContactEmail
		s.TrustTier, s.CreatedMs = e.TrustTier, e.AtMs
		s.Credentials = append(s.Credentials, &Credential{ClientId: e.ClientId, SecretHash: e.SecretHash, CreatedMs: e.AtMs})
	case *Changed:
		evolveChanged(s, e)
	case *CredentialAdded:
		s.Credentials = slices.DeleteFunc(s.Credentials, func(c *Credential) bool {
			return slices.ContainsFunc(e.Forgotten, func(id []byte) bool { return bytes.Equal(id, c.GetClientId()) })
		})
		s.Credentials = append(s.Credentials, &Credential{
			ClientId: e.ClientId, SecretHash: e.SecretHash, CreatedMs: e.AtMs, Scope: e.Scope, Agents: e.Agents, Description: e.Description, ExpiresMs: e.ExpiresMs,
		})
	case *CredentialRevoked:
		var id parley.ClientID
		copy(id[:], e.ClientId)
		if c := s.Credential(id); c != nil { // a missing credential needs no revocation
			c.RevokedMs = e.AtMs
		}
		s.Epoch++
	case *ExpiryAnnounced:
		if c := s.Credential(e.Client()); c != nil {
			c.AnnouncedMs = e.DueMs
		}
	case *AgentAdded:
		s.ActiveAgents++
	case *AgentRetired:
		s.ActiveAgents--
	case *GroupAdded:
		s.ActiveGroups++
	case *GroupRetired:
		s.ActiveGroups--
	case *TierGranted:
		s.TrustTier, s.TierGrantedMs, s.TierLoweredMs = e.Tier, e.AtMs, 0
		if e.Lowered {
			s.TierLoweredMs = e.AtMs
		}
	case *AllowanceSet:
		s.setAllowance(e.GetAllowance())
	case *AllowanceLifted:
		s.liftAllowance(e.Quota)
	case *EmailConfirmed:
		s.TrustTier, s.EmailConfirmedMs = e.Tier, e.AtMs
	case *WorkloadProven:
		if e.Tier != s.TrustTier {
			s.TrustTier, s.WorkloadRaisedMs = e.Tier, e.AtMs
		}
		s.WorkloadProofs++
	case *Suspended:
		s.SuspendedMs = e.AtMs
	case *Resumed:
		s.SuspendedMs = 0
	case *Held:
		s.HeldMs = e.AtMs
	case *Released:
		s.HeldMs = 0
	case *ErasureBegun:
		s.evolveErasureBegun(e)
	}
}
