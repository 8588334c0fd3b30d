package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/bench/scenario/host"
	"parley/client/api"
)

// Names of the figures of a run of Quota. docs/benchmarks.md says what they mean.
const (
	FigureFree          = "free_per_second"
	FigureLimited       = "limited_per_second"
	FigureLimitedOfFree = "limited_of_free"
)

// limitedTier is the trust tier of the organizations on the server with limits.
const limitedTier = 3

// limitedFlags are further flags of the server with limits: those of the public profile, raised
// so far that all are checked and none is ever reached, not even at a million messages a second
// for an hour.
var limitedFlags = []string{
	"--quota-profile", "public",
	"--quota", "tier3.agents=1000000000", "--quota", "tier3.messages_per_day=1000000000000", "--quota", "tier3.groups=1000000000",
	"--quota", "tier3.stored_bytes=1000000000000000", "--quota", "tier3.changes_per_day=1000000000",
	"--rate", "register=100000000", "--rate", "token=100000000", "--rate", "writes=100000000", "--rate", "reads=100000000", "--rate", "public=100000000",
}

// quota is Quota.
type quota struct{ set *Set }

// Run implements Scenario. It starts a second server, with limits. The run holds the last window
// with limits and the failures of all windows; the figures cover all windows.
func (q *quota) Run(ctx context.Context, r *host.Round) (err error) {
	params := q.set.Params
	params.Keep, params.Tier = false, limitedTier
	another, stop, err := r.Bench.Another(ctx, params, limitedFlags...)
	if err != nil {
		return err
	}
	other := setOf(another)
	defer func() { err = errors.Join(err, stop()) }()
	free, limited := terms{q.set.Host}, terms{other.Host}
	if _, err := free.verify(ctx, false); err != nil {
		return err
	}
	before, err := limited.verify(ctx, true)
	if err != nil {
		return err
	}
	if err := errors.Join(q.set.SettleUnmeasured(), other.SettleUnmeasured()); err != nil {
		return err
	}
	stored := other.Stored()
	sums, last, err := inTurn(ctx, r.Plan, r.Bench.Meter(), [2]*Set{q.set, other}, r.Bench.Begin(ctx))
	if err != nil {
		return err
	}
	last.Fill(r.Result)
	r.Result.Figures = map[string]float64{}
	host.Compare(r.Result.Figures, sums, FigureFree, FigureLimited, FigureLimitedOfFree)
	r.Result.Failures = sums[0].Failures + sums[1].Failures
	r.Result.Reasons = sums[0].Reasons
	for reason, n := range sums[1].Reasons {
		host.AddReason(r.Result, reason, n)
	}
	if r.Result.Failures > 0 {
		r.Result.Invalid = "not all sends were accepted, so that the windows cannot be compared"
	}
	_, after, err := limited.quotas(ctx)
	if err != nil {
		return err
	}
	return counted(before, after, other.Stored()-stored)
}

// counted returns an error if the server with limits has not counted the accepted messages
// against the quota.
func counted(before, after spent, accepted int64) error {
	if n := after.messages - before.messages; after.resets.Equal(before.resets) && n < accepted {
		return fmt.Errorf("of %d messages that were accepted %d were counted against the quota", accepted, n)
	}
	return nil
}

// quotaOfSends is the quota that a send uses.
const quotaOfSends = "messages_per_day"

// rateLimitHeader is on every answer that a rate limit applies to.
const rateLimitHeader = "RateLimit-Limit"

// spent is how many of its messages the sending organization has used.
type spent struct {
	messages int64
	// resets is when the count starts again at zero.
	resets time.Time
}

// terms are what a server says about its limits.
type terms struct{ host *host.Host }

// verify sends a message and checks the terms, because two servers cannot be compared if one of them
// is not configured as expected. With limits, every quota must be a number, the message must be
// counted and its rate must be stated. Without limits, the quota of messages must be open and no
// rate may be stated.
func (t terms) verify(ctx context.Context, limited bool) (used spent, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: the terms are not those that were asked for: %w", t.host.Name(), err)
		}
	}()
	if err := t.host.FreshTokens(ctx); err != nil {
		return used, err
	}
	quotas, before, err := t.quotas(ctx)
	if err == nil {
		err = judgeQuotas(quotas, t.host.Params.Tier, limited)
	}
	if err == nil {
		err = t.checkRate(ctx, limited)
	}
	if err != nil {
		return used, err
	}
	_, used, err = t.quotas(ctx)
	if err == nil && used.resets.Equal(before.resets) && used.messages != before.messages+1 {
		err = fmt.Errorf("a message was sent and %s went from %d to %d", quotaOfSends, before.messages, used.messages)
	}
	return used, err
}

// quotas returns the quotas, and how many of today's messages the server has counted.
func (t terms) quotas(ctx context.Context) (*api.Quotas, spent, error) {
	quotas, err := t.host.Deployment.SendingOrg.Client.Org.Quotas(ctx)
	if err != nil {
		return nil, spent{}, err
	}
	q := quotas.Quotas[quotaOfSends]
	if q.Used == nil {
		return nil, spent{}, fmt.Errorf("GET /org/quotas does not say how much of %s is used", quotaOfSends)
	}
	used := spent{messages: int64(*q.Used)}
	if q.ResetsAt != nil {
		used.resets = q.ResetsAt.Time
	}
	return quotas, used, nil
}

// judgeQuotas returns an error that says how the quotas differ from the expected ones.
func judgeQuotas(quotas *api.Quotas, tier int, limited bool) error {
	if !limited {
		if limit := quotas.Quotas[quotaOfSends].Limit; limit != nil {
			return fmt.Errorf("%s is limited to %d", quotaOfSends, *limit)
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

// checkRate sends a message and checks whether the answer states a rate.
func (t terms) checkRate(ctx context.Context, limited bool) error {
	h := t.host
	from, to, key := h.Deployment.Senders[0], h.Deployment.Recipients[0], host.Key{Run: h.NextRun()}
	c, err := h.Caller(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	answer, err := c.Exchange(c.Request("/messages", from, to, key), key)
	if err != nil {
		return err
	}
	if _, err := c.Accept(answer, key, to); err != nil {
		return fmt.Errorf("a message is answered with %d: %s", answer.Status, answer.Body)
	}
	stated := answer.Header(rateLimitHeader)
	switch n, err := strconv.ParseInt(stated, 10, 64); {
	case limited && (err != nil || n <= 0):
		return errors.New("the rate of writes is not checked: POST /messages states none")
	case !limited && stated != "":
		return fmt.Errorf("there is a rate of writes: POST /messages states %q", stated)
	}
	return nil
}
