package admin

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/actors/operator"
	"parley/client/parley"
)

// Endpoint is a group of operators' calls.
type Endpoint interface{ Mount(calls *Calls) }

// Calls is where endpoints add their calls. None can be added without the role that it needs.
type Calls struct{ mux *http.ServeMux }

// caller is who makes a call.
type caller struct {
	id   parley.OperatorID
	role operator.Role
}

// own reports whether the caller has the token of the data directory.
func (c caller) own() bool { return c.id.Zero() }

type callerKey struct{}

// ReasonMax is how many bytes the reason of a change may have.
const ReasonMax = 500

var (
	errRole       = parley.Refuse(parley.Forbidden, "role_not_allowed", "The role of this operator token does not allow this call.")
	errNoReason   = parley.Refuse(parley.Unprocessable, "validation_error", "Say why: with a named operator token each change needs a reason (--reason).")
	errLongReason = parley.Refuse(parley.Unprocessable, "validation_error", "A reason has at most 500 bytes.")
)

// Show adds a call that changes nothing, or a change that needs no reason.
func (c *Calls) Show(needs operator.Role, pattern string, h http.HandlerFunc) {
	if !needs.Valid() {
		panic("admin: " + pattern + " needs no role that there is")
	}
	c.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		by, _ := r.Context().Value(callerKey{}).(caller)
		if !by.role.Covers(needs) {
			writeRefusal(w, errRole.With("role", string(by.role)).With("needs", string(needs)))
			return
		}
		h(w, r.WithContext(parley.WithOperator(r.Context(), &parley.Operator{ID: by.id})))
	})
}

// Change adds a call that changes something: a POST of a JSON object, whose member reason it takes
// out.
func (c *Calls) Change(needs operator.Role, path string, h http.HandlerFunc) {
	c.Show(needs, "POST "+path, func(w http.ResponseWriter, r *http.Request) {
		by, _ := r.Context().Value(callerKey{}).(caller)
		reason, err := takeReason(r)
		if err == nil && reason == nil && !by.own() {
			err = errNoReason
		}
		if err != nil {
			writeRefusal(w, err)
			return
		}
		h(w, r.WithContext(parley.WithOperator(r.Context(), &parley.Operator{ID: by.id, Reason: reason})))
	})
}

// takeReason removes the reason from the body of a request, and returns it.
func takeReason(r *http.Request) (*string, error) {
	if err := refuseBrowserRequest(r); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, orgBodyMax))
	var members map[string]jsontext.Value
	if err != nil || json.Unmarshal(body, &members) != nil || members == nil {
		return nil, errBadRequest
	}
	var reason *string
	if text, has := members["reason"]; has {
		if json.Unmarshal(text, &reason) != nil {
			return nil, errBadRequest
		}
		delete(members, "reason")
	}
	if reason != nil && len(*reason) > ReasonMax {
		return nil, errLongReason
	}
	if reason != nil && *reason == "" {
		reason = nil
	}
	rest, err := json.Marshal(members)
	r.Body = io.NopCloser(bytes.NewReader(rest))
	return reason, err
}

// as returns a context for the calls of a caller.
func as(ctx context.Context, c caller) context.Context { return context.WithValue(ctx, callerKey{}, c) }
