package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
	"parley/http/client"
)

type VerifyKeysCmd struct {
	profile.Flags
	ByDomain bool   `name:"by-domain" help:"Fetch WebFinger and the DID document from the organization's own host over https, as strangers do, and only the keys from the server."`
	Handle   string `arg:"" help:"Handle of any agent, of any organization."`
}

// verifiedKeys is the output of `verify-keys --json`.
type verifiedKeys struct {
	Handle  string         `json:"handle"`
	AgentID parley.AgentID `json:"agent_id"`
	DID     string         `json:"did"`
	// Words and key ids are computed locally from the keys that the server returned.
	Words         string `json:"verification_words"`
	SigningKid    string `json:"signing_kid"`
	EncryptionKid string `json:"encryption_kid"`
	// KeysFrom and DocumentsFrom are the servers that were asked.
	KeysFrom      string `json:"keys_from"`
	DocumentsFrom string `json:"documents_from"`
	// Differences is empty if all documents agree.
	Differences []string `json:"differences"`
}

// Run compares documents and changes nothing: it pins no keys. It needs no credentials. If
// the documents differ, it prints what it found and exits with program.ExitKeys.
func (c *VerifyKeysCmd) Run(ctx context.Context, std *program.Streams) error {
	h, err := parley.ParseHandle(c.Handle)
	if err != nil || h.Group {
		return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%q is not the handle of an agent, such as name@org.domain", c.Handle)}
	}
	from, host, err := c.servers(h)
	if err != nil {
		return err
	}
	found, err := from.Identity(ctx, h, host)
	if err != nil {
		return err
	}
	out := verifiedKeys{Handle: h.String(), AgentID: found.Keys.AgentID, DID: h.DID(), KeysFrom: from.BaseURL(), DocumentsFrom: from.BaseURL(), Differences: []string{}}
	if host != nil {
		out.DocumentsFrom = host.BaseURL()
	}
	if out.Words, out.SigningKid, err = describe(found.Keys.SigningPublicKey); err != nil {
		return err
	}
	if _, out.EncryptionKid, err = describe(found.Keys.EncryptionPublicKey); err != nil {
		return err
	}
	out.Differences = append(out.Differences, found.Differences(h)...)
	if std.JSON {
		err = std.Value(out)
	} else {
		err = std.Say("%s", &out)
	}
	if err == nil && len(out.Differences) > 0 {
		err = program.ExitError{Code: program.ExitKeys, Err: errors.New("the documents of the agent do not agree: do not trust its keys")}
	}
	return err
}

// servers returns the server that is asked for keys and, with --by-domain, the
// organization's host. Without a profile and --url, that host is asked for the keys too.
func (c *VerifyKeysCmd) servers(h parley.Handle) (from, host *client.Client, err error) {
	from, _, err = anyClient(&c.Flags)
	if !c.ByDomain {
		return from, nil, err
	}
	host, bad := client.New("https://" + h.Host())
	if bad != nil {
		return nil, nil, bad
	}
	var known program.ExitError
	if c.URL == "" && errors.As(err, &known) && known.Code == program.ExitForbidden {
		return host, host, nil
	}
	return from, host, err
}

// Explain names both servers that --by-domain asks if one of them does not answer.
func (c *VerifyKeysCmd) Explain(err error) error {
	h, malformed := parley.ParseHandle(c.Handle)
	if !c.ByDomain || malformed != nil || !program.NetworkFailure(err) {
		return c.Flags.Explain(err)
	}
	from, host, unknown := c.servers(h)
	if unknown != nil {
		return err
	}
	return fmt.Errorf("%w\nWith --by-domain, the keys come from %s, WebFinger and the DID document from %s. Check that both answer", err, from.BaseURL(), host.BaseURL())
}

// String formats the result as text.
func (v *verifiedKeys) String() string {
	lines := []string{
		v.Handle,
		"  id          " + v.AgentID.String(),
		"  did         " + v.DID,
		"  words       " + v.Words,
		"  signing     " + v.SigningKid,
		"  encryption  " + v.EncryptionKid,
	}
	if len(v.Differences) == 0 {
		lines = append(lines, "  documents   WebFinger and DID agree with the keys (from "+v.DocumentsFrom+")")
	}
	for _, difference := range v.Differences {
		lines = append(lines, "  different   "+program.Printable(difference))
	}
	return strings.Join(lines, "\n")
}
