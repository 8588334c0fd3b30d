package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type RegisterCmd struct {
	profile.Flags
	Slug  string `arg:"" help:"Short name of the organization, part of every handle: 2-32 lowercase letters, digits, hyphens."`
	Email string `required:"" placeholder:"ADDRESS" help:"Contact address."`
	Name  string `placeholder:"TEXT" help:"Full name; default: the slug."`
	Token string `name:"registration-token" env:"PARLEY_REGISTRATION_TOKEN" placeholder:"TOKEN" help:"Token to register with, if the operator of the server gave you one."`
}

// registered is the output of `register --json`. The secret stays in the profile.
type registered struct {
	OrgID     string `json:"org_id"`
	OrgSlug   string `json:"org_slug"`
	ClientID  string `json:"client_id"`
	TrustTier int    `json:"trust_tier"`
	URL       string `json:"url"`
	Profile   string `json:"profile"`
}

// Run registers the organization and saves its credentials. It does not overwrite
// credentials in a profile, because they cannot be obtained again.
func (c *RegisterCmd) Run(ctx context.Context, std *program.Streams) error {
	if !parley.ValidSlug(c.Slug) {
		return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%q is not a valid slug: use 2 to 32 lowercase letters, digits and interior hyphens", c.Slug)}
	}
	directory, err := c.Directory()
	if err != nil {
		return err
	}
	path := filepath.Join(directory, profile.CredentialsFile)
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return program.ExitError{Code: program.ExitConflict, Err: fmt.Errorf("%s already exists; choose another directory with --profile", path)}
	}
	in := api.Register{Email: c.Email, OrgSlug: c.Slug}
	if c.Name != "" {
		in.OrgName = &c.Name
	}
	if c.Token != "" {
		in.RegistrationToken = &c.Token
	}
	a, err := profile.Register(ctx, &c.Flags, in, proofProgress(std))
	if errors.Is(err, client.SlugTaken) {
		return fmt.Errorf("%w\nIf you registered it, select the profile with its credentials with --profile. Otherwise choose another slug", err)
	}
	if err != nil {
		return err
	}
	if err := a.Save(directory); err != nil {
		return fmt.Errorf("registered as client %s with secret %s, but the credentials could not be stored: %w", a.ClientID, a.ClientSecret, err)
	}
	return std.Show(registered{a.OrgID.String(), a.OrgSlug, a.ClientID.String(), a.TrustTier, a.URL, directory}, "registered %s at %s (trust tier %d)\ncredentials in %s", a.OrgSlug, a.URL, a.TrustTier, path)
}

// proofProgress returns a function that prints the progress of a long proof of work, at
// most once a second and only on a terminal.
func proofProgress(std *program.Streams) func(client.ProofProgress) {
	told := time.Now()
	return func(p client.ProofProgress) {
		if time.Since(told) >= time.Second && program.IsTerminal(std.RawErr) {
			told = time.Now()
			std.Note("proof of work of %d bits: %d tried, about %d needed", p.Difficulty, p.Tried, uint64(1)<<p.Difficulty)
		}
	}
}
