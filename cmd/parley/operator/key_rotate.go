package operator

import (
	"context"

	"parley/cmd/parley/admin"
	"parley/cmd/parley/program"
)

type KeyRotateCmd struct {
	operatorFlags
	Cards    bool `xor:"key" help:"Replace the key that signs the A2A cards of agents instead."`
	Receipts bool `xor:"key" help:"Replace the key that signs receipts of messages instead."`
}

// Run replaces the key.
func (c *KeyRotateCmd) Run(ctx context.Context, std *program.Streams) error {
	var rotated admin.RotatedKey
	if err := c.get(ctx, "signing-keys/rotate", admin.RotateKey{Cards: c.Cards, Receipts: c.Receipts}, &rotated); err != nil {
		return err
	}
	if std.JSON {
		return std.Value(rotated)
	}
	if c.Receipts {
		return std.Say("receipts are signed with key %s; all former keys stay published", rotated.Kid)
	}
	if c.Cards {
		return std.Say("A2A cards are signed with key %s; the former key stays published for a day", rotated.Kid)
	}
	return std.Say("new tokens are signed with key %s; the former key stays published for a day", rotated.Kid)
}
