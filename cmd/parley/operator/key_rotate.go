package operator

import (
	"context"
	"time"

	"parley/cmd/parley/admin"
	"parley/cmd/parley/program"
)

type KeyRotateCmd struct {
	changeFlags
	Cards    bool `xor:"key" help:"Replace the key that signs the A2A cards of agents instead."`
	Receipts bool `xor:"key" help:"Replace the key that signs receipts of messages instead."`
	Now      bool `help:"Sign with the new key at once, such as when the former one is compromised. Without it the key is published for 65 minutes first, because verifiers cache keys."`
}

// Run replaces the key.
func (c *KeyRotateCmd) Run(ctx context.Context, std *program.Streams) error {
	var rotated admin.RotatedKey
	if err := c.change(ctx, "signing-keys/rotate", admin.RotateKey{Cards: c.Cards, Receipts: c.Receipts, Now: c.Now}, &rotated); err != nil {
		return err
	}
	if std.JSON {
		return std.Value(rotated)
	}
	what, former := "new tokens", "the former key stays published for a day"
	switch {
	case c.Receipts:
		what, former = "receipts", "all former keys stay published"
	case c.Cards:
		what = "A2A cards"
	}
	if c.Now {
		return std.Say("%s are signed with key %s; %s", what, rotated.Kid, former)
	}
	return std.Say("key %s is published, and signs %s from %s on (--now: at once); %s", rotated.Kid, what, rotated.SignsAt.Format(time.RFC3339), former)
}
