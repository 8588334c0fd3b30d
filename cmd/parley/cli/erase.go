package cli

import (
	"context"
	"fmt"
	"time"

	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

// EraseCmd erases the organization of a profile.
type EraseCmd struct {
	profile.Flags
	Org string `arg:"" name:"slug" help:"Slug of the organization, as a confirmation: this cannot be undone."`
}

// Run erases the organization. The profile's files stay.
func (c *EraseCmd) Run(ctx context.Context, std *program.Streams) error {
	from, directory, err := c.Open()
	if err != nil {
		return err
	}
	org, err := from.Org.Get(ctx)
	if err != nil {
		return err
	}
	if org.Slug == nil || *org.Slug != c.Org {
		return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%q is not the slug of the profile's organization; nothing was erased", c.Org)}
	}
	done, err := from.Org.Erase(ctx, org.ID)
	if err != nil {
		return err
	}
	return std.Show(done, "erased %s at %s: %d agents, %d conversations, %d messages, %d groups\nthe profile's keys and credentials, which are of no more use, are still in %s",
		c.Org, done.ErasedAt.Format(time.RFC3339), done.AgentsDeleted, done.ConversationsDeleted, done.MessagesDeleted, done.GroupsDeleted, directory)
}
