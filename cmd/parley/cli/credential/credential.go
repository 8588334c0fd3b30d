package credential

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type CredentialCmd struct {
	Create createCmd `cmd:"" help:"Create a credential, also one that is good for some agents or for reading only; shows the secret once."`
	List   listCmd   `cmd:"" help:"List the live credentials, oldest first."`
	Revoke revokeCmd `cmd:"" help:"Revoke a credential: its tokens are refused at once, its streams end."`
}

type createCmd struct {
	profile.Flags
	Scope       string       `default:"org" enum:"org,agents,read" help:"What it is good for: everything (org), what the named agents do (agents), or reading (read). Default: ${default}."`
	Agent       []string     `short:"a" placeholder:"NAME" help:"Limit it to this agent, by name, handle or id; repeat for several."`
	Description string       `placeholder:"TEXT" help:"Purpose of the credential."`
	Expires     program.Span `placeholder:"SPAN" help:"How long it lives, such as 12h or 90d; default: until it is revoked."`
	To          string       `placeholder:"DIR" help:"Store it as a new profile in this directory instead of showing the secret."`
	MoveKeys    bool         `help:"Move the keys of the named agents into that profile: only it can act for them from then on."`
}

// Validate checks the flags before the server is called.
func (c *createCmd) Validate() error {
	switch {
	case c.Scope == string(parley.ScopeAgents) && len(c.Agent) == 0:
		return errors.New("--scope agents needs --agent")
	case c.Scope == string(parley.ScopeOrg) && len(c.Agent) > 0:
		return errors.New("--agent needs --scope agents or read")
	case c.MoveKeys && (c.To == "" || len(c.Agent) == 0):
		return errors.New("--move-keys needs --to and --agent")
	case c.Expires < 0:
		return errors.New("--expires must be positive")
	}
	return nil
}

// created is the output of `credential create --to --json`. The secret is in the profile.
type created struct {
	api.Credential
	Profile string `json:"profile"`
}

func (c *createCmd) Run(ctx context.Context, std *program.Streams) error {
	from, directory, err := c.Open()
	if err != nil {
		return err
	}
	account, _, err := c.Load()
	if err != nil {
		return err
	}
	if err := vacant(c.To); err != nil {
		return err
	}
	in := api.CreateCredential{Scope: c.Scope, Description: program.Given(c.Description)}
	for _, name := range c.Agent {
		agent, err := profile.FindAgent(ctx, from, name)
		if err != nil {
			return err
		}
		in.AgentIDs = append(in.AgentIDs, agent.ID)
	}
	if c.Expires > 0 {
		in.ExpiresAt = new(api.At(time.Now().Add(time.Duration(c.Expires))))
	}
	made, err := from.Org.CreateCredential(ctx, in)
	if err != nil {
		return err
	}
	if c.To == "" {
		return std.Show(made, "created %s (%s)\n  client id      %s\n  client secret  %s  (shown once)", made.Scope, ending(made.Credential), made.ClientID, made.ClientSecret)
	}
	account.ClientID, account.ClientSecret, account.CreatedAt = made.ClientID, made.ClientSecret, made.CreatedAt
	if err := account.Save(c.To); err != nil {
		return fmt.Errorf("created client %s with secret %s, but it could not be stored: %w", made.ClientID, made.ClientSecret, err)
	}
	if c.MoveKeys {
		if err := profile.MoveKeys(directory, c.To, in.AgentIDs); err != nil {
			return fmt.Errorf("client %s is in %s, but the keys could not be moved: %w", made.ClientID, c.To, err)
		}
	}
	return std.Show(created{made.Credential, c.To}, "created %s (%s) as client %s in %s", made.Scope, ending(made.Credential), made.ClientID, c.To)
}

// vacant refuses a directory that has credentials.
func vacant(directory string) error {
	if directory == "" {
		return nil
	}
	path := filepath.Join(directory, profile.CredentialsFile)
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return program.ExitError{Code: program.ExitConflict, Err: fmt.Errorf("%s already exists; choose another directory with --to", path)}
	}
	return nil
}

func ending(c api.Credential) string {
	if c.ExpiresAt == nil {
		return "until it is revoked"
	}
	return "until " + program.Clock(*c.ExpiresAt)
}

type listCmd struct{ profile.Flags }

func (c *listCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	found, err := from.Org.Credentials(ctx, struct{}{})
	if err != nil {
		return err
	}
	return program.Rows(std, found, []string{"CLIENT ID", "SCOPE", "AGENTS", "CREATED", "EXPIRES", "LAST USED", "DESCRIPTION"}, func(one api.ListedCredential) []string {
		return []string{
			one.ClientID.String(), one.Scope, named(one.AgentIDs), program.Clock(one.CreatedAt), clock(one.ExpiresAt), clock(one.LastUsedAt), program.Text(one.Description),
		}
	})
}

func named(ids *[]parley.AgentID) string {
	if ids == nil {
		return "all"
	}
	var texts []string
	for _, id := range *ids {
		texts = append(texts, id.String())
	}
	return strings.Join(texts, ",")
}

func clock(at *api.Time) string {
	if at == nil {
		return "never"
	}
	return program.Clock(*at)
}

type revokeCmd struct {
	profile.Flags
	ClientID parley.ClientID `arg:"" help:"Id of the credential."`
}

func (c *revokeCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	if err := from.Org.DeleteCredential(ctx, c.ClientID); err != nil {
		return err
	}
	return std.Show(map[string]any{"client_id": c.ClientID, "revoked": true}, "revoked %s", c.ClientID)
}
