package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
	"parley/http/auth"
)

type KeyShowCmd struct {
	profile.Flags
	Former bool   `help:"Also list the agent's former keys, newest first, with the time during which each was valid."`
	Agent  string `arg:"" help:"Handle or id; a bare name is an agent of the organization."`
}

// Binding states of `key show`.
const (
	keysBound   = "bound"
	keysUnbound = "unbound"
	keysBroken  = "broken"
)

// shownKeys is the output of `key show --json`.
type shownKeys struct {
	*api.AgentKeys
	keyIDs
	// State is bound, unbound or broken.
	State string `json:"state"`
	// Pinned is the profile's pin of the agent; null before first contact.
	Pinned *e2ee.Pin `json:"pinned"`
	// Own reports whether the published keys are those of the profile's key ring for the
	// agent; null if the profile has no key ring for it.
	Own *bool `json:"published_keys_are_own"`
	// Problem is the reason why a send would fail; Accept is the value that would allow
	// it.
	Problem *string  `json:"problem"`
	Accept  []string `json:"accept"`
	// Former holds the newest former keys, and FormerOlder is the number of older ones
	// that are not listed. Both are set only with --former.
	Former      *[]formerKey `json:"former,omitzero"`
	FormerOlder int          `json:"former_older,omitzero"`
	advice      string
}

// Run compares keys and changes nothing. It does not count as first contact, so it pins
// no keys.
func (c *KeyShowCmd) Run(ctx context.Context, std *program.Streams) error {
	from, directory, err := c.Open()
	if err != nil {
		return err
	}
	keys, err := keysOf(ctx, from, c.Agent)
	if err != nil {
		return err
	}
	out := shownKeys{AgentKeys: keys, State: keysUnbound, Accept: []string{}}
	if out.keyIDs, err = describeKeys(keys); err != nil {
		return err
	}
	if keys.KeyBinding != nil {
		out.State = keysBroken
		if e2ee.VerifyBinding(from.Brand(), keys) {
			out.State = keysBound
		}
	}
	ring, err := c.compare(ctx, from, directory, &out)
	if err != nil {
		return err
	}
	if c.Former {
		found, older, err := former(ctx, from, &out, ring)
		if err != nil {
			return err
		}
		out.Former, out.FormerOlder = &found, older
	}
	return std.Show(out, "%s", out.text())
}

// compare compares the published keys with the profile's pins and key rings. It returns
// the agent's own key ring, or nil if the profile has none.
func (c *KeyShowCmd) compare(ctx context.Context, from *client.Session, directory string, out *shownKeys) (own *e2ee.KeyRing, err error) {
	var changed *e2ee.KeyChangedError
	pin, err := e2ee.CheckKeys(ctx, from, e2ee.OpenPins(filepath.Join(directory, profile.KeysDirectory)), out.AgentKeys)
	if err != nil && !errors.As(err, &changed) {
		return nil, err
	}
	if out.Pinned = pin; changed != nil {
		problem := string(changed.Problem)
		out.Problem, out.Accept, out.advice = &problem, changed.Accept, changed.Advice()
	}
	rings, err := profile.OpenRings(directory)
	if err != nil {
		return nil, err
	}
	for _, ring := range rings {
		if ring.AgentID() == out.AgentID {
			same := ring.Published(out.AgentKeys)
			out.Own, own = &same, ring
		}
	}
	return own, nil
}

// keyIDs are the verification words and the ids of an agent's keys, computed from the keys that
// the server returned.
type keyIDs struct {
	Words         string `json:"verification_words"`
	SigningKid    string `json:"signing_kid"`
	EncryptionKid string `json:"encryption_kid"`
}

func describeKeys(keys *api.AgentKeys) (ids keyIDs, err error) {
	if ids.Words, ids.SigningKid, err = describe(keys.SigningPublicKey); err == nil {
		_, ids.EncryptionKid, err = describe(keys.EncryptionPublicKey)
	}
	return ids, err
}

// describe returns the verification words and the id of a key, both computed from the key
// itself.
func describe(key *api.JWK) (words, kid string, err error) {
	if key == nil {
		return "", "", e2ee.ErrKeysIncomplete
	}
	raw, err := key.Raw(key.Curve)
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", e2ee.ErrKeysIncomplete, err)
	}
	return auth.VerificationWords(raw), parley.Thumbprint(key.Curve, raw), nil
}

func (s *shownKeys) text() program.Printable {
	lines := program.Format("%s\n  id          %s\n  words       %s\n  signing kid %s\n  encr. kid   %s\n  binding     %s",
		program.Text(s.Handle), s.AgentID, s.Words, s.SigningKid, s.EncryptionKid, s.binding())
	if s.PQPublicKey != nil {
		lines.Add("%s", pqLine(s.AgentKeys))
	}
	switch {
	case s.Own == nil:
		lines.Add("  pinned      %s", s.pinned())
	case *s.Own:
		lines.Add("  key ring    the same keys")
	default:
		lines.Add("  key ring    does not match: somebody else published these keys; see \"%s\"", program.Typed("key restore --help"))
	}
	if s.Problem != nil && s.Own == nil {
		lines.Add("  rejected    %s. %s", strings.ReplaceAll(*s.Problem, "_", " "), s.advice)
	}
	if s.Former != nil {
		for _, k := range *s.Former {
			lines.Add("  former      %s", &k)
		}
		if len(*s.Former) == 0 {
			lines.Add("  former      none known")
		}
		if s.FormerOlder > 0 {
			lines.Add("  former      and %d older", s.FormerOlder)
		}
	}
	return lines
}

func (s *shownKeys) binding() string {
	switch {
	case s.State == keysBound:
		return fmt.Sprintf("bound by the signing key at %s (%s)", s.KeyBinding.SignedAt, s.KeyBinding.Continuity)
	case s.State == keysBroken:
		return "broken: not signed by the signing key"
	case s.UnboundSince != nil:
		return "unbound since " + program.Clock(*s.UnboundSince) + ": a key was changed without a binding"
	}
	return "unbound: only the server vouches that the encryption key belongs to this agent"
}

func (s *shownKeys) pinned() string {
	switch {
	case s.Pinned == nil:
		return "not yet: no contact so far"
	case s.Pinned.SigningKid == s.SigningKid && s.Pinned.EncryptionKid == s.EncryptionKid:
		return "the same keys, first seen " + s.Pinned.PinnedAt.Local().Format(time.DateTime)
	}
	return fmt.Sprintf("other keys: signing %s, encryption %s", s.Pinned.SigningKid, s.Pinned.EncryptionKid)
}

type KeyRetireCmd struct {
	profile.Flags
	Agent string `arg:"" help:"Name, handle or id of one of the organization's agents."`
	Kid   string `arg:"" help:"Id of a former key."`
}

// Run retires the key. Signatures made with it after that do not verify.
func (c *KeyRetireCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	agent, err := profile.FindAgent(ctx, from, c.Agent)
	if err != nil {
		return err
	}
	record, err := from.Keys.Retire(ctx, api.RetireKey{ID: agent.ID, Kid: c.Kid})
	if err != nil {
		return err
	}
	return std.Show(record, "retired key %s of %s", c.Kid, program.Text(agent.Handle))
}

type KeyRestoreCmd struct {
	profile.Flags
	Name string `arg:"" help:"Name of an agent whose key ring the profile has."`
}

func (c *KeyRestoreCmd) Run(ctx context.Context, std *program.Streams) error {
	from, directory, err := c.Open()
	if err != nil {
		return err
	}
	rings, err := profile.OpenRings(directory)
	if err != nil {
		return err
	}
	ring, err := (&profile.AgentFlags{Agent: c.Name}).Choose(rings)
	if err != nil {
		return err
	}
	agent, was, err := e2ee.RestoreKeys(ctx, from, ring)
	if err != nil {
		return err
	}
	record, err := from.Agents.Get(ctx, agent.ID())
	if err != nil {
		return err
	}
	keys, err := from.Keys.Get(ctx, agent.ID().String(), "")
	if err != nil {
		return err
	}
	if b := keys.KeyBinding; b != nil && b.Continuity == api.ContinuityBroken {
		std.Note("the signing key had been replaced too: agents that meet this one for the first time refuse its keys until you run \"%s\"", program.Typed("agent rotate-keys "+c.Name))
	}
	if std.JSON {
		return std.Value(restoredKeys{Agent: record, Replaced: replaced(was)})
	}
	if was == (e2ee.Restored{}) {
		return std.Say("nothing was replaced: the published keys of %s are the key ring's\n%s", program.Text(record.Handle), agentDetails(record))
	}
	return std.Say("replaced the published keys (%s) of %s by the key ring's\n%s\nSomebody used the organization's credentials to publish the others: replace the credentials too.",
		strings.Join(replaced(was), ", "), program.Text(record.Handle), agentDetails(record))
}

// restoredKeys is the output of `key restore --json`: the agent, and which of its
// published keys differed from those of the key ring.
type restoredKeys struct {
	*api.Agent
	Replaced []string `json:"replaced"`
}

func replaced(was e2ee.Restored) []string {
	keys := []string{}
	if was.Signing {
		keys = append(keys, "signing")
	}
	if was.Encryption {
		keys = append(keys, "encryption")
	}
	if was.PostQuantum {
		keys = append(keys, "post-quantum")
	}
	return keys
}

// unbound returns the pins of those agents among ids whose keys have no binding.
func unbound(agent *e2ee.Agent, ids ...parley.AgentID) (found []*e2ee.Pin) {
	for _, id := range ids {
		if pin, err := agent.Contacts.Pins().FindAgent(agent.Client.BaseURL(), id); err == nil && pin != nil && !pin.Bound() {
			found = append(found, pin)
		}
	}
	return found
}

// noteUnbound warns about each of the agents whose encryption key is linked to it by the
// server's word alone.
func noteUnbound(std *program.Streams, agent *e2ee.Agent, ids ...parley.AgentID) {
	for _, pin := range unbound(agent, ids...) {
		std.Note("the keys of %s are unbound: only the server vouches that the encryption key belongs to this agent", pin.Handle)
	}
}
