package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"parley/client"
	"parley/client/api"
	"parley/cmd/parley/program"
)

// shownGroup is a group with what is known of its MLS group.
type shownGroup struct {
	*api.Group
	// MLS is nil if the group has no MLS group.
	MLS *shownMLS `json:"mls,omitzero"`
}

// shownMLS is the state of a group's MLS group as a member sees it.
type shownMLS struct {
	// Epoch is null if the organization has no member that could ask for it.
	Epoch *uint64 `json:"epoch"`
	// Awaiting are the members without a leaf, by handle.
	Awaiting []string `json:"awaiting"`
	// RemovalPending says whether former members still have leaves. It is null while a member
	// is without a leaf: the server does not tell the two apart.
	RemovalPending *bool `json:"removal_pending"`
}

// showMLS asks for the state of a group's MLS group as an agent, or as the organization's
// first member if none is named.
func showMLS(ctx context.Context, from *client.Session, g *api.Group, agent string) (*shownMLS, error) {
	if !g.MLSEnabled {
		return nil, nil
	}
	shown := &shownMLS{Awaiting: []string{}}
	for m, err := range client.All(ctx, from.Groups.Members, api.ListMembers{ID: g.ID, Limit: groupsAtOnce}) {
		if err != nil {
			return nil, err
		}
		if m.IsOwnOrg && agent == "" {
			agent = m.AgentID.String()
		}
		if !m.MLSSeated {
			shown.Awaiting = append(shown.Awaiting, memberName(m))
		}
	}
	if len(shown.Awaiting) == 0 {
		shown.RemovalPending = &g.MLSPending
	}
	if agent == "" {
		return shown, nil
	}
	info, err := from.MLS.GroupInfo(ctx, api.GetMLSGroupInfo{ID: g.ID, ActingAgent: agent})
	if refused := (*client.Error)(nil); errors.As(err, &refused) && refused.Code == client.NotMember {
		return shown, nil // PARLEY_AGENT may name any agent
	}
	if err != nil {
		return nil, err
	}
	shown.Epoch = &info.Epoch
	return shown, nil
}

// describe adds the lines of `group show`.
func (m *shownMLS) describe(lines *program.Printable) {
	if m == nil {
		return
	}
	epoch := ""
	if m.Epoch != nil {
		epoch = fmt.Sprintf(", epoch %d", *m.Epoch)
	}
	lines.Add("  MLS          on%s", epoch)
	if len(m.Awaiting) > 0 {
		lines.Add("  without leaf %s", strings.Join(m.Awaiting, ", "))
	}
	if m.RemovalPending != nil && *m.RemovalPending {
		lines.Add("  leaves of former members await their removal")
	}
}

func memberName(m api.GroupMember) string {
	if m.AgentHandle == nil {
		return m.AgentID.String()
	}
	return *m.AgentHandle
}

// mlsNews says in a line what happened in an MLS group; empty for any other event.
func mlsNews(e *api.GroupEvent) string {
	what := map[string]string{
		"mls_commit":    "began",
		"mls_welcome":   "is open to you: a Welcome awaits your MLS client",
		"mls_admission": "does not include all members: some await their leaf",
		"mls_removal":   "includes former members: their leaves await their removal",
	}[e.Kind]
	if what == "" || e.Epoch == nil {
		return ""
	}
	return fmt.Sprintf("group %s: epoch %d of MLS %s", e.GroupID, *e.Epoch, what)
}
