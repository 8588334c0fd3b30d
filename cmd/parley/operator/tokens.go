package operator

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"parley/actors/operator"
	"parley/client/parley"
	"parley/cmd/parley/admin"
	"parley/cmd/parley/program"
)

// OperatorCmd has the commands for operators' tokens.
type OperatorCmd struct {
	Token struct {
		Create operatorTokenCreateCmd `cmd:"" help:"Create a token for an operator, with a name and a role; shows it once."`
		List   operatorTokenListCmd   `cmd:"" help:"List the tokens of operators."`
		Revoke operatorTokenRevokeCmd `cmd:"" help:"Revoke a token: all nodes refuse it at once."`
	} `cmd:"" help:"Create, list and revoke the tokens with which people operate the server (PARLEY_ADMIN_TOKEN)."`
}

type operatorTokenCreateCmd struct {
	Name string `arg:"" help:"Name of the token, such as that of its holder."`
	Role string `required:"" enum:"read,support,admin" help:"What it may do: ${enum}. Each may also do what the one before it may."`
	changeFlags
}

func (c *operatorTokenCreateCmd) Run(ctx context.Context, std *program.Streams) error {
	var made admin.OperatorToken
	if err := c.change(ctx, "operator-tokens", admin.NewOperatorToken{Name: c.Name, Role: operator.Role(c.Role)}, &made); err != nil {
		return err
	}
	return std.Show(made, "%s\noperator token %s (%s), role %s; it is shown only here. Use it as PARLEY_ADMIN_TOKEN.", made.Token, made.Name, made.ID, made.Role)
}

type operatorTokenListCmd struct{ operatorFlags }

func (c *operatorTokenListCmd) Run(ctx context.Context, std *program.Streams) error {
	var all []admin.OperatorToken
	if err := c.get(ctx, "operator-tokens", nil, &all); err != nil {
		return err
	}
	if std.JSON {
		return program.List(std, all)
	}
	rows := [][]string{{"NAME", "ROLE", "CREATED", "ID"}}
	for _, t := range all {
		rows = append(rows, []string{t.Name, string(t.Role), t.CreatedAt.Format(time.RFC3339), t.ID.String()})
	}
	return std.Table(rows)
}

type operatorTokenRevokeCmd struct {
	Name string `arg:"" help:"Name of the token."`
	changeFlags
}

func (c *operatorTokenRevokeCmd) Run(ctx context.Context, std *program.Streams) error {
	if err := c.change(ctx, "operator-tokens/"+url.PathEscape(c.Name)+"/revoke", struct{}{}, nil); err != nil {
		return err
	}
	return std.Show(struct {
		Name string `json:"revoked"`
	}{c.Name}, "revoked %s", c.Name)
}

// RegistrationCmd has the commands for registration tokens.
type RegistrationCmd struct {
	Token struct {
		Create registrationCreateCmd `cmd:"" help:"Create a token with which others can register organizations; shows it once."`
		List   registrationListCmd   `cmd:"" help:"List the registration tokens that have not expired."`
		Revoke registrationRevokeCmd `cmd:"" help:"Revoke a registration token: it admits nobody any more."`
	} `cmd:"" help:"Create, list and revoke the tokens that a server asks for with --registration token."`
}

type registrationCreateCmd struct {
	Uses    int          `default:"1" help:"How many organizations it admits. Default: ${default}."`
	Expires program.Span `default:"7d" placeholder:"SPAN" help:"How long it admits, such as 12h or 30d. Default: ${default}."`
	Tier    *int         `help:"Trust tier of the organizations, whatever --tier1 says."`
	changeFlags
}

func (c *registrationCreateCmd) Run(ctx context.Context, std *program.Streams) error {
	var made admin.RegistrationToken
	asked := admin.NewRegistrationToken{Uses: c.Uses, Seconds: int64(time.Duration(c.Expires) / time.Second), Tier: c.Tier}
	if err := c.change(ctx, "registration-tokens", asked, &made); err != nil {
		return err
	}
	return std.Show(made, "%s\nregistration token %s admits %d until %s; it is shown only here (parley register --registration-token).", made.Token, made.ID, made.Uses, made.ExpiresAt.Format(time.RFC3339))
}

type registrationListCmd struct{ operatorFlags }

func (c *registrationListCmd) Run(ctx context.Context, std *program.Streams) error {
	var all []admin.RegistrationToken
	if err := c.get(ctx, "registration-tokens", nil, &all); err != nil {
		return err
	}
	if std.JSON {
		return program.List(std, all)
	}
	rows := [][]string{{"ID", "USED", "USES", "TIER", "CREATED", "EXPIRES"}}
	for _, t := range all {
		tier := ""
		if t.Tier != nil {
			tier = strconv.Itoa(*t.Tier)
		}
		rows = append(rows, []string{t.ID.String(), strconv.Itoa(t.Used), strconv.Itoa(t.Uses), tier, t.CreatedAt.Format(time.RFC3339), t.ExpiresAt.Format(time.RFC3339)})
	}
	return std.Table(rows)
}

type registrationRevokeCmd struct {
	ID parley.RegistrationID `arg:"" help:"Id of the token."`
	changeFlags
}

func (c *registrationRevokeCmd) Run(ctx context.Context, std *program.Streams) error {
	if err := c.change(ctx, "registration-tokens/"+c.ID.String()+"/revoke", struct{}{}, nil); err != nil {
		return err
	}
	return std.Show(struct {
		ID parley.RegistrationID `json:"revoked"`
	}{c.ID}, "revoked %s", c.ID)
}
