package api

import (
	"encoding/json"
	"strconv"
)

// Error is the body of every error but those of a schema and of the token
// endpoint.
type Error struct {
	// Detail is one sentence for people.
	Detail string `json:"detail"`
	// Error is the class name of the specification's table, such as ConflictError.
	Error string `json:"error"`
	// Code is a stable snake_case word, such as invalid_transition.
	Code string `json:"code"`
	// RequestID is the value of the response's X-Request-ID header.
	RequestID string `json:"request_id"`
	// Extra has further values of the error, written as members beside the others:
	// quota, limit, used, resets_at, retry_after, current_status, allowed, candidates.
	Extra map[string]any `json:"-"`
}

type plainError Error

// MarshalJSON writes the values of Extra as members beside the others. They cannot
// replace one of the four.
func (e Error) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(plainError(e))
	if err != nil || len(e.Extra) == 0 {
		return b, err
	}
	extra := make(map[string]any, len(e.Extra))
	for k, v := range e.Extra {
		if !ownMember(k) {
			extra[k] = v
		}
	}
	more, err := json.Marshal(extra)
	if err != nil || len(extra) == 0 {
		return b, err
	}
	return append(append(b[:len(b)-1], ','), more[1:]...), nil
}

// UnmarshalJSON collects the members beside the four in Extra; numbers become float64.
func (e *Error) UnmarshalJSON(b []byte) error {
	var plain plainError
	if err := json.Unmarshal(b, &plain); err != nil {
		return err
	}
	if err := json.Unmarshal(b, &plain.Extra); err != nil {
		return err
	}
	for k := range plain.Extra {
		if ownMember(k) {
			delete(plain.Extra, k)
		}
	}
	*e = Error(plain)
	return nil
}

func ownMember(name string) bool {
	return name == "detail" || name == "error" || name == "code" || name == "request_id"
}

// Invalid is the body of a 422: each fault with the place where it is. // spec: Errors
type Invalid struct {
	// Detail has one entry for each fault.
	Detail []FieldError `json:"detail"`
	// Error is validation_error, or the class of a rule's own refusal.
	Error string `json:"error"`
	// Code is validation_error, or a rule's own code, such as self_message.
	Code      string `json:"code"`
	RequestID string `json:"request_id"`
}

// FieldError says what is wrong with one field.
type FieldError struct {
	// Loc is body, query, path or header, then member names (strings) and array
	// indices (ints; float64 once read from JSON).
	Loc []any `json:"loc"`
	// Msg is one sentence for people.
	Msg string `json:"msg"`
	// Type is spelled as Pydantic v2 spells it: missing, string_too_long, …
	Type string `json:"type"`
}

// String returns the location, joined by dots, and the sentence.
func (f FieldError) String() string { return f.Path() + ": " + f.Msg }

// Path returns the location, joined by dots.
func (f FieldError) Path() string {
	where := ""
	for i, part := range f.Loc {
		if i > 0 {
			where += "."
		}
		switch p := part.(type) {
		case string:
			where += p
		case int:
			where += strconv.Itoa(p)
		case float64:
			where += strconv.Itoa(int(p))
		}
	}
	return where
}

// TokenError is the body of an error of the token endpoint: RFC 6749 section
// 5.2 with the members of Error that it leaves room for.
type TokenError struct {
	// Error is a code of RFC 6749, such as invalid_client.
	Error string `json:"error"`
	// Description is one sentence for people; Detail is the same.
	Description string `json:"error_description"`
	Detail      string `json:"detail"`
	// Code repeats Error, where clients of the other endpoints look for it.
	Code      string `json:"code"`
	RequestID string `json:"request_id"`
}
