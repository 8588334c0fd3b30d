package a2a

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"parley/actors/agent"
	"parley/actors/record"
	"parley/client/parley"
)

// policy says which content an agent of an organization accepts, by the card of that revision.
type policy struct {
	of       parley.OrgID
	revision uint32
	// cleartext says that parts may be in the clear, of the media types of modes: normalized
	// ones, which may be a range as in type/* or */*.
	cleartext bool
	modes     []string
}

func (p policy) bytes() uint32 {
	n := policyBytes
	for _, mode := range p.modes {
		n += len(mode)
	}
	return uint32(n)
}

// clearModes are the media types of an agent whose card lists none.
var clearModes = []string{"text/plain", "application/json"}

// policyOf returns the policy of an agent that the bridge serves.
func (c *Cards) policyOf(ctx context.Context, a *agent.State) (policy, error) {
	if kept, ok := c.policies.GetIfPresent(a.AgentID()); ok && kept.revision == a.GetCardRevision() {
		return kept, nil
	}
	forgotten := c.forgotten.Load()
	card, err := c.Node.Agents.Card(ctx, a.AgentID())
	if err != nil {
		return policy{}, err
	}
	p := policy{of: a.Owner(), revision: card.GetRevision(), cleartext: card.GetA2AAcceptCleartext(), modes: inputModes(card)}
	keep(c, c.policies, a.AgentID(), p, forgotten)
	return p, nil
}

// inputModes returns the media types of the input that a card and its skills list.
func inputModes(card *record.Card) []string {
	modes := orElse(card.GetDefaultInputModes(), clearModes...)
	for _, skill := range card.GetSkills() {
		modes = append(slices.Clip(modes), orElse(skill.GetInputModes())...)
	}
	normal := make([]string, 0, len(modes))
	for _, mode := range modes {
		normal = append(normal, mediaType(mode))
	}
	slices.Sort(normal)
	return slices.Compact(normal)
}

// mediaType returns a media type without its parameters, in lower case.
func mediaType(text string) string {
	bare, _, _ := strings.Cut(text, ";")
	return strings.ToLower(strings.TrimSpace(bare))
}

// judge returns the refusal of parts in the clear, nil if the agent accepts them all.
// source: A2A 1.0 section 3.1.1
func (p policy) judge(parts []part) *rpcError {
	if !p.cleartext {
		return errCleartext
	}
	for i, one := range parts {
		media, given := one.media()
		if given && !p.covers(media) {
			return fail(codeContentType, "CONTENT_TYPE_NOT_SUPPORTED",
				fmt.Sprintf("message.parts[%d]: the agent accepts no %s; its card lists the media types", i, quoted(media)))
		}
	}
	return nil
}

// wellFormed is a media type without parameters. // source: RFC 6838 section 4.2
var wellFormed = regexp.MustCompile(`^[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+$`)

// covers reports whether the modes have a media type, or a range that it is in.
func (p policy) covers(media string) bool {
	if !wellFormed.MatchString(media) {
		return false
	}
	kind, _, _ := strings.Cut(media, "/")
	return slices.ContainsFunc(p.modes, func(mode string) bool {
		return mode == media || mode == "*/*" || mode == kind+"/*"
	})
}

// media returns the media type of a part, if it has one: what its members say, or that of text and
// of JSON.
func (p part) media() (media string, given bool) {
	if text := p.text("mediaType"); text != "" {
		return mediaType(text), true
	}
	metadata := part{}
	_ = json.Unmarshal(p["metadata"], &metadata) // it was checked, and may be absent
	if text := metadata.text("contentType"); text != "" {
		return mediaType(text), true
	}
	switch p.content() {
	case "text":
		return "text/plain", true
	case "data":
		return "application/json", true
	}
	return "", false
}
