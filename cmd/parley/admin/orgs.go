package admin

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
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/actors"
	"parley/actors/operator"
	"parley/actors/org"
	"parley/client/api"
	"parley/client/parley"
	parleyhttp "parley/http"
	"parley/http/access"
)

// OrgEndpoint lists organizations and changes their tiers, quotas and suspensions.
type OrgEndpoint struct {
	Node    *actors.Node
	Service *parleyhttp.Service
	Quotas  access.QuotaProfile
}

// OrgItem is an organization in the answer of GET /orgs.
type OrgItem struct {
	ID         parley.OrgID `json:"id"`
	Slug       string       `json:"slug"`
	Name       string       `json:"name"`
	TrustTier  int          `json:"trust_tier"`
	AgentCount int64        `json:"agent_count"`
	CreatedAt  api.Time     `json:"created_at"`
	// SuspendedAt is null if the organization is not suspended.
	SuspendedAt *api.Time `json:"suspended_at"`
	// HeldAt is null if the organization may be erased.
	HeldAt *api.Time `json:"held_at"`
}

// OrgPage is the answer of GET /orgs.
type OrgPage struct {
	Items      []OrgItem `json:"items"`
	NextCursor *string   `json:"next_cursor"`
	HasMore    bool      `json:"has_more"`
}

// orgPageMost is the maximum number of organizations in a page.
const orgPageMost = 500

// OrgTerms is the answer of the calls about one organization.
type OrgTerms struct {
	ID           parley.OrgID `json:"id"`
	Slug         string       `json:"slug"`
	Name         string       `json:"name"`
	ContactEmail string       `json:"contact_email"`
	TrustTier    int          `json:"trust_tier"`
	// TierGrantedAt is when the operator last set the tier.
	TierGrantedAt *api.Time `json:"tier_granted_at"`
	// EmailConfirmedAt is when the organization returned the token that was mailed to it
	// at registration.
	EmailConfirmedAt *api.Time `json:"email_confirmed_at"`
	AgentCount       int64     `json:"agent_count"`
	GroupCount       int64     `json:"group_count"`
	CreatedAt        api.Time  `json:"created_at"`
	// SuspendedAt is null if the organization is not suspended.
	SuspendedAt *api.Time `json:"suspended_at"`
	// HeldAt is null if the organization may be erased.
	HeldAt *api.Time           `json:"held_at"`
	Quotas map[string]OrgQuota `json:"quotas"`
}

// OrgQuota is one quota of an organization. A null limit means unlimited.
type OrgQuota struct {
	Limit *int   `json:"limit"`
	Used  *int64 `json:"used,omitzero"`
	// From is "tier", or "operator" if it was set for this organization.
	From string `json:"from"`
}

// TierRequest is the body of POST /orgs/{org}/tier.
type TierRequest struct {
	Tier *int `json:"tier"`
}

// QuotaRequest is the body of POST /orgs/{org}/quota. Limit is a number, null for no
// limit, or "default" for the limit of the trust tier.
type QuotaRequest struct {
	Name  string         `json:"name"`
	Limit jsontext.Value `json:"limit"`
}

const (
	orgBodyMax   = 4 << 10
	DefaultLimit = "default"
)

// Mount adds the calls. {org} is a slug or an id.
func (d *OrgEndpoint) Mount(calls *Calls) {
	calls.Show(operator.RoleRead, "GET /orgs", d.list)
	plain := func(needs operator.Role, call string, command org.Command) {
		calls.Change(needs, "/orgs/{org}/"+call, d.answer(func(*http.Request) (org.Command, error) { return command, nil }))
	}
	plain(operator.RoleSupport, "suspend", org.Suspend{})
	plain(operator.RoleSupport, "resume", org.Resume{})
	plain(operator.RoleSupport, "approve", org.GrantTier{Tier: 1, AtLeast: true})
	plain(operator.RoleAdmin, "hold", org.Hold{})
	plain(operator.RoleAdmin, "release", org.Release{})
	calls.Show(operator.RoleRead, "GET /orgs/{org}", d.answer(func(*http.Request) (org.Command, error) { return nil, nil }))
	calls.Change(operator.RoleAdmin, "/orgs/{org}/tier", d.answer(func(r *http.Request) (org.Command, error) {
		var in TierRequest
		if err := ReadRequest(r, &in); err != nil {
			return nil, err
		}
		if in.Tier == nil {
			return nil, org.ErrNoSuchTier
		}
		return org.GrantTier{Tier: *in.Tier}, nil
	}))
	calls.Change(operator.RoleAdmin, "/orgs/{org}/quota", d.answer(func(r *http.Request) (org.Command, error) {
		var in QuotaRequest
		if err := ReadRequest(r, &in); err != nil {
			return nil, err
		}
		return in.command()
	}))
}

func (q *QuotaRequest) command() (org.Command, error) {
	if !slices.Contains(access.QuotaNames(), q.Name) {
		return nil, errBadRequest.Saying(fmt.Sprintf("There is no quota %q; there are %s.", q.Name, strings.Join(access.QuotaNames(), ", ")))
	}
	switch q.Limit.Kind() {
	case 'n':
		return org.SetAllowance{Quota: q.Name}, nil
	case '"':
		if string(q.Limit) == `"`+DefaultLimit+`"` {
			return org.LiftAllowance{Quota: q.Name}, nil
		}
	case '0':
		var n int
		if json.Unmarshal(q.Limit, &n) == nil {
			return org.SetAllowance{Quota: q.Name, Limit: &n}, nil
		}
	}
	return nil, errBadRequest.Saying(`"limit" is a number, null for no limit, or "default".`)
}

var errBadRequest = parley.Refuse(parley.Unprocessable, "validation_error", "The body is not what this call takes.")

// refuseBrowserRequest rejects requests that a page can make a browser send without a
// CORS preflight.
func refuseBrowserRequest(r *http.Request) error {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != "application/json" || r.Header.Get("Origin") != "" {
		return errAdminOrigin
	}
	return nil
}

// ReadRequest decodes a JSON body.
func ReadRequest(r *http.Request, into any) error {
	if err := refuseBrowserRequest(r); err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, orgBodyMax))
	if err != nil || json.Unmarshal(body, into, json.RejectUnknownMembers(true)) != nil {
		return errBadRequest
	}
	return nil
}

// answer returns a handler that finds the organization, carries out the command if there
// is one, and writes the organization. Changes are logged and become events of the
// organization.
func (d *OrgEndpoint) answer(order func(*http.Request) (org.Command, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := d.find(r.Context(), r.PathValue("org"))
		var command org.Command
		if err == nil {
			command, err = order(r)
		}
		var state *org.State
		if err == nil && command == nil {
			state, err = d.Node.Orgs.Current(r.Context(), id)
		} else if err == nil {
			state, err = d.carryOut(r.Context(), id, command)
		}
		var shown *OrgTerms
		if err == nil {
			shown, err = d.show(r.Context(), state)
		}
		if err != nil {
			writeRefusal(w, err)
			return
		}
		if command != nil {
			slog.Info("the operator changed what an organization may do", "org_id", id, "slug", shown.Slug, "order", fmt.Sprintf("%T", command),
				"trust_tier", shown.TrustTier, "allowances", fmt.Sprint(state.GetAllowances()), "from", r.RemoteAddr)
		}
		writeJSON(w, http.StatusOK, shown)
	}
}

// carryOut passes a command to the organization's actor.
func (d *OrgEndpoint) carryOut(ctx context.Context, id parley.OrgID, command org.Command) (*org.State, error) {
	state, err := d.Node.Orgs.SetTerms(ctx, id, command)
	if _, ok := command.(org.Suspend); ok {
		d.Service.EndStreams(id)
	}
	return state, err
}

// list answers GET /orgs?cursor=SLUG&limit=N.
func (d *OrgEndpoint) list(w http.ResponseWriter, r *http.Request) {
	limit := orgPageMost
	if text := r.URL.Query().Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > orgPageMost {
			writeRefusal(w, errBadRequest.Saying(fmt.Sprintf("limit is a number from 1 to %d.", orgPageMost)))
			return
		}
	}
	found, more, err := d.Node.Orgs.List(r.Context(), r.URL.Query().Get("cursor"), limit)
	if err != nil {
		writeRefusal(w, err)
		return
	}
	page := OrgPage{Items: []OrgItem{}, HasMore: more}
	for _, o := range found {
		page.Items = append(page.Items, OrgItem{
			ID: o.OrgID(), Slug: o.GetSlug(), Name: o.GetName(), TrustTier: int(o.GetTrustTier()), AgentCount: o.GetActiveAgents(),
			CreatedAt: api.At(o.CreatedAt()), SuspendedAt: atMs(o.GetSuspendedMs()), HeldAt: atMs(o.GetHeldMs()),
		})
	}
	if more {
		page.NextCursor = &page.Items[len(page.Items)-1].Slug
	}
	writeJSON(w, http.StatusOK, page)
}

// find resolves a slug or an id. A slug never looks like an id, because ids are longer.
func (d *OrgEndpoint) find(ctx context.Context, name string) (parley.OrgID, error) {
	if id, err := parley.ParseID[parley.OrgID](name); err == nil {
		_, err = d.Node.Orgs.Get(ctx, id)
		return id, err
	}
	return d.Node.Orgs.BySlug(ctx, name)
}

func (d *OrgEndpoint) show(ctx context.Context, o *org.State) (*OrgTerms, error) {
	usage, err := d.Node.Orgs.Used(ctx, o.OrgID())
	if err != nil {
		return nil, err
	}
	t := &OrgTerms{
		ID: o.OrgID(), Slug: o.GetSlug(), Name: o.GetName(), ContactEmail: o.GetContactEmail(), TrustTier: int(o.GetTrustTier()),
		TierGrantedAt: atMs(o.GetTierGrantedMs()), EmailConfirmedAt: atMs(o.GetEmailConfirmedMs()),
		AgentCount: o.GetActiveAgents(), GroupCount: o.GetActiveGroups(), CreatedAt: api.At(o.CreatedAt()), SuspendedAt: atMs(o.GetSuspendedMs()), HeldAt: atMs(o.GetHeldMs()), Quotas: map[string]OrgQuota{},
	}
	usage.Stored = max(usage.Stored, 0)
	used := map[string]*int64{
		"agents": &t.AgentCount, "groups": &t.GroupCount, parley.QuotaMessages: &usage.Messages, parley.QuotaStoredBytes: &usage.Stored,
		parley.QuotaChanges: &usage.Changes, parley.QuotaInvitations: &usage.Invitations, parley.QuotaReports: &usage.Reports,
	}
	for _, name := range access.QuotaNames() {
		part := OrgQuota{Limit: d.Quotas.Of(o, name), Used: used[name], From: "tier"}
		if _, set := o.Allowed(name); set {
			part.From = "operator"
		}
		t.Quotas[name] = part
	}
	return t, nil
}

// atMs converts milliseconds since 1970 to a time, or nil for 0.
func atMs(ms int64) *api.Time {
	if ms == 0 {
		return nil
	}
	return new(api.At(time.UnixMilli(ms)))
}

func writeRefusal(w http.ResponseWriter, err error) {
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
		case parley.Conflict:
			status = http.StatusConflict
		case parley.Unprocessable:
			status = http.StatusUnprocessableEntity
		case parley.Unavailable:
			status = http.StatusServiceUnavailable
		}
	}
	if status == http.StatusInternalServerError {
		slog.Error("an operator's call failed", "error", err)
	}
	writeJSON(w, status, map[string]string{"detail": text, "code": code})
}

// Answer answers a call with a value, or with why it failed.
func Answer(w http.ResponseWriter, value any, err error) {
	if err != nil {
		writeRefusal(w, err)
		return
	}
	writeJSON(w, http.StatusOK, value)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	text, _ := json.Marshal(body, json.Deterministic(true)) // plain values always marshal
	_, _ = w.Write(append(text, '\n'))
}
