package directory

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type CardCmd struct {
	Put    cardPutCmd    `cmd:"" help:"Publish an agent's card, in place of any it had before."`
	Get    cardGetCmd    `cmd:"" help:"Show the card of any agent, of any organization."`
	Delete cardDeleteCmd `cmd:"" help:"Delete an agent's card."`
}

type cardPutCmd struct {
	profile.AgentArg
	File string `arg:"" help:"File with the card as JSON, as PUT /agents/{id}/card takes it; - for standard input."`
}

func (c *cardPutCmd) Run(ctx context.Context, std *program.Streams) error {
	document, err := readDocument(std, c.File)
	if err != nil {
		return program.ExitError{Code: program.ExitUsage, Err: err}
	}
	agent, err := c.ProvideAgent(ctx)
	if err != nil {
		return err
	}
	card, err := agent.Agents.PutCardJSON(ctx, agent.ID, document)
	if err != nil {
		return err
	}
	return std.Show(card, "published the card of %s", cardDetails(card))
}

// readDocument reads a JSON file, or standard input if it is named "-".
func readDocument(std *program.Streams, name string) ([]byte, error) {
	document, err := std.Read(name, parley.BodyBytesMax)
	if err == nil && !json.Valid(document) {
		err = fmt.Errorf("%s is not JSON", name)
	}
	return document, err
}

type cardGetCmd struct {
	profile.Flags
	Agent string `arg:"" help:"Handle or id; a bare name is an agent of the organization."`
}

// Run needs credentials only if the agent is named by a bare name.
func (c *cardGetCmd) Run(ctx context.Context, std *program.Streams) error {
	from, err := brandedClient(ctx, &c.Flags)
	if err != nil {
		return err
	}
	name, err := profile.PublicName(ctx, from, c.Agent)
	if err != nil {
		return err
	}
	card, err := from.Agents.Card(ctx, name)
	if err != nil {
		return err
	}
	return std.Show(card, "%s", cardDetails(card))
}

// brandedClient is Flags.AnySession with the server's brand, which an anonymous client has to
// ask for.
func brandedClient(ctx context.Context, flags *profile.Flags) (*client.Session, error) {
	from, anonymous, err := flags.AnySession()
	if err != nil || !anonymous {
		return from, err
	}
	version, err := from.Version(ctx)
	if err != nil {
		return nil, err
	}
	return client.New(flags.URL, client.WithBrand(version.Brand))
}

type cardDeleteCmd struct{ profile.AgentArg }

func (c *cardDeleteCmd) Run(ctx context.Context, std *program.Streams, agent *profile.OwnAgent) error {
	if err := agent.Agents.DeleteCard(ctx, agent.ID); err != nil {
		return err
	}
	return std.Show(map[string]any{"agent_id": agent.ID, "deleted": true}, "deleted the card of %s", program.Text(agent.Handle))
}

// cardDetails returns the handle of a card's agent and the lines of the card.
func cardDetails(card *api.Card) program.Printable {
	x := &card.Extension
	lines := program.Format("%s", x.Handle)
	line := func(name, text string) {
		if text != "" {
			lines.Add("  %-12s %s", name, text)
		}
	}
	optional := func(name string, text *string) {
		if text != nil {
			line(name, *text)
		}
	}
	line("name", card.Name)
	optional("about", card.Description)
	optional("version", card.Version)
	if card.Provider != nil {
		line("provider", card.Provider.Organization+", "+card.Provider.URL)
	}
	for _, skill := range card.Skills {
		line("skill", skill.Name+": "+skill.Description)
	}
	line("categories", strings.Join(x.Categories, ", "))
	line("languages", strings.Join(x.Languages, ", "))
	optional("jurisdiction", x.Jurisdiction)
	optional("pricing", x.PricingModel)
	line("accepts", strings.Join(x.MessageTypesAccepted, ", "))
	optional("A2A", x.A2AEndpoint)
	line("public", map[bool]string{true: "yes", false: "no"}[card.IsPublic])
	line("trust tier", fmt.Sprint(x.TrustTier))
	line("words", x.VerificationWords)
	line("signing", x.SigningKey.Curve+" "+x.SigningKey.X)
	line("encryption", x.EncryptionKey.Curve+" "+x.EncryptionKey.X)
	return lines
}
