package org

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
)

// TierMax is the highest trust tier. Only the operator grants it. // spec: Organization
const TierMax = 3

// tierCleared is the tier of an organization that has confirmed its email address.
const tierCleared = 1

// Allowed returns the operator's limit of a quota for this organization. A nil limit
// means no limit; false means that the tier's limit applies.
func (s *State) Allowed(quota string) (limit *int, set bool) {
	for _, a := range s.GetAllowances() {
		if a.GetQuota() != quota {
			continue
		}
		if a.Limit != nil {
			limit = new(int(*a.Limit))
		}
		return limit, true
	}
	return nil, false
}

// allowance returns the index of the quota's allowance, or the index at which to insert
// it.
func (s *State) allowance(quota string) (int, bool) {
	return slices.BinarySearchFunc(s.Allowances, quota, func(a *Allowance, quota string) int { return strings.Compare(a.GetQuota(), quota) })
}

// setAllowance stores an allowance; the allowances stay sorted.
func (s *State) setAllowance(a *Allowance) {
	if a == nil { // an event without an allowance
		return
	}
	i, found := s.allowance(a.GetQuota())
	if found {
		s.Allowances[i] = a
		return
	}
	s.Allowances = slices.Insert(s.Allowances, i, a)
}

func (s *State) liftAllowance(quota string) {
	if i, found := s.allowance(quota); found { // a missing allowance needs no removal
		s.Allowances = slices.Delete(s.Allowances, i, i+1)
	}
}

func decideGrantTier(s *State, c GrantTier, now time.Time) ([]Event, error) {
	switch {
	case c.Tier < 0 || c.Tier > TierMax:
		return nil, ErrNoSuchTier
	case c.AtLeast && c.Tier <= int(s.GetTrustTier()):
		return nil, nil
	case s.GetTierGrantedMs() != 0 && c.Tier == int(s.GetTrustTier()):
		return nil, nil
	}
	return []Event{&TierGranted{Tier: int32(c.Tier), AtMs: now.UnixMilli(), Lowered: int32(c.Tier) < s.GetTrustTier()}}, nil
}

func decideSetAllowance(s *State, c SetAllowance, now time.Time) ([]Event, error) {
	if c.Limit != nil && *c.Limit < 0 {
		return nil, ErrBadLimit
	}
	if has, set := s.Allowed(c.Quota); set && (has == nil) == (c.Limit == nil) && (has == nil || *has == *c.Limit) {
		return nil, nil
	}
	a := &Allowance{Quota: c.Quota}
	if c.Limit != nil {
		a.Limit = proto.Int64(int64(*c.Limit))
	}
	return []Event{&AllowanceSet{Allowance: a, AtMs: now.UnixMilli()}}, nil
}

func decideLiftAllowance(s *State, c LiftAllowance, now time.Time) ([]Event, error) {
	if _, set := s.Allowed(c.Quota); !set {
		return nil, nil
	}
	return []Event{&AllowanceLifted{Quota: c.Quota, AtMs: now.UnixMilli()}}, nil
}

func decideConfirmEmail(s *State, now time.Time) ([]Event, error) {
	if s.GetEmailConfirmedMs() != 0 {
		return nil, nil
	}
	tier := s.GetTrustTier()
	if s.GetTierGrantedMs() == 0 {
		tier = max(tier, tierCleared)
	}
	return []Event{&EmailConfirmed{Tier: tier, AtMs: now.UnixMilli()}}, nil
}

// Suspended reports whether the operator has suspended the organization.
func (s *State) Suspended() bool { return s.GetSuspendedMs() != 0 }

func decideSuspend(s *State, now time.Time) []Event {
	if s.Suspended() {
		return nil
	}
	return []Event{&Suspended{AtMs: now.UnixMilli()}}
}

func decideResume(s *State, now time.Time) []Event {
	if !s.Suspended() {
		return nil
	}
	return []Event{&Resumed{AtMs: now.UnixMilli()}}
}
