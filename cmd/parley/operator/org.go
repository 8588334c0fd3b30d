package operator

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"parley/actors/org"
	"parley/client/api"
	"parley/cmd/parley/admin"
	"parley/cmd/parley/program"
	"parley/http/access"
)

type OrgCmd struct {
	List    orgListCmd    `cmd:"" help:"List all organizations of the server."`
	Show    orgShowCmd    `cmd:"" help:"Show an organization's limits and how much of each is used."`
	Approve orgApproveCmd `cmd:"" help:"Raise an organization to trust tier 1 if it is at tier 0."`
	Tier    orgTierCmd    `cmd:"" help:"Set an organization's trust tier, higher or lower."`
	Suspend orgSuspendCmd `cmd:"" help:"Restrict an organization to reading: end its streams, pause its webhooks, reject all other calls."`
	Resume  orgResumeCmd  `cmd:"" help:"End a suspension; webhooks deliver the pending events."`
	Hold    orgHoldCmd    `cmd:"" help:"Keep an organization from being erased until release."`
	Release orgReleaseCmd `cmd:"" help:"End a hold: the organization may be erased."`
	Quota   orgQuotaCmd   `cmd:"" help:"Set a limit for one organization, independent of its tier."`
}

// noLimit is the argument for no limit.
const noLimit = "none"

// orgFlags name an organization of a running server that is to be changed.
type orgFlags struct {
	Org string `arg:"" help:"Slug or id of the organization."`
	changeFlags
}

// ask changes the organization and prints it.
func (f *orgFlags) ask(ctx context.Context, std *program.Streams, call string, order any) error {
	shown := &admin.OrgTerms{}
	if err := f.change(ctx, path.Join("orgs", url.PathEscape(f.Org), call), order, shown); err != nil {
		return err
	}
	return printTerms(std, shown)
}

// printTerms prints the terms of an organization.
func printTerms(s *program.Streams, t *admin.OrgTerms) error {
	if s.JSON {
		return s.Value(t)
	}
	if err := s.Say("%s (%s), trust tier %d, registered %s by %s", t.Slug, t.ID, t.TrustTier, t.CreatedAt.Format("2006-01-02"), cmp.Or(t.ContactEmail, "nobody")); err != nil {
		return err
	}
	if t.SuspendedAt != nil {
		if err := s.Say("suspended since %s", t.SuspendedAt.Format(time.RFC3339)); err != nil {
			return err
		}
	}
	if t.HeldAt != nil {
		if err := s.Say("held since %s", t.HeldAt.Format(time.RFC3339)); err != nil {
			return err
		}
	}
	rows := [][]string{{"QUOTA", "LIMIT", "USED", "FROM"}}
	for _, name := range access.QuotaNames() {
		q := t.Quotas[name]
		limit, used := noLimit, ""
		if q.Limit != nil {
			limit = strconv.Itoa(*q.Limit)
		}
		if q.Used != nil {
			used = strconv.FormatInt(*q.Used, 10)
		}
		rows = append(rows, []string{name, limit, used, q.From})
	}
	return s.Table(rows)
}

type orgListCmd struct{ operatorFlags }

// Run lists the organizations page by page, sorted by slug.
func (c *orgListCmd) Run(ctx context.Context, std *program.Streams) error {
	all := []admin.OrgItem{}
	for cursor := ""; ; {
		var page admin.OrgPage
		if err := c.get(ctx, "orgs?cursor="+url.QueryEscape(cursor), nil, &page); err != nil {
			return err
		}
		all = append(all, page.Items...)
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	slices.SortFunc(all, func(a, b admin.OrgItem) int { return cmp.Compare(a.Slug, b.Slug) })
	if std.JSON {
		return program.List(std, all)
	}
	rows := [][]string{{"SLUG", "ID", "TIER", "AGENTS", "CREATED", "SUSPENDED", "HELD"}}
	for _, o := range all {
		rows = append(rows, []string{o.Slug, o.ID.String(), strconv.Itoa(o.TrustTier), strconv.FormatInt(o.AgentCount, 10), o.CreatedAt.Format(time.RFC3339), since(o.SuspendedAt), since(o.HeldAt)})
	}
	return std.Table(rows)
}

// since returns an instant, or nothing.
func since(at *api.Time) string {
	if at == nil {
		return ""
	}
	return at.Format(time.RFC3339)
}

type orgHoldCmd struct{ orgFlags }

func (c *orgHoldCmd) Run(ctx context.Context, std *program.Streams) error {
	return c.ask(ctx, std, "hold", struct{}{})
}

type orgReleaseCmd struct{ orgFlags }

func (c *orgReleaseCmd) Run(ctx context.Context, std *program.Streams) error {
	return c.ask(ctx, std, "release", struct{}{})
}

type orgSuspendCmd struct{ orgFlags }

func (c *orgSuspendCmd) Run(ctx context.Context, std *program.Streams) error {
	return c.ask(ctx, std, "suspend", struct{}{})
}

type orgResumeCmd struct{ orgFlags }

func (c *orgResumeCmd) Run(ctx context.Context, std *program.Streams) error {
	return c.ask(ctx, std, "resume", struct{}{})
}

type orgShowCmd struct {
	Org string `arg:"" help:"Slug or id of the organization."`
	operatorFlags
}

func (c *orgShowCmd) Run(ctx context.Context, std *program.Streams) error {
	shown := &admin.OrgTerms{}
	if err := c.get(ctx, path.Join("orgs", url.PathEscape(c.Org)), nil, shown); err != nil {
		return err
	}
	return printTerms(std, shown)
}

type orgApproveCmd struct{ orgFlags }

// Run raises the organization's tier. It never lowers the tier of an organization that
// has a higher one.
func (c *orgApproveCmd) Run(ctx context.Context, std *program.Streams) error {
	return c.ask(ctx, std, "approve", struct{}{})
}

type orgTierCmd struct {
	orgFlags
	Tier int `arg:"" help:"0 registered, 1 cleared, 2 workload identity proven, 3 granted by the operator."`
}

// Validate checks the tier before the server is called.
func (c *orgTierCmd) Validate() error {
	if c.Tier < 0 || c.Tier > org.TierMax {
		return fmt.Errorf("%d is not a trust tier: use 0 to %d", c.Tier, org.TierMax)
	}
	return nil
}

func (c *orgTierCmd) Run(ctx context.Context, std *program.Streams) error {
	return c.ask(ctx, std, "tier", admin.TierRequest{Tier: &c.Tier})
}

type orgQuotaCmd struct {
	orgFlags
	Name  string `arg:"" help:"Quota, as org show names it."`
	Limit string `arg:"" help:"A number, none for no limit, or default for the trust tier's limit."`
}

func (c *orgQuotaCmd) Run(ctx context.Context, std *program.Streams) error {
	limit := jsontext.Value("null")
	switch n, err := strconv.Atoi(c.Limit); {
	case c.Limit == admin.DefaultLimit:
		limit = jsontext.Value(`"` + admin.DefaultLimit + `"`)
	case err == nil && n >= 0:
		limit = jsontext.Value(strconv.Itoa(n))
	case c.Limit != noLimit:
		return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%q is neither a number nor %s nor %s", c.Limit, noLimit, admin.DefaultLimit)}
	}
	return c.ask(ctx, std, "quota", admin.QuotaRequest{Name: c.Name, Limit: limit})
}
