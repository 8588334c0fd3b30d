package scenario

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/client/api"
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

// Terms are what a server says about its limits. Quota compares two servers by them.
type Terms struct{ Host *Host }

// Check sends a message and checks the terms. With
// limits, every quota must be a number, the message must be counted and every kind of
// rate must be stated. Without limits, the quota of messages must be open and no rate
// may be stated. Comparing two servers is meaningless if one of them is not configured
// as expected.
func (t Terms) Check(ctx context.Context, limited bool) (Spent, error) {
	spent, err := t.check(ctx, limited)
	if err != nil {
		return Spent{}, fmt.Errorf("%s: the terms are not those that were asked for: %w", t.Host.Name(), err)
	}
	return spent, nil
}

func (t Terms) check(ctx context.Context, limited bool) (Spent, error) {
	h := t.Host
	if err := h.freshTokens(ctx); err != nil {
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
	for _, call := range t.calls() {
		if err := t.checkRate(ctx, call, limited); err != nil {
			return Spent{}, err
		}
	}
	after, err := t.Spent(ctx)
	if err == nil && after.Resets.Equal(before.Resets) && after.Messages != before.Messages+1 {
		err = fmt.Errorf("a message was sent and %s went from %d to %d", quotaOfSends, before.Messages, after.Messages)
	}
	return after, err
}

// Spent returns how many of today's messages the server has counted.
func (t Terms) Spent(ctx context.Context) (Spent, error) {
	quotas, err := t.Host.world.globex.client.Quotas(ctx)
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

// calls returns a call of each kind that a sender makes. The second sends a message.
func (t Terms) calls() []ratedCall {
	h := t.Host
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
func (t Terms) checkRate(ctx context.Context, call ratedCall, limited bool) error {
	h := t.Host
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
