package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/go-json-experiment/json"

	"parley/client"
	"parley/client/api"
	"parley/client/parley"
	"parley/client/receipts"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type ReceiptCmd struct {
	Get    receiptGetCmd    `cmd:"" default:"withargs" help:"Print the server's signed receipt of a message; default subcommand."`
	Verify receiptVerifyCmd `cmd:"" help:"Check a receipt: its signature and, with --payload, that it is for that payload."`
}

type receiptGetCmd struct {
	profile.Flags
	Message parley.MessageID `arg:"" help:"Id of a message that one of the organization's agents sent or received."`
	Out     string           `help:"Write the receipt to this file, which must not exist yet."`
}

func (c *receiptGetCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	receipt, err := from.Messages.Receipt(ctx, c.Message)
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err := writeNew(c.Out, receipt.Receipt+"\n"); err != nil {
			return err
		}
	}
	switch {
	case std.JSON:
		return std.Value(receipt)
	case c.Out != "":
		return std.Say("receipt of message %s in %s", c.Message, c.Out)
	}
	return std.Say("%s", receipt.Receipt)
}

// writeNew writes a file that must not exist yet.
func writeNew(name, content string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return program.ExitError{Code: program.ExitUsage, Err: errors.New(name + " exists already")}
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	return errors.Join(err, file.Close())
}

type receiptVerifyCmd struct {
	profile.Flags
	File    string `arg:"" help:"File with the receipt."`
	JWKS    string `name:"jwks" help:"Key document to check it with: a file, or the URL of a server; by default the profile's server, or --url."`
	Payload string `help:"File with the encrypted_payload of the message, or with the message as JSON."`
}

// checkedReceipt is the output of receipt verify --json.
type checkedReceipt struct {
	*receipts.Verified
	// PayloadMatches is null if no payload was given.
	PayloadMatches *bool `json:"payload_matches"`
}

// Run exits with 1 if the receipt proves nothing.
func (c *receiptVerifyCmd) Run(ctx context.Context, std *program.Streams) error {
	receipt, err := readMember(std, c.File, "receipt")
	if err != nil {
		return err
	}
	keys, err := c.keys(ctx, std)
	if err != nil {
		return err
	}
	verified, err := receipts.Verify(receipt, keys)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	out := checkedReceipt{Verified: verified}
	if c.Payload != "" {
		payload, err := readMember(std, c.Payload, "encrypted_payload")
		if err != nil {
			return err
		}
		if !verified.Covers(payload) {
			return fmt.Errorf("%s: the receipt is genuine, but for another payload than that of %s", c.File, c.Payload)
		}
		out.PayloadMatches = new(true)
	}
	return std.Show(out, "%s", out.text())
}

// jwksPath is where every server has its key document.
const jwksPath = "/.well-known/jwks.json"

// keys returns the key document of --jwks.
func (c *receiptVerifyCmd) keys(ctx context.Context, std *program.Streams) (*api.SigningKeys, error) {
	switch {
	case c.JWKS == "":
		from, _, err := c.AnySession()
		if err != nil {
			return nil, err
		}
		return from.SigningKeys(ctx)
	case strings.HasPrefix(c.JWKS, "http://") || strings.HasPrefix(c.JWKS, "https://"):
		address := strings.TrimSuffix(strings.TrimSuffix(c.JWKS, jwksPath), "/")
		if err := profile.CheckTransport(address, c.AllowHTTP); err != nil {
			return nil, err
		}
		from, err := client.New(address)
		if err != nil {
			return nil, err
		}
		return from.SigningKeys(ctx)
	}
	text, err := std.Read(c.JWKS, fileMax)
	if err != nil {
		return nil, err
	}
	keys := &api.SigningKeys{}
	if err := json.Unmarshal(text, keys); err != nil || len(keys.Keys) == 0 {
		return nil, fmt.Errorf("%s is not a key document", c.JWKS)
	}
	return keys, nil
}

// fileMax bounds the files that are read, in bytes. A message takes less.
const fileMax = 1 << 20

// readMember returns the text of a file or, if the file is a JSON object with this member, the
// member.
func readMember(std *program.Streams, file, member string) (string, error) {
	text, err := std.Read(file, fileMax)
	var object map[string]any
	if json.Unmarshal(text, &object) == nil {
		if value, ok := object[member].(string); ok && value != "" {
			return value, nil
		}
	}
	return strings.TrimSpace(string(text)), err
}

func (r *checkedReceipt) text() program.Printable {
	handle := func(handle *string, id parley.AgentID) string {
		if handle == nil {
			return id.String()
		}
		return *handle
	}
	lines := program.Format("genuine: %s accepted this message\n  message       %s\n  accepted      %s\n  conversation  %s, place %d\n  from          %s\n  to            %s",
		r.Issuer, r.MessageID, r.AcceptedAt, r.ConversationID, r.Position, handle(r.FromHandle, r.FromAgentID), handle(r.ToHandle, r.ToAgentID))
	if r.GroupID != nil {
		lines.Add("  group         %s", r.GroupID)
	}
	compared := "not compared"
	if r.PayloadMatches != nil {
		compared = "matches"
	}
	lines.Add("  payload       sha256 %s, %s\n  key           %s", r.PayloadSHA256, compared, r.Kid)
	return lines
}
