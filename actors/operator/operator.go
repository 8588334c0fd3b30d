// Package operator holds the rules of the tokens that operators have and hand out: the named tokens
// of operators, and the registration tokens of those who may register an organization. It does no
// I/O and reads no clock. There is one such stream for a server.
package operator

import (
	"bytes"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/client/parley"
)

// Bounds of what a server keeps.
const (
	TokensMax        = 100
	RegistrationsMax = 1000
	// UsesMax is how many organizations one registration token may admit.
	UsesMax = 1_000_000
)

// Role is what an operator may do. Each role has all rights of the one before it.
type Role string

// Roles of operators.
const (
	// RoleRead shows and lists.
	RoleRead Role = "read"
	// RoleSupport also suspends, resumes and approves organizations, closes reports and revokes agents.
	RoleSupport Role = "support"
	// RoleAdmin may do everything.
	RoleAdmin Role = "admin"
)

var roles = []Role{RoleRead, RoleSupport, RoleAdmin}

// Valid reports whether there is such a role.
func (r Role) Valid() bool { return slices.Contains(roles, r) }

// Covers reports whether an operator with role r may do what needs the role needed.
func (r Role) Covers(needed Role) bool {
	return needed.Valid() && slices.Index(roles, r) >= slices.Index(roles, needed)
}

// Refusals.
var (
	ErrNameTaken    = parley.Refuse(parley.Conflict, "name_taken", "There is an operator token of this name.")
	ErrTooMany      = parley.Refuse(parley.Forbidden, "quota_exceeded", "There are as many tokens as a server may have: revoke one first.")
	ErrUnknownToken = parley.ErrNotFound.Saying("There is no such token.")
	ErrNoSuchRole   = parley.Refuse(parley.Unprocessable, "validation_error", "The role is read, support or admin.")
	ErrBadUses      = parley.Refuse(parley.Unprocessable, "validation_error", "A registration token admits 1 to 1000000 organizations.")
	ErrUsedUp       = parley.Refuse(parley.Forbidden, "registration_closed", "The registration token admits nobody.")
	ErrExpiresEarly = parley.Refuse(parley.Unprocessable, "validation_error", "The token would already have expired.")
)

// Exists reports whether a token was ever added.
func (s *State) Exists() bool { return s.GetBegun() }

// Operator returns the token with a hash, nil if there is none.
func (s *State) Operator(hash []byte) *Token {
	return first(s.GetTokens(), func(t *Token) bool { return bytes.Equal(t.GetHash(), hash) })
}

// Registration returns the registration token with a hash, nil if it admits nobody at an instant.
func (s *State) Registration(hash []byte, now time.Time) *Registration {
	return first(s.GetRegistrations(), func(i *Registration) bool { return bytes.Equal(i.GetHash(), hash) && i.Admits(now) })
}

// Admits reports whether the token admits one more organization.
func (i *Registration) Admits(now time.Time) bool {
	return i.GetUsed() < i.GetUses() && !i.expired(now.UnixMilli())
}

func (i *Registration) expired(nowMs int64) bool { return nowMs >= i.GetExpiresMs() }

func first[T any](all []*T, suits func(*T) bool) *T {
	if at := slices.IndexFunc(all, suits); at >= 0 {
		return all[at]
	}
	return nil
}

func (s *State) registration(id []byte) *Registration {
	return first(s.GetRegistrations(), func(i *Registration) bool { return bytes.Equal(i.GetId(), id) })
}

// Command asks for a change of the tokens.
//
//sumtype:decl
type Command interface{ command() }

type (
	// AddToken adds a named token of an operator.
	AddToken struct {
		ID   parley.OperatorID
		Name string
		Role Role
		// Hash is the SHA-256 of the token.
		Hash []byte
	}
	// RevokeToken ends a named token.
	RevokeToken struct{ Name string }
	// AddRegistration adds a registration token.
	AddRegistration struct {
		ID      parley.RegistrationID
		Hash    []byte
		Uses    int
		Expires time.Time
		// Tier is the trust tier of the organizations that it admits; nil leaves it to the server.
		Tier *int
	}
	// RevokeRegistration ends a registration token.
	RevokeRegistration struct{ ID parley.RegistrationID }
	// UseRegistration takes one use of a registration token.
	UseRegistration struct{ Hash []byte }
	// ReturnRegistration gives a use back that admitted nobody.
	ReturnRegistration struct{ ID parley.RegistrationID }
)

func (AddToken) command()           {}
func (RevokeToken) command()        {}
func (AddRegistration) command()    {}
func (RevokeRegistration) command() {}
func (UseRegistration) command()    {}
func (ReturnRegistration) command() {}

// Event is a fact about the tokens: past tense, append-only on disk.
//
//sumtype:decl
type Event interface {
	proto.Message
	event()
}

func (*TokenAdded) event()           {}
func (*TokenRevoked) event()         {}
func (*RegistrationAdded) event()    {}
func (*RegistrationRevoked) event()  {}
func (*RegistrationUsed) event()     {}
func (*RegistrationReturned) event() {}

// Tag returns the number that identifies an event's kind on disk. Numbers are added,
// never changed or reused.
func Tag(e Event) byte {
	switch e.(type) {
	case *TokenAdded:
		return 1
	case *TokenRevoked:
		return 2
	case *RegistrationAdded:
		return 3
	case *RegistrationRevoked:
		return 4
	case *RegistrationUsed:
		return 5
	case *RegistrationReturned:
		return 6
	}
	panic("operator: unknown event")
}

// New returns an empty event of the kind with this tag, false for an unknown tag.
func New(tag byte) (Event, bool) {
	switch tag {
	case 1:
		return &TokenAdded{}, true
	case 2:
		return &TokenRevoked{}, true
	case 3:
		return &RegistrationAdded{}, true
	case 4:
		return &RegistrationRevoked{}, true
	case 5:
		return &RegistrationUsed{}, true
	case 6:
		return &RegistrationReturned{}, true
	}
	return nil, false
}

// Decide applies the rules to c in state s and returns the resulting events, or a refusal. It never
// changes s.
func Decide(s *State, c Command, now time.Time) ([]Event, error) {
	switch c := c.(type) {
	case AddToken:
		return decideAddToken(s, c, now)
	case RevokeToken:
		t := first(s.GetTokens(), func(t *Token) bool { return t.GetName() == c.Name })
		if t == nil {
			return nil, ErrUnknownToken
		}
		return []Event{&TokenRevoked{Id: t.GetId(), AtMs: now.UnixMilli()}}, nil
	case AddRegistration:
		return decideAddRegistration(s, c, now)
	case RevokeRegistration:
		if i := s.registration(c.ID.Bytes()); i == nil || i.expired(now.UnixMilli()) {
			return nil, ErrUnknownToken
		}
		return []Event{&RegistrationRevoked{Id: c.ID.Bytes(), AtMs: now.UnixMilli()}}, nil
	case UseRegistration:
		i := s.Registration(c.Hash, now)
		if i == nil {
			return nil, ErrUsedUp
		}
		return []Event{&RegistrationUsed{Id: i.GetId(), AtMs: now.UnixMilli()}}, nil
	case ReturnRegistration:
		if i := s.registration(c.ID.Bytes()); i == nil || i.GetUsed() == 0 {
			return nil, nil
		}
		return []Event{&RegistrationReturned{Id: c.ID.Bytes(), AtMs: now.UnixMilli()}}, nil
	}
	panic("operator: unknown command")
}

func decideAddToken(s *State, c AddToken, now time.Time) ([]Event, error) {
	switch {
	case !c.Role.Valid():
		return nil, ErrNoSuchRole
	case first(s.GetTokens(), func(t *Token) bool { return t.GetName() == c.Name }) != nil:
		return nil, ErrNameTaken
	case len(s.GetTokens()) >= TokensMax:
		return nil, ErrTooMany
	}
	return []Event{&TokenAdded{Token: &Token{Id: c.ID.Bytes(), Name: c.Name, Role: string(c.Role), Hash: c.Hash, CreatedMs: now.UnixMilli()}}}, nil
}

func decideAddRegistration(s *State, c AddRegistration, now time.Time) ([]Event, error) {
	live := 0
	for _, i := range s.GetRegistrations() {
		if !i.expired(now.UnixMilli()) {
			live++
		}
	}
	switch {
	case c.Uses < 1 || c.Uses > UsesMax:
		return nil, ErrBadUses
	case !c.Expires.After(now):
		return nil, ErrExpiresEarly
	case live >= RegistrationsMax:
		return nil, ErrTooMany
	}
	i := &Registration{Id: c.ID.Bytes(), Hash: c.Hash, Uses: uint32(c.Uses), CreatedMs: now.UnixMilli(), ExpiresMs: c.Expires.UnixMilli()}
	if c.Tier != nil {
		i.Tier = new(uint32(*c.Tier))
	}
	return []Event{&RegistrationAdded{Registration: i}}, nil
}

// Evolve folds one event into s. It cannot fail: an event is a fact.
func Evolve(s *State, e Event) {
	s.Begun = true
	switch e := e.(type) {
	case *TokenAdded:
		if e.GetToken() != nil {
			s.Tokens = append(s.Tokens, proto.CloneOf(e.GetToken()))
		}
	case *TokenRevoked:
		s.Tokens = slices.DeleteFunc(s.Tokens, func(t *Token) bool { return bytes.Equal(t.GetId(), e.GetId()) })
	case *RegistrationAdded:
		if e.GetRegistration() != nil {
			s.Registrations = slices.DeleteFunc(s.Registrations, func(i *Registration) bool { return i.expired(e.GetRegistration().GetCreatedMs()) })
			s.Registrations = append(s.Registrations, proto.CloneOf(e.GetRegistration()))
		}
	case *RegistrationRevoked:
		s.Registrations = slices.DeleteFunc(s.Registrations, func(i *Registration) bool { return bytes.Equal(i.GetId(), e.GetId()) })
	case *RegistrationUsed:
		if i := s.registration(e.GetId()); i != nil {
			i.Used++
		}
	case *RegistrationReturned:
		if i := s.registration(e.GetId()); i != nil && i.Used > 0 {
			i.Used--
		}
	}
}
