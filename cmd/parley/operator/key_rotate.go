package operator

import (
	"context"

	"parley/cmd/parley/admin"
	"parley/cmd/parley/program"
)

type KeyRotateCmd struct{ operatorFlags }

// Run replaces the key.
func (c *KeyRotateCmd) Run(ctx context.Context, std *program.Streams) error {
	var rotated admin.RotatedKey
	if err := c.get(ctx, "signing-keys/rotate", struct{}{}, &rotated); err != nil {
		return err
	}
	if std.JSON {
		return std.Value(rotated)
	}
	return std.Say("new tokens are signed with key %s; the former key stays published for a day", rotated.Kid)
}
