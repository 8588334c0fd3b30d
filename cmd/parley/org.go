package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/actors/org"
	parleyhttp "parley/http"
	"parley/http/client"
)

type orgCmd struct {
	Show    orgShowCmd    `cmd:"" help:"Show what an organization may do and what of it is used."`
	Approve orgApproveCmd `cmd:"" help:"Raise an organization to trust tier 1, if it is not there yet."`
	Tier    orgTierCmd    `cmd:"" help:"Give an organization a trust tier, higher or lower."`
	Quota   orgQuotaCmd   `cmd:"" help:"Set a limit for one organization, whatever its tier gives."`
}

// orgFlags name an organization of a running server.
type orgFlags struct {
	Org   string `arg:"" help:"Slug or id of the organization."`
	Admin string `placeholder:"URL" help:"Operator's address of the running server; default: http://127.0.0.1:8081."`
}

// ask makes a call at the operator's address; nil asks to see only.
func (f *orgFlags) ask(ctx context.Context, std *streams, call string, order any) error {
	shown, err := f.call(ctx, call, order)
	if err != nil {
		return err
	}
	return std.terms(shown)
}

func (f *orgFlags) call(ctx context.Context, call string, order any) (*termsJSON, error) {
	admin, err := url.Parse(cmp.Or(f.Admin, defaultAdmin))
	if err != nil || admin.Host == "" || admin.Scheme != "http" && admin.Scheme != "https" {
		return nil, exitError{code: exitUsage, err: fmt.Errorf("--admin: %q is not an http or https address", f.Admin)}
	}
	method, body := http.MethodGet, []byte(nil)
	if order != nil {
		method = http.MethodPost
		if body, err = json.Marshal(order); err != nil {
			return nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, admin.JoinPath("orgs", url.PathEscape(f.Org), call).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("no server answers at %s; name its address with --admin: %w", admin, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, refusedOrder(answer.StatusCode, text)
	}
	shown := &termsJSON{}
	if err := json.Unmarshal(text, shown); err != nil {
		return nil, fmt.Errorf("the server's answer: %w", err)
	}
	return shown, nil
}

func refusedOrder(status int, body []byte) error {
	var said struct {
		Detail string      `json:"detail"`
		Code   client.Code `json:"code"`
	}
	if json.Unmarshal(body, &said) != nil || said.Detail == "" {
		return exitError{code: refusalCode(status), err: fmt.Errorf("the server answered %d", status)}
	}
	return exitError{code: refusalCode(status), err: errors.New(said.Detail)}
}

// terms tells what an organization may do.
func (s *streams) terms(t *termsJSON) error {
	if s.json {
		return s.value(t)
	}
	if err := s.say("%s (%s), trust tier %d, registered %s by %s", t.Slug, t.ID, t.TrustTier, t.CreatedAt.Format("2006-01-02"), printable(cmp.Or(t.ContactEmail, "nobody"))); err != nil {
		return err
	}
	rows := [][]string{{"QUOTA", "LIMIT", "USED", "FROM"}}
	for _, name := range parleyhttp.QuotaNames() {
		q := t.Quotas[name]
		limit, used := unlimitedWord, ""
		if q.Limit != nil {
			limit = strconv.Itoa(*q.Limit)
		}
		if q.Used != nil {
			used = strconv.FormatInt(*q.Used, 10)
		}
		rows = append(rows, []string{name, limit, used, q.From})
	}
	return s.table(rows)
}

type orgShowCmd struct{ orgFlags }

// Run shows the organization.
func (c *orgShowCmd) Run(ctx context.Context, std *streams) error { return c.ask(ctx, std, "", nil) }

type orgApproveCmd struct{ orgFlags }

// Run lifts nobody down: who is higher already stays there.
func (c *orgApproveCmd) Run(ctx context.Context, std *streams) error {
	has, err := c.call(ctx, "", nil)
	if err != nil {
		return err
	}
	if has.TrustTier >= 1 {
		return std.terms(has)
	}
	return c.ask(ctx, std, "tier", tierRequest{Tier: new(1)})
}

type orgTierCmd struct {
	orgFlags
	Tier int `arg:"" help:"0 registered, 1 cleared, 2 workload identity proven, 3 granted by the operator."`
}

// Validate judges the tier before anybody is asked.
func (c *orgTierCmd) Validate() error {
	if c.Tier < 0 || c.Tier > org.TierMax {
		return fmt.Errorf("%d is not a trust tier: those are 0 to %d", c.Tier, org.TierMax)
	}
	return nil
}

// Run gives the tier.
func (c *orgTierCmd) Run(ctx context.Context, std *streams) error {
	return c.ask(ctx, std, "tier", tierRequest{Tier: &c.Tier})
}

type orgQuotaCmd struct {
	orgFlags
	Name  string `arg:"" help:"Quota, as org show names it."`
	Limit string `arg:"" help:"A number, none for no limit, or default for what the trust tier gives."`
}

// Run sets the limit.
func (c *orgQuotaCmd) Run(ctx context.Context, std *streams) error {
	limit := jsontext.Value("null")
	switch n, err := strconv.Atoi(c.Limit); {
	case c.Limit == defaultLimit:
		limit = jsontext.Value(`"` + defaultLimit + `"`)
	case err == nil && n >= 0:
		limit = jsontext.Value(strconv.Itoa(n))
	case c.Limit != unlimitedWord:
		return exitError{code: exitUsage, err: fmt.Errorf("%q is neither a number nor %s nor %s", c.Limit, unlimitedWord, defaultLimit)}
	}
	return c.ask(ctx, std, "quota", quotaRequest{Name: c.Name, Limit: limit})
}
