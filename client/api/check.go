package api

import "parley/client/parley"

// valueError is the type of a fault that the schema of no single field can state.
const valueError = "value_error"

// Check checks the fields of a send together: exactly one target, and handles of the
// right form. Whether they exist is checked later. // spec: Messaging
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
