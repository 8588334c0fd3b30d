package org

import (
	"strings"
	"time"
)

// Clearable is a field of a change that may be absent (not Set), cleared
// (Null) or given a Value.
type Clearable struct {
	Set   bool
	Null  bool
	Value string
}

// Change alters the record. A field that is nil or not Set keeps its value.
type Change struct {
	Name         *string
	ContactEmail Clearable
	// CountryCode has two letters, in either case.
	CountryCode Clearable
	// Slug may only be the organization's present slug.
	Slug *string
}

func decideChange(s *State, c Change, now time.Time) ([]Event, error) {
	if c.Slug != nil && *c.Slug != s.GetSlug() {
		return nil, ErrSlugImmutable
	}
	c.CountryCode.Value = strings.ToUpper(c.CountryCode.Value)
	e := &Changed{
		ContactEmail: c.ContactEmail.differing(s.GetContactEmail()),
		CountryCode:  c.CountryCode.differing(s.GetCountryCode()),
		AtMs:         now.UnixMilli(),
	}
	if c.Name != nil && *c.Name != s.GetName() {
		e.Name = c.Name
	}
	if e.Name == nil && e.ContactEmail == nil && e.CountryCode == nil {
		return nil, nil
	}
	return []Event{e}, nil
}

// differing returns the new value of the field, empty for none, or nil if the field has
// that value already.
func (c Clearable) differing(has string) *string {
	if c.Null {
		c.Value = ""
	}
	if !c.Set || c.Value == has {
		return nil
	}
	return &c.Value
}

func evolveChanged(s *State, e *Changed) {
	if e.Name != nil {
		s.Name = *e.Name
	}
	if e.ContactEmail != nil {
		s.ContactEmail = *e.ContactEmail
	}
	if e.CountryCode != nil {
		s.CountryCode = *e.CountryCode
	}
}
