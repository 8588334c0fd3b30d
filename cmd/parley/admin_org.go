package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley"
	"parley/actors"
	"parley/actors/org"
	parleyhttp "parley/http"
	"parley/http/api"
)

// orgDoor is where the operator says what an organization may do.
type orgDoor struct {
	node    *actors.Node
	service *parleyhttp.Service
	quotas  parleyhttp.QuotaProfile
}

// orgJSON is an organization in the operator's list.
type orgJSON struct {
	ID         parley.OrgID `json:"id"`
	Slug       string       `json:"slug"`
	Name       string       `json:"name"`
	TrustTier  int          `json:"trust_tier"`
	AgentCount int64        `json:"agent_count"`
	CreatedAt  api.Time     `json:"created_at"`
	// SuspendedAt is null while it is not suspended.
	SuspendedAt *api.Time `json:"suspended_at"`
}

// orgPage is the answer of GET /orgs.
type orgPage struct {
	Items      []orgJSON `json:"items"`
	NextCursor *string   `json:"next_cursor"`
	HasMore    bool      `json:"has_more"`
}

// orgPageMost bounds a page.
const orgPageMost = 500

// termsJSON is an organization as the operator sees it.
type termsJSON struct {
	ID           parley.OrgID `json:"id"`
	Slug         string       `json:"slug"`
	Name         string       `json:"name"`
	ContactEmail string       `json:"contact_email"`
	TrustTier    int          `json:"trust_tier"`
	// TierGrantedAt is when the operator last decided about the tier.
	TierGrantedAt *api.Time `json:"tier_granted_at"`
	// EmailConfirmedAt is when the token came back that was mailed at registration.
	EmailConfirmedAt *api.Time `json:"email_confirmed_at"`
	AgentCount       int64     `json:"agent_count"`
	GroupCount       int64     `json:"group_count"`
	CreatedAt        api.Time  `json:"created_at"`
	// SuspendedAt is null while it is not suspended.
	SuspendedAt *api.Time            `json:"suspended_at"`
	Quotas      map[string]termsPart `json:"quotas"`
}

// termsPart is a quota of it: null is no limit.
type termsPart struct {
	Limit *int   `json:"limit"`
	Used  *int64 `json:"used,omitzero"`
	// From is "tier", or "operator" where it was set for this organization.
	From string `json:"from"`
}

// tierRequest is the body of POST /orgs/{org}/tier.
type tierRequest struct {
	Tier *int `json:"tier"`
}

// quotaRequest is the body of POST /orgs/{org}/quota. Limit is a number, null
// for no limit, or "default" for what the trust tier gives.
type quotaRequest struct {
	Name  string         `json:"name"`
	Limit jsontext.Value `json:"limit"`
}

const (
	orgBodyMax   = 4 << 10
	defaultLimit = "default"
)

// mount adds the door's calls, each for an organization's slug or id.
func (d *orgDoor) mount(mux *http.ServeMux) {
	mux.HandleFunc("GET /orgs", d.list)
	for call, command := range map[string]org.Command{"suspend": org.Suspend{}, "resume": org.Resume{}} {
		mux.HandleFunc("POST /orgs/{org}/"+call, d.answer(func(r *http.Request) (org.Command, error) { return command, byNoBrowser(r) }))
	}
	mux.HandleFunc("GET /orgs/{org}", d.answer(func(*http.Request) (org.Command, error) { return nil, nil }))
	mux.HandleFunc("POST /orgs/{org}/tier", d.answer(func(r *http.Request) (org.Command, error) {
		var in tierRequest
		if err := readOrder(r, &in); err != nil {
			return nil, err
		}
		if in.Tier == nil {
			return nil, org.ErrNoSuchTier
		}
		return org.GrantTier{Tier: *in.Tier}, nil
	}))
	mux.HandleFunc("POST /orgs/{org}/quota", d.answer(func(r *http.Request) (org.Command, error) {
		var in quotaRequest
		if err := readOrder(r, &in); err != nil {
			return nil, err
		}
		return in.command()
	}))
}

func (q *quotaRequest) command() (org.Command, error) {
	if !slices.Contains(parleyhttp.QuotaNames(), q.Name) {
		return nil, errBadOrder.Saying(fmt.Sprintf("There is no quota %q; there are %q.", q.Name, parleyhttp.QuotaNames()))
	}
	switch q.Limit.Kind() {
	case 'n':
		return org.SetAllowance{Quota: q.Name}, nil
	case '"':
		if string(q.Limit) == `"`+defaultLimit+`"` {
			return org.LiftAllowance{Quota: q.Name}, nil
		}
	case '0':
		var n int
		if json.Unmarshal(q.Limit, &n) == nil {
			return org.SetAllowance{Quota: q.Name, Limit: &n}, nil
		}
	}
	return nil, errBadOrder.Saying(`"limit" is a number, null for no limit, or "default".`)
}

var errBadOrder = parley.Refuse(parley.Unprocessable, "validation_error", "The body is not what this call takes.")

// byNoBrowser refuses what a page can have a browser send: it must not change
// anything here.
func byNoBrowser(r *http.Request) error {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/json" || r.Header.Get("Origin") != "" {
		return errAdminOrigin
	}
	return nil
}

// readOrder reads a body.
func readOrder(r *http.Request, into any) error {
	if err := byNoBrowser(r); err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, orgBodyMax))
	if err != nil || json.Unmarshal(body, into, json.RejectUnknownMembers(true)) != nil {
		return errBadOrder
	}
	return nil
}

// answer finds the organization, has the order carried out, if there is one, and
// shows what came of it. What was changed is in the log, and in the
// organization's own history.
func (d *orgDoor) answer(order func(*http.Request) (org.Command, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := d.find(r.Context(), r.PathValue("org"))
		var command org.Command
		if err == nil {
			command, err = order(r)
		}
		var state *org.State
		if err == nil && command == nil {
			state, err = d.node.OrgNow(r.Context(), id)
		} else if err == nil {
			state, err = d.carryOut(r.Context(), id, command)
		}
		var shown *termsJSON
		if err == nil {
			shown, err = d.show(r.Context(), state)
		}
		if err != nil {
			refuseOrder(w, err)
			return
		}
		if command != nil {
			slog.Info("the operator changed what an organization may do", "org_id", id, "slug", shown.Slug, "order", fmt.Sprintf("%T", command),
				"trust_tier", shown.TrustTier, "allowances", fmt.Sprint(state.GetAllowances()), "from", r.RemoteAddr)
		}
		writeOrder(w, http.StatusOK, shown)
	}
}

// carryOut has the organization's actor judge a command.
func (d *orgDoor) carryOut(ctx context.Context, id parley.OrgID, command org.Command) (*org.State, error) {
	if _, ok := command.(org.Suspend); ok {
		state, err := d.node.SuspendOrg(ctx, id)
		d.service.EndStreams(id)
		return state, err
	}
	if _, ok := command.(org.Resume); ok {
		return d.node.ResumeOrg(ctx, id)
	}
	return d.node.SetTerms(ctx, id, command)
}

// list answers GET /orgs?cursor=SLUG&limit=N.
func (d *orgDoor) list(w http.ResponseWriter, r *http.Request) {
	limit := orgPageMost
	if text := r.URL.Query().Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > orgPageMost {
			refuseOrder(w, errBadOrder.Saying(fmt.Sprintf("limit is a number from 1 to %d.", orgPageMost)))
			return
		}
	}
	found, more, err := d.node.Orgs(r.Context(), r.URL.Query().Get("cursor"), limit)
	if err != nil {
		refuseOrder(w, err)
		return
	}
	page := orgPage{Items: []orgJSON{}, HasMore: more}
	for _, o := range found {
		page.Items = append(page.Items, orgJSON{
			ID: o.OrgID(), Slug: o.GetSlug(), Name: o.GetName(), TrustTier: int(o.GetTrustTier()), AgentCount: o.GetActiveAgents(),
			CreatedAt: api.At(o.CreatedAt()), SuspendedAt: atMs(o.GetSuspendedMs()),
		})
	}
	if more {
		page.NextCursor = &page.Items[len(page.Items)-1].Slug
	}
	writeOrder(w, http.StatusOK, page)
}

// find reads a slug or an id. No slug looks like an id: it would be too long.
func (d *orgDoor) find(ctx context.Context, name string) (parley.OrgID, error) {
	if id, err := parley.ParseID[parley.OrgID](name); err == nil {
		_, err = d.node.Org(ctx, id)
		return id, err
	}
	return d.node.OrgBySlug(ctx, name)
}

func (d *orgDoor) show(ctx context.Context, o *org.State) (*termsJSON, error) {
	sent, err := d.node.Used(ctx, o.OrgID())
	if err != nil {
		return nil, err
	}
	t := &termsJSON{
		ID: o.OrgID(), Slug: o.GetSlug(), Name: o.GetName(), ContactEmail: o.GetContactEmail(), TrustTier: int(o.GetTrustTier()),
		TierGrantedAt: atMs(o.GetTierGrantedMs()), EmailConfirmedAt: atMs(o.GetEmailConfirmedMs()),
		AgentCount: o.GetActiveAgents(), GroupCount: o.GetActiveGroups(), CreatedAt: api.At(o.CreatedAt()), SuspendedAt: atMs(o.GetSuspendedMs()), Quotas: map[string]termsPart{},
	}
	used := map[string]*int64{"agents": &t.AgentCount, "groups": &t.GroupCount, "messages_per_day": &sent}
	for _, name := range parleyhttp.QuotaNames() {
		part := termsPart{Limit: d.quotas.Of(o, name), Used: used[name], From: "tier"}
		if _, set := o.Allowed(name); set {
			part.From = "operator"
		}
		t.Quotas[name] = part
	}
	return t, nil
}

// atMs is an instant that may not have come, null then.
func atMs(ms int64) *api.Time {
	if ms == 0 {
		return nil
	}
	return new(api.At(time.UnixMilli(ms)))
}

func refuseOrder(w http.ResponseWriter, err error) {
	var refusal *parley.Refusal
	status, text, code := http.StatusInternalServerError, "Something went wrong; the log says what.", "internal"
	if errors.As(err, &refusal) {
		text, code = refusal.Text, refusal.Code
		switch refusal.Reason {
		case parley.Unauthenticated:
			status = http.StatusUnauthorized
		case parley.NotFound:
			status = http.StatusNotFound
		case parley.Forbidden:
			status = http.StatusForbidden
		case parley.Unprocessable:
			status = http.StatusUnprocessableEntity
		case parley.Unavailable:
			status = http.StatusServiceUnavailable
		}
	}
	if status == http.StatusInternalServerError {
		slog.Error("an operator's call failed", "error", err)
	}
	writeOrder(w, status, map[string]string{"detail": text, "code": code})
}

func writeOrder(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	text, _ := json.Marshal(body, json.Deterministic(true)) // plain values
	_, _ = w.Write(append(text, '\n'))
}
