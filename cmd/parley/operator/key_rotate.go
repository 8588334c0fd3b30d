package operator

import (
	"context"

	"parley/cmd/parley/admin"
	"parley/cmd/parley/program"
)

type KeyRotateCmd struct {
	operatorFlags
	Cards bool `help:"Replace the key that signs the A2A cards of agents instead."`
}

// Run replaces the key.
func (c *KeyRotateCmd) Run(ctx context.Context, std *program.Streams) error {
	var rotated admin.RotatedKey
	if err := c.get(ctx, "signing-keys/rotate", admin.RotateKey{Cards: c.Cards}, &rotated); err != nil {
		return err
	}
	if std.JSON {
		return std.Value(rotated)
	}
	if c.Cards {
		return std.Say("A2A cards are signed with key %s; the former key stays published for a day", rotated.Kid)
	}
	return std.Say("new tokens are signed with key %s; the former key stays published for a day", rotated.Kid)
}
