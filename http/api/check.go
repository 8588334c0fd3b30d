package api

import (
	"strings"
	"unicode"

	"parley"
)

// valueError is a fault that no single field's schema can state.
const valueError = "value_error"

// Check judges the fields of a send together: exactly one target, and handles
// of the right form. Whether they exist is judged later. // spec: Messaging
func (in *Send) Check() []FieldError {
	var faults []FieldError
	fault := func(field, msg string) {
		faults = append(faults, FieldError{Loc: []any{"body", field}, Msg: "Value error, " + msg, Type: valueError})
	}
	if (in.ToAgentID == nil) == (in.ToHandle == nil) {
		fault("to_agent_id", "exactly one of to_agent_id and to_handle is required")
	}
	if in.ToHandle != nil {
		if _, err := parley.ParseHandle(*in.ToHandle); err != nil {
			fault("to_handle", "the handle should be of the form agent@org.domain")
		}
	}
	if in.FromHandle != nil {
		if h, err := parley.ParseHandle(*in.FromHandle); err != nil || h.Group {
			fault("from_handle", "the handle should be of the form agent@org.domain")
		}
	}
	return faults
}

// Check keeps characters out of the name and the address that a reader cannot see.
func (in *Register) Check() []FieldError {
	return append(checkPlain("email", &in.Email), checkPlain("org_name", in.OrgName)...)
}

// Check does so for a change of them.
func (in *OrgPatch) Check() []FieldError {
	return append(checkPlain("name", in.Name), checkPlain("contact_email", &in.ContactEmail.Value)...)
}

// checkPlain finds control characters and those that turn the direction of
// writing: with them a name can show as another one. nil is no text.
func checkPlain(field string, text *string) []FieldError {
	if text == nil || !strings.ContainsFunc(*text, hidden) {
		return nil
	}
	return []FieldError{{
		Loc: []any{"body", field}, Msg: "Value error, control and bidirectional formatting characters are not allowed", Type: valueError,
	}}
}

func hidden(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }
