package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"parley"
	"parley/actors/webhook"
	"parley/cmd/parley/datadir"
	"parley/cmd/parley/program"
	parleyhttp "parley/http"
	"parley/http/importing"
	"parley/journal"
	"parley/persistence/sealed"
)

type ImportCmd struct {
	File       string `arg:"" help:"File that \"export\" wrote."`
	Data       string `required:"" placeholder:"DIR" help:"Data directory to create; an existing one must be empty."`
	Records    int    `placeholder:"N" help:"Number of records, as \"export\" printed it."`
	SHA256     string `name:"sha256" placeholder:"HEX" help:"SHA-256 of the file, as \"export\" printed it. Without it, the command cannot notice every change."`
	Journals   int    `default:"1" placeholder:"N" help:"Number of journals of the new directory (1 to 64); default: 1."`
	SkipGroups bool   `help:"Leave out groups that cannot be restored, with their messages: groups of other organizations, groups with their agents, and groups with an MLS group."`
}

// importJSON is the output of `import --json`.
type importJSON struct {
	Data          string          `json:"data"`
	OrgID         parley.OrgID    `json:"org_id"`
	OrgSlug       string          `json:"org_slug"`
	ClientID      parley.ClientID `json:"client_id"`
	ClientSecret  string          `json:"client_secret"`
	Records       int             `json:"records"`
	SHA256        string          `json:"sha256"`
	Agents        int             `json:"agents"`
	Groups        int             `json:"groups"`
	Conversations int             `json:"conversations"`
	Messages      int             `json:"messages"`
	Webhooks      int             `json:"webhooks"`
	// OtherAgents stand for agents of OtherOrgs, with which the organization has messages.
	OtherAgents int            `json:"other_agents"`
	OtherOrgs   int            `json:"other_orgs"`
	Skipped     map[string]int `json:"skipped"`
}

// Validate checks the flags.
func (c *ImportCmd) Validate() error {
	if c.Journals < 1 || c.Journals > 64 {
		return fmt.Errorf("--journals: %d is not between 1 and 64", c.Journals)
	}
	return nil
}

// Run checks the whole export before it makes anything. If it fails, nothing is left of the
// directory.
func (c *ImportCmd) Run(ctx context.Context, std *program.Streams) error {
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	export, err := c.read(file)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	made, err := c.write(ctx, export, std)
	if err != nil {
		return err
	}
	out := &importJSON{
		Data: c.Data, OrgID: made.OrgID, OrgSlug: export.Slug(), ClientID: made.ClientID, ClientSecret: made.ClientSecret,
		Records: export.Records(), SHA256: export.SHA256(), Agents: made.Agents, Groups: made.Groups, Conversations: made.Conversations, Messages: made.Messages,
		Webhooks: made.Webhooks, OtherAgents: made.Strangers, OtherOrgs: made.StrangerOrgs, Skipped: made.Skipped,
	}
	if std.JSON {
		return std.Value(out)
	}
	return out.print(std)
}

// read reads the export and compares it with what the flags say.
func (c *ImportCmd) read(file *os.File) (*importing.Export, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a file: the import reads it twice")
	}
	export, err := importing.Read(file, info.Size(), c.SkipGroups)
	switch {
	case err != nil:
		return nil, err
	case c.Records != 0 && c.Records != export.Records():
		return nil, fmt.Errorf("it has %d records, not %d", export.Records(), c.Records)
	case c.SHA256 != "" && !strings.EqualFold(c.SHA256, export.SHA256()):
		return nil, fmt.Errorf("its SHA-256 is %s, not %s", export.SHA256(), strings.ToLower(c.SHA256))
	}
	return export, nil
}

// write makes the data directory.
func (c *ImportCmd) write(ctx context.Context, export *importing.Export, std *program.Streams) (*importing.Imported, error) {
	to, err := datadir.Create(c.Data, c.Journals, std)
	if err != nil {
		return nil, err
	}
	made, err := (*importing.Imported)(nil), to.Store.Start(func(journal.Stream) {}, func(journal.Stream, time.Time) {})
	if err == nil {
		made, err = export.Write(ctx, importing.Target{
			Journal: sealed.New(to.Store, datadir.Sealer(to.Keyring)), SameHome: to.Store.SameHome,
			NewKey:   func(id parley.OrgID) error { _, err := to.Keyring.Create(id); return err },
			SealHook: func(id webhook.ID, secret string) []byte { return parleyhttp.SealHook(to.Master, id, secret) },
			Entropy:  parley.RandomEntropy, Now: time.Now(),
		})
	}
	if err == nil {
		err = to.Finish()
	}
	if err != nil {
		return nil, errors.Join(err, to.Abandon())
	}
	return made, nil
}

func (m *importJSON) print(std *program.Streams) error {
	lines := []string{
		fmt.Sprintf("imported %s into %s: %d records, sha256 %s", m.OrgSlug, m.Data, m.Records, m.SHA256),
		fmt.Sprintf("  %d agents, %d groups, %d conversations, %d messages, %d webhooks", m.Agents, m.Groups, m.Conversations, m.Messages, m.Webhooks),
		"  client_id      " + m.ClientID.String(),
		"  client_secret  " + m.ClientSecret,
		"The secret is shown only here. The former credentials are revoked, and agents have no poll tokens.",
	}
	if m.Webhooks > 0 {
		lines = append(lines, "Webhooks are switched off and have new secrets: rotate each secret, then switch the webhook on.")
	}
	if m.OtherAgents > 0 {
		lines = append(lines, fmt.Sprintf("%d agents of %d other organizations are there by name only: nobody can write to them.", m.OtherAgents, m.OtherOrgs))
	}
	for _, kind := range slices.Sorted(maps.Keys(m.Skipped)) {
		lines = append(lines, fmt.Sprintf("left out: %d records of type %s", m.Skipped[kind], kind))
	}
	return std.Say("%s\n  %s", strings.Join(lines, "\n"), program.Typed("serve --data "+m.Data))
}
