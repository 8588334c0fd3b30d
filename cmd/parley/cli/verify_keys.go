package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/keylog"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type VerifyKeysCmd struct {
	profile.Flags
	ByDomain  bool   `name:"by-domain" help:"Fetch WebFinger and the DID document from the organization's own host over https, as strangers do, and only the keys from the server."`
	AcceptLog bool   `name:"accept-key-log" help:"Forget what the profile remembers of the server's key log, and remember the one that it shows now. For a server that was restored from a backup."`
	Handle    string `arg:"" help:"Handle of any agent, of any organization."`
}

// verifiedKeys is the output of `verify-keys --json`.
type verifiedKeys struct {
	Handle  string         `json:"handle"`
	AgentID parley.AgentID `json:"agent_id"`
	DID     string         `json:"did"`
	keyIDs
	// KeysFrom and DocumentsFrom are the servers that were asked.
	KeysFrom      string `json:"keys_from"`
	DocumentsFrom string `json:"documents_from"`
	// KeyLog is what the server's key log says; nil if it could not be verified.
	KeyLog *verifiedLog `json:"key_log"`
	// Differences is empty if all documents and the key log agree, and the key binding is not broken.
	Differences []string `json:"differences"`
}

// verifiedLog is the key log as it was verified. Two people who compare size and root hash
// see whether the server shows them the same log.
type verifiedLog struct {
	keylog.Tree
	// Entries is how many entries the agent has, Index the place of the newest one.
	Entries int `json:"entries"`
	Index   int `json:"index"`
	// Since is when the newest entry was made; it names the current keys.
	Since string `json:"since"`
	// Before is the size that the profile remembered, 0 if it remembered none.
	Before uint64 `json:"size_before"`
	// Remembered reports whether the profile remembers the log from now on.
	Remembered bool `json:"remembered"`
}

// Run compares documents and verifies that the keys are in the server's key log. It pins no
// keys, but a profile remembers the log. It needs no credentials. If the documents differ,
// the key binding is broken or the log does not have the keys, it prints what it found and exits with program.ExitKeys.
func (c *VerifyKeysCmd) Run(ctx context.Context, std *program.Streams) error {
	h, err := parley.ParseHandle(c.Handle)
	if err != nil || h.Group {
		return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%q is not the handle of an agent, such as name@org.domain", c.Handle)}
	}
	from, host, anonymous, err := c.servers(h)
	if err != nil {
		return err
	}
	found, err := from.Directory.Identity(ctx, h, host)
	if err != nil {
		return err
	}
	out := verifiedKeys{Handle: h.String(), AgentID: found.Keys.AgentID, DID: h.DID(), KeysFrom: from.BaseURL(), DocumentsFrom: from.BaseURL(), Differences: []string{}}
	if host != nil {
		out.DocumentsFrom = host.BaseURL()
	}
	if out.keyIDs, err = describeKeys(found.Keys); err != nil {
		return err
	}
	out.Differences = append(out.Differences, found.Differences(h)...)
	broken, err := brokenBinding(ctx, from, anonymous, found.Keys)
	if err != nil {
		return err
	}
	out.Differences = append(out.Differences, broken...)
	if out.KeyLog, err = c.verifyLog(ctx, from, h, found.Keys); errors.Is(err, keylog.ErrFork) || errors.Is(err, keylog.ErrNotLogged) {
		out.Differences = append(out.Differences, err.Error())
	} else if err != nil {
		return err
	}
	if err = std.Show(out, "%s", out.text()); err == nil && len(out.Differences) > 0 {
		err = program.ExitError{Code: program.ExitKeys, Err: errors.New("the documents of the agent, its key binding and the key log do not agree: do not trust its keys")}
	}
	return err
}

// brokenBinding returns a sentence if the keys come with a binding that is not good. Keys without
// one are for the key log to judge.
func brokenBinding(ctx context.Context, from *client.Session, anonymous bool, keys *api.AgentKeys) ([]string, error) {
	if keys.KeyBinding == nil {
		return nil, nil
	}
	brand := from.Brand()
	if anonymous {
		version, err := from.Version(ctx)
		if err != nil {
			return nil, err
		}
		brand = version.Brand
	}
	switch {
	case !e2ee.VerifyBinding(brand, keys):
		return []string{"the key binding is broken: the signing key has not signed it for these keys, this agent and this handle"}, nil
	case keys.KeyBinding.Continuity == api.ContinuityBroken:
		return []string{"the key binding is broken: the former signing key has not signed it"}, nil
	}
	return nil, nil
}

// verifyLog verifies the keys with the key log of their server. It compares the log with the
// one that the profile remembers, and remembers the new one, if there is a profile.
func (c *VerifyKeysCmd) verifyLog(ctx context.Context, from *client.Session, h parley.Handle, keys *api.AgentKeys) (*verifiedLog, error) {
	directory, err := c.Directory()
	if err != nil {
		return nil, err
	}
	var seen *keylog.Tree
	logs, remember := keylog.OpenSeen(filepath.Join(directory, profile.KeysDirectory)), false
	if _, missing := os.Stat(directory); missing == nil {
		remember = true
		if seen, err = logs.Find(from.BaseURL()); err != nil {
			return nil, err
		}
	}
	out := &verifiedLog{Remembered: remember}
	if seen != nil {
		out.Before = seen.Size
	}
	if c.AcceptLog {
		seen = nil
	}
	logged, failed := keylog.Check(ctx, from, h, keys, seen)
	if logged == nil {
		return nil, failed
	}
	if remember {
		if err := logs.Remember(from.BaseURL(), logged.Tree, c.AcceptLog); err != nil {
			return nil, err
		}
	}
	if failed != nil {
		return nil, failed
	}
	newest := logged.Entries[len(logged.Entries)-1]
	out.Tree, out.Entries, out.Index, out.Since = logged.Tree, len(logged.Entries), *newest.Index, newest.At
	return out, nil
}

// servers returns the server that is asked for keys and, with --by-domain, the
// organization's host. Without a profile and --url, that host is asked for the keys too.
// Without a profile, from is anonymous.
func (c *VerifyKeysCmd) servers(h parley.Handle) (from, host *client.Session, anonymous bool, err error) {
	from, anonymous, err = c.AnySession()
	if !c.ByDomain {
		return from, nil, anonymous, err
	}
	host, bad := client.New("https://" + h.Host())
	if bad != nil {
		return nil, nil, false, bad
	}
	var known program.ExitError
	if c.URL == "" && errors.As(err, &known) && known.Code == program.ExitForbidden {
		return host, host, true, nil
	}
	return from, host, anonymous, err
}

// Explain names both servers that --by-domain asks if one of them does not answer.
func (c *VerifyKeysCmd) Explain(err error) error {
	h, malformed := parley.ParseHandle(c.Handle)
	if !c.ByDomain || malformed != nil || !program.NetworkFailure(err) {
		return c.Flags.Explain(err)
	}
	from, host, _, unknown := c.servers(h)
	if unknown != nil {
		return err
	}
	return fmt.Errorf("%w\nWith --by-domain, the keys come from %s, WebFinger and the DID document from %s. Check that both answer", err, from.BaseURL(), host.BaseURL())
}

func (v *verifiedKeys) text() program.Printable {
	lines := program.Format("%s\n  id          %s\n  did         %s\n  words       %s\n  signing kid %s\n  encr. kid   %s",
		v.Handle, v.AgentID, v.DID, v.Words, v.SigningKid, v.EncryptionKid)
	if len(v.Differences) == 0 {
		lines.Add("  documents   WebFinger and DID agree with the keys (from %s)", v.DocumentsFrom)
	}
	if l := v.KeyLog; l != nil {
		lines.Add("  key log     entry %d, since %s; %s has %d entries, root %s", l.Index, l.Since, l.Origin, l.Size, l.Root)
	}
	for _, difference := range v.Differences {
		lines.Add("  different   %s", difference)
	}
	return lines
}
