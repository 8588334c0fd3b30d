package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/bench/target"
	"parley/http/api"
)

// Names of the figures of a run of Quota.
const (
	// FigureFree and FigureLimited are the sends per second to a server without and to
	// one with quotas and rates, in turn, and FigureLimitedOfFree is the ratio of the
	// second to the first.
	FigureFree          = "free_per_second"
	FigureLimited       = "limited_per_second"
	FigureLimitedOfFree = "limited_of_free"
)

// quotaOfSends is the quota that a send uses.
const quotaOfSends = "messages_per_day"

// rateLimitHeader is on every answer that a rate limit applies to.
const rateLimitHeader = "RateLimit-Limit"

// Spent is how many of its messages the sending organization has used.
type Spent struct {
	Messages int64
	// Resets is when the count starts again at zero.
	Resets time.Time
}

// CheckTerms sends a message and checks what the server says about its limits. With
// limits, every quota must be a number, the message must be counted and every kind of
// rate must be stated. Without limits, the quota of messages must be open and no rate
// may be stated. Comparing two servers is meaningless if one of them is not configured
// as expected.
func (h *Host) CheckTerms(ctx context.Context, limited bool) (Spent, error) {
	if h.world == nil {
		return Spent{}, fmt.Errorf("%s does not take part in %s", h.name, Quota)
	}
	spent, err := h.checkTerms(ctx, limited)
	if err != nil {
		return Spent{}, fmt.Errorf("%s: the terms are not those that were asked for: %w", h.name, err)
	}
	return spent, nil
}

func (h *Host) checkTerms(ctx context.Context, limited bool) (Spent, error) {
	if err := h.world.freshTokens(ctx); err != nil {
		return Spent{}, err
	}
	quotas, err := h.world.globex.client.Quotas(ctx)
	if err != nil {
		return Spent{}, err
	}
	if err := judgeQuotas(quotas, h.params.Tier, limited); err != nil {
		return Spent{}, err
	}
	before := spentOf(quotas)
	for _, call := range h.ratedCalls() {
		if err := h.checkRate(ctx, call, limited); err != nil {
			return Spent{}, err
		}
	}
	after, err := h.Spent(ctx)
	if err == nil && after.Resets.Equal(before.Resets) && after.Messages != before.Messages+1 {
		err = fmt.Errorf("a message was sent and %s went from %d to %d", quotaOfSends, before.Messages, after.Messages)
	}
	return after, err
}

// Spent returns how many of today's messages the server has counted.
func (h *Host) Spent(ctx context.Context) (Spent, error) {
	quotas, err := h.world.globex.client.Quotas(ctx)
	if err != nil {
		return Spent{}, err
	}
	if quotas.Quotas[quotaOfSends].Used == nil {
		return Spent{}, fmt.Errorf("GET /org/quotas does not say how much of %s is used", quotaOfSends)
	}
	return spentOf(quotas), nil
}

func spentOf(quotas *api.Quotas) (s Spent) {
	q := quotas.Quotas[quotaOfSends]
	if q.Used != nil {
		s.Messages = int64(*q.Used)
	}
	if q.ResetsAt != nil {
		s.Resets = q.ResetsAt.Time
	}
	return s
}

// judgeQuotas returns an error that says how the quotas differ from the expected ones.
func judgeQuotas(quotas *api.Quotas, tier int, limited bool) error {
	sends, there := quotas.Quotas[quotaOfSends]
	if !there || sends.Used == nil {
		return fmt.Errorf("GET /org/quotas does not say how much of %s is used", quotaOfSends)
	}
	if !limited {
		if sends.Limit != nil {
			return fmt.Errorf("%s is limited to %d", quotaOfSends, *sends.Limit)
		}
		return nil
	}
	if quotas.Tier != tier {
		return fmt.Errorf("the organization is of trust tier %d, not %d", quotas.Tier, tier)
	}
	var open []string
	for name, q := range quotas.Quotas {
		if q.Limit == nil {
			open = append(open, name)
		}
	}
	if len(open) > 0 {
		slices.Sort(open)
		return fmt.Errorf("there is no limit of %s", strings.Join(open, ", "))
	}
	return nil
}

// ratedCall is a request with its own kind of rate.
type ratedCall struct {
	rate, method, path, kind string
	body                     []byte
	// basic authenticates with the client's credentials, bearer with a token.
	basic, bearer bool
	status        int
}

// ratedCalls returns a call of each kind that a sender makes. The second sends a message.
func (h *Host) ratedCalls() []ratedCall {
	payload := make([]byte, h.payloads.length())
	h.payloads.write(payload, Key{Run: h.nextRun()})
	body := fmt.Appendf(nil, `{"to_handle":"%s","from_handle":"%s",`, h.world.workers[0].handle, h.world.planners[0].handle)
	body = appendContent(body, h.world.messageType("task_request"), payload)
	form := url.Values{"grant_type": {"client_credentials"}}
	return []ratedCall{
		{rate: "token", method: "POST", path: "/oauth/token", kind: "application/x-www-form-urlencoded", body: []byte(form.Encode()), basic: true, status: 200},
		{rate: "writes", method: "POST", path: "/messages", kind: "application/json", body: body, bearer: true, status: 201},
		{rate: "reads", method: "GET", path: "/org/quotas", bearer: true, status: 200},
		{rate: "public", method: "GET", path: "/version", status: 200},
	}
}

// checkRate makes a call and checks whether the answer states a rate.
func (h *Host) checkRate(ctx context.Context, call ratedCall, limited bool) error {
	request, err := http.NewRequestWithContext(ctx, call.method, h.world.base+call.path, bytes.NewReader(call.body))
	if err != nil {
		return err
	}
	if call.kind != "" {
		request.Header.Set("Content-Type", call.kind)
	}
	sender := h.world.globex
	if call.bearer {
		request.Header.Set("Authorization", "Bearer "+sender.token)
	}
	if call.basic {
		request.SetBasicAuth(sender.credentials.ClientID.String(), sender.credentials.ClientSecret)
	}
	status, header, text, err := ask(request)
	if err != nil {
		return err
	}
	if status != call.status {
		return fmt.Errorf("%s %s is answered with %d: %s", call.method, call.path, status, text)
	}
	stated := header.Get(rateLimitHeader)
	switch n, err := strconv.ParseInt(stated, 10, 64); {
	case limited && (err != nil || n <= 0):
		return fmt.Errorf("the rate of %s is not checked: %s %s states none", call.rate, call.method, call.path)
	case !limited && stated != "":
		return fmt.Errorf("there is a rate of %s: %s %s states %q", call.rate, call.method, call.path, stated)
	}
	return nil
}

// askedMax bounds the number of bytes read from an answer.
const askedMax = 1 << 20

// ask makes a request that is not measured, and closes its connection.
func ask(request *http.Request) (status int, header http.Header, text []byte, err error) {
	request.Close = true
	answer, err := (&http.Client{Transport: &http.Transport{}}).Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err = io.ReadAll(io.LimitReader(answer.Body, askedMax))
	return answer.StatusCode, answer.Header, text, err
}

// promote makes the operator set the trust tier of an organization.
func promote(ctx context.Context, door target.Door, o *org, tier int) error {
	slug := o.credentials.OrgSlug
	if door.Admin == "" {
		return fmt.Errorf("organization %s stays in its trust tier: the operator's door is not known", slug)
	}
	order, err := json.Marshal(map[string]int{"tier": tier})
	if err != nil {
		return err
	}
	path := "http://" + door.Admin + "/orgs/" + url.PathEscape(slug) + "/tier"
	request, err := http.NewRequestWithContext(ctx, "POST", path, bytes.NewReader(order))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+door.AdminToken)
	status, _, text, err := ask(request)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, text)
	}
	if err != nil {
		return fmt.Errorf("organization %s cannot be raised to trust tier %d: %w", slug, tier, err)
	}
	return nil
}
