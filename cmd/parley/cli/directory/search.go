package directory

import (
	"context"
	"strconv"
	"strings"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type DirectoryCmd struct {
	Search directorySearchCmd `cmd:"" help:"Find agents by words, by meaning and by filters; without any, list them, newest card first."`
}

type directorySearchCmd struct {
	profile.Flags
	Words        []string      `arg:"" optional:"" help:"Words that the card has; beginnings and misspellings are found too."`
	Semantic     string        `placeholder:"TEXT" help:"What the agent should do, in your own words."`
	Category     []string      `sep:"none" placeholder:"NAME" help:"A category of the card; repeat it to find any of several."`
	Tag          []string      `sep:"none" placeholder:"NAME" help:"A tag of its skills; repeat it to find only cards with all of them."`
	Language     []string      `sep:"none" placeholder:"CODE" help:"A language, such as en; repeat it to find any of several."`
	Jurisdiction string        `placeholder:"CODE" help:"The country or region of the card, such as DE."`
	MessageType  string        `placeholder:"TYPE" help:"A message type that the agent accepts."`
	Org          *parley.OrgID `placeholder:"ID" help:"The agents of one organization."`
	Verified     *bool         `negatable:"" help:"Only agents of verified organizations, or only the others."`
	Pricing      string        `placeholder:"MODEL" help:"free, per_request, subscription or negotiated."`
	Sort         string        `default:"relevance" enum:"relevance,name,created_at" help:"The order: ${enum}."`
	Limit        int           `default:"20" help:"How many agents to show at most; 0 for all."`
}

// Run needs no credentials.
func (c *directorySearchCmd) Run(ctx context.Context, std *program.Streams) error {
	from, _, err := c.AnySession()
	if err != nil {
		return err
	}
	in := api.FindAgents{
		SearchText: api.SearchText{Q: program.Given(strings.Join(c.Words, " ")), Semantic: program.Given(c.Semantic)}, Category: c.Category, Tag: c.Tag, Language: c.Language,
		Jurisdiction: program.Given(c.Jurisdiction), MessageType: program.Given(c.MessageType), OrgID: c.Org, Verified: c.Verified, PricingModel: program.Given(c.Pricing),
		Sort: c.Sort, Limit: agentsAtOnce,
	}
	if c.Limit > 0 {
		in.Limit = min(in.Limit, c.Limit)
	}
	found, err := program.Collect(client.All(ctx, from.Directory.AgentRows, in), c.Limit)
	if err != nil {
		return err
	}
	return program.Rows(std, found, []string{"AGENT", "NAME", "SCORE", "CATEGORIES", "ID"}, func(row api.AgentRow) []string {
		score := "-"
		if row.Score != nil {
			score = strconv.FormatFloat(*row.Score, 'f', 2, 64)
		}
		return []string{row.Handle, row.Name, score, strings.Join(row.Categories, ", "), row.ID.String()}
	})
}

// agentsAtOnce is the most rows of a page.
const agentsAtOnce = 100
