// Package agent holds the rules of an agent: its settings, keys, poll token, card and
// revocation, which groups it may enter, and whether it may send a direct message. It
// does no I/O and reads no clock.
package agent

import (
	"bytes"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/client/parley"
)

// Policies of an agent. // spec: Agent (AgentRead)
const (
	AcceptAll  = "accept_all"
	SendAll    = "send_all"
	GroupsOnly = "groups_only"
)

// Exists reports whether the agent was ever created.
func (s *State) Exists() bool { return len(s.GetId()) > 0 }

// AgentID returns the agent's id.
func (s *State) AgentID() (id parley.AgentID) {
	copy(id[:], s.GetId())
	return id
}

// Owner returns the organization that owns the agent.
func (s *State) Owner() (id parley.OrgID) {
	copy(id[:], s.GetOrgId())
	return id
}

// CreatedAt returns when the agent was created, UTC.
func (s *State) CreatedAt() time.Time { return time.UnixMilli(s.GetCreatedMs()).UTC() }

// RevokedAt returns when the agent was revoked, UTC; false while it is active.
func (s *State) RevokedAt() (time.Time, bool) {
	return time.UnixMilli(s.GetRevokedMs()).UTC(), s.Revoked()
}

// Revoked reports whether the agent was revoked.
func (s *State) Revoked() bool { return s.GetRevokedMs() != 0 }

// Warnings returns sentences for the owner about settings that cut the agent off: the
// policy groups_only while the agent is in no group. The slice may be empty, but is never
// nil.
func (s *State) Warnings() []string {
	warnings := []string{}
	if len(s.GetGroups()) > 0 {
		return warnings
	}
	if s.GetIncomingPolicy() == GroupsOnly {
		warnings = append(warnings, "incoming_policy is groups_only and the agent is in no group: it can receive only replies.")
	}
	if s.GetOutgoingPolicy() == GroupsOnly {
		warnings = append(warnings, "outgoing_policy is groups_only and the agent is in no group: it can send only replies.")
	}
	return warnings
}

// Command asks for a change of an agent.
//
//sumtype:decl
type Command interface{ command() }

// Create creates the agent. Creating an agent that exists changes nothing, so the command
// may be repeated after a crash. The organization has already checked the name and the
// quota.
type Create struct {
	ID             parley.AgentID
	OrgID          parley.OrgID
	Name           string
	HumanOversight bool
	Unlisted       bool
	// SigningKey is a raw Ed25519 key, EncryptionKey a raw X25519 key.
	SigningKey    []byte
	EncryptionKey []byte
	// PollTokenHash is the SHA-256 of the agent's first poll token.
	PollTokenHash []byte
}

// Change alters settings. A nil field keeps its value.
type Change struct {
	// Name may only be the agent's present name.
	Name           *string
	HumanOversight *bool
	IncomingPolicy *string
	OutgoingPolicy *string
	Unlisted       *bool
}

// IssuePollToken makes the token with this SHA-256 the only valid one.
type IssuePollToken struct {
	Hash []byte
}

// RevokePollToken removes the agent's poll token.
type RevokePollToken struct{}

// Revoke revokes the agent and ends its memberships. A caller that notifies the agent's
// groups reads them first. Revoking it again changes nothing.
type Revoke struct{}

// Send asks whether the agent may send a direct message. It yields no events: the message
// is stored in a conversation.
type Send struct {
	// Prior is the earlier send under the same idempotency key, nil if there was none.
	Prior     *Prior
	Type      string
	Recipient parley.AgentID
	// RecipientOrg owns the recipient.
	RecipientOrg parley.OrgID
	// Lookups of the recipient. RecipientGroupsOnly is its incoming policy, RecipientBlocks that
	// it blocks the sender, which is answered alike.
	RecipientKnown      bool
	RecipientRevoked    bool
	RecipientGroupsOnly bool
	RecipientBlocks     bool
	Parent              ParentFact
	// RecipientGroups is a lookup: the recipient's memberships.
	RecipientGroups []*Membership
	// KeyExchange: the message distributes or requests a sender key. Between two agents
	// that share a group, policies do not block it; isolation does.
	KeyExchange bool
}

// Prior describes an earlier send under the same idempotency key.
type Prior struct {
	MessageID parley.MessageID
	Recipient parley.AgentID
	Type      string
}

// ParentFact is a lookup of the conversation that a send names as its parent.
type ParentFact struct {
	// Named: the send names a parent.
	Named bool
	// Known: the conversation exists.
	Known bool
	// Participant: the sender takes part in the conversation.
	Participant bool
}

func (Create) command()          {}
func (Change) command()          {}
func (RotateKeys) command()      {}
func (BindKeys) command()        {}
func (RetireKey) command()       {}
func (IssuePollToken) command()  {}
func (RevokePollToken) command() {}
func (Revoke) command()          {}
func (Send) command()            {}
func (Enter) command()           {}
func (Depart) command()          {}

// Event is a fact about an agent: past tense, append-only on disk.
//
//sumtype:decl
type Event interface {
	proto.Message
	event()
}

func (*Created) event()          {}
func (*Changed) event()          {}
func (*KeysRotated) event()      {}
func (*PollTokenIssued) event()  {}
func (*PollTokenRevoked) event() {}
func (*Revoked) event()          {}
func (*Entered) event()          {}
func (*Departed) event()         {}
func (*KeysBound) event()        {}
func (*KeyDistrusted) event()    {}

// Tag returns the number that identifies an event's kind on disk. Numbers are added,
// never changed or reused.
func Tag(e Event) byte {
	switch e.(type) {
	case *Created:
		return 1
	case *Changed:
		return 2
	case *KeysRotated:
		return 3
	case *PollTokenIssued:
		return 4
	case *PollTokenRevoked:
		return 5
	case *Revoked:
		return 6
	case *Entered:
		return 7
	case *Departed:
		return 8
	case *KeysBound:
		return 9
	case *KeyDistrusted:
		return 10
	case *CardPublished:
		return 11
	case *CardWithdrawn:
		return 12
	case *PQKeySet:
		return 13
	case *PQKeyRemoved:
		return 14
	case *KeyPackagesStored:
		return 15
	case *KeyPackageClaimed:
		return 16
	case *KeyPackagesExpired:
		return 17
	case *Blocked:
		return 18
	case *Unblocked:
		return 19
	}
	panic("agent: unknown event")
}

// New returns an empty event of the kind with this tag, false for an unknown tag.
func New(tag byte) (Event, bool) {
	switch tag {
	case 1:
		return &Created{}, true
	case 2:
		return &Changed{}, true
	case 3:
		return &KeysRotated{}, true
	case 4:
		return &PollTokenIssued{}, true
	case 5:
		return &PollTokenRevoked{}, true
	case 6:
		return &Revoked{}, true
	case 7:
		return &Entered{}, true
	case 8:
		return &Departed{}, true
	case 9:
		return &KeysBound{}, true
	case 10:
		return &KeyDistrusted{}, true
	case 11:
		return &CardPublished{}, true
	case 12:
		return &CardWithdrawn{}, true
	case 13:
		return &PQKeySet{}, true
	case 14:
		return &PQKeyRemoved{}, true
	case 15:
		return &KeyPackagesStored{}, true
	case 16:
		return &KeyPackageClaimed{}, true
	case 17:
		return &KeyPackagesExpired{}, true
	case 18:
		return &Blocked{}, true
	case 19:
		return &Unblocked{}, true
	}
	return nil, false
}

// ErrRepeated is not a refusal: an earlier request sent the message under the same
// idempotency key, and the stored message is the answer.
var ErrRepeated = errors.New("agent: the message was sent before under this idempotency key")

// Refusals of an agent.
var (
	ErrUnknown             = parley.ErrNotFound.Saying("There is no such agent.")
	ErrRevoked             = parley.ErrGone.Saying("The agent has been revoked.")
	ErrNameImmutable       = parley.Refuse(parley.Conflict, "name_immutable", "An agent's name cannot change, because its handle is built on it.")
	ErrIdempotencyMismatch = parley.Refuse(parley.Conflict, "idempotency_mismatch", "The Idempotency-Key was used for a send of another type or to another recipient.")
	// ErrNotHere: the caller knows that the sender exists, so its creation has not
	// reached its home yet.
	ErrNotHere          = parley.ErrOverloaded.Saying("The sender is being created. Try again shortly.")
	ErrSenderRevoked    = parley.ErrNotOwner.Saying("The acting agent is not an active agent of your organization.")
	ErrUnknownRecipient = parley.ErrNotFound.Saying("There is no such recipient.")
	ErrRecipientRevoked = parley.ErrGone.Saying("The recipient has been revoked.")
	ErrUnknownParent    = parley.ErrNotFound.Saying("There is no such parent conversation.")
	ErrNotInParent      = parley.ErrNotOwner.Saying("The sender takes no part in the parent conversation.")
	ErrOutgoingPolicy   = parley.Refuse(parley.Forbidden, "outgoing_policy", "The sender's outgoing policy allows messages to groups only.")
	ErrIncomingPolicy   = parley.ErrIncomingPolicy
	// ErrRecipientBlocked is the sender's own block.
	ErrRecipientBlocked = ErrOutgoingPolicy.Saying("The sender blocks the recipient.")
	// ErrIsolationConflict: creating a group counts as joining it.
	ErrIsolationConflict = parley.Refuse(parley.Conflict, "isolation_conflict", "An agent of an isolated group is in no other group.")
	ErrSelfMessage       = parley.Refuse(parley.Unprocessable, "self_message", "An agent cannot send a message to itself. Name another sender of your organization by from_handle or the acting-agent header.")
)

// Decide applies the rules to c in state s and returns the resulting events, or the
// refusal. It never changes s. A command that changes nothing yields no event.
func Decide(s *State, c Command, now time.Time) ([]Event, error) {
	switch c := c.(type) {
	case Create:
		return decideCreate(s, c, now)
	case Change:
		return decideChange(s, c, now)
	case RotateKeys:
		return decideRotateKeys(s, c, now)
	case BindKeys:
		return decideBindKeys(s, c, now)
	case RetireKey:
		return decideRetireKey(s, c, now)
	case IssuePollToken:
		return decideIssuePollToken(s, c, now)
	case RevokePollToken:
		return decideRevokePollToken(s, now)
	case Revoke:
		return decideRevoke(s, now)
	case Send:
		return nil, judgeSend(s, c)
	case Enter:
		return decideEnter(s, c, now)
	case Depart:
		return decideDepart(s, c, now)
	case PublishCard:
		return decidePublishCard(s, c, now)
	case WithdrawCard:
		return decideWithdrawCard(s, now)
	case SetPQKey:
		return decideSetPQKey(s, c, now)
	case RemovePQKey:
		return decideRemovePQKey(s, now)
	case Logged:
		return decideLogged(s, c, now)
	case StoreKeyPackages:
		return decideStoreKeyPackages(s, c, now)
	case ClaimKeyPackage:
		return decideClaimKeyPackage(s, c, now)
	case SetBlock:
		return decideSetBlock(s, c, now)
	case EndBlock:
		return decideEndBlock(s, c, now)
	}
	panic("agent: unknown command")
}

func decideCreate(s *State, c Create, now time.Time) ([]Event, error) {
	if s.Exists() {
		return nil, nil
	}
	return []Event{&Created{
		Id: c.ID.Bytes(), OrgId: c.OrgID.Bytes(), Name: c.Name,
		HumanOversight: c.HumanOversight, Unlisted: c.Unlisted,
		IncomingPolicy: AcceptAll, OutgoingPolicy: SendAll,
		SigningKey: c.SigningKey, EncryptionKey: c.EncryptionKey,
		PollTokenHash: c.PollTokenHash, AtMs: now.UnixMilli(),
	}}, nil
}

// active returns a refusal if the agent does not exist or was revoked.
func (s *State) active() error {
	switch {
	case !s.Exists():
		return ErrUnknown
	case s.Revoked():
		return ErrRevoked
	}
	return nil
}

func decideChange(s *State, c Change, now time.Time) ([]Event, error) {
	if err := s.active(); err != nil {
		return nil, err
	}
	if c.Name != nil && *c.Name != s.GetName() {
		return nil, ErrNameImmutable
	}
	e := &Changed{
		HumanOversight: differing(c.HumanOversight, s.GetHumanOversight()),
		IncomingPolicy: differing(c.IncomingPolicy, s.GetIncomingPolicy()),
		OutgoingPolicy: differing(c.OutgoingPolicy, s.GetOutgoingPolicy()),
		Unlisted:       differing(c.Unlisted, s.GetUnlisted()),
		AtMs:           now.UnixMilli(),
	}
	if e.HumanOversight == nil && e.IncomingPolicy == nil && e.OutgoingPolicy == nil && e.Unlisted == nil {
		return nil, nil
	}
	return []Event{e}, nil
}

// differing returns wanted, or nil if it equals has.
func differing[T comparable](wanted *T, has T) *T {
	if wanted == nil || *wanted == has {
		return nil
	}
	return wanted
}

func decideIssuePollToken(s *State, c IssuePollToken, now time.Time) ([]Event, error) {
	if err := s.active(); err != nil {
		return nil, err
	}
	if bytes.Equal(c.Hash, s.GetPollTokenHash()) {
		return nil, nil
	}
	return []Event{&PollTokenIssued{Hash: c.Hash, AtMs: now.UnixMilli()}}, nil
}

func decideRevokePollToken(s *State, now time.Time) ([]Event, error) {
	if err := s.active(); err != nil {
		return nil, err
	}
	if len(s.GetPollTokenHash()) == 0 {
		return nil, nil
	}
	return []Event{&PollTokenRevoked{AtMs: now.UnixMilli()}}, nil
}

func decideRevoke(s *State, now time.Time) ([]Event, error) {
	switch {
	case !s.Exists():
		return nil, ErrUnknown
	case s.Revoked():
		return nil, nil
	}
	return []Event{&Revoked{AtMs: now.UnixMilli()}}, nil
}

// judgeSend checks in this order: whether the message was sent before, whether all
// parties exist, whether they may talk, and whether the message makes sense.
func judgeSend(s *State, c Send) error {
	switch {
	case c.Prior != nil:
		return c.Prior.judge(c)
	case !s.Exists():
		return ErrNotHere
	case s.Revoked():
		return ErrSenderRevoked
	case !c.RecipientKnown:
		return ErrUnknownRecipient
	case c.RecipientRevoked:
		return ErrRecipientRevoked
	case c.Parent.Named && !c.Parent.Known:
		return ErrUnknownParent
	case c.Parent.Named && !c.Parent.Participant:
		return ErrNotInParent
	case c.Recipient != s.AgentID() && Apart(s.GetGroups(), c.RecipientGroups):
		return parley.ErrIsolatedAgent
	case s.GetOutgoingPolicy() == GroupsOnly && !c.exempt(s):
		return ErrOutgoingPolicy
	case Blocks(s, c.Recipient, c.RecipientOrg) && !c.exempt(s):
		return ErrRecipientBlocked
	case (c.RecipientGroupsOnly || c.RecipientBlocks) && !c.exempt(s):
		return ErrIncomingPolicy
	case c.Recipient == s.AgentID():
		return ErrSelfMessage
	}
	return nil
}

// exempt reports whether policies do not apply to the message.
func (c Send) exempt(s *State) bool {
	return c.KeyExchange && acquainted(s.GetGroups(), c.RecipientGroups)
}

func (p *Prior) judge(c Send) error {
	if p.Recipient != c.Recipient || p.Type != c.Type {
		return ErrIdempotencyMismatch
	}
	return ErrRepeated
}
