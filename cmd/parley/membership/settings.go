package membership

import (
	"context"
	"log/slog"
	"slices"
	"strings"
)

// compareSettings warns of settings that differ from those of the leader, if that is another
// node. If it does not answer, nothing is compared.
func (p *peers) compareSettings(ctx context.Context, ours []string, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	leader, err := p.transport.Leader()
	if leader == nil || err != nil {
		return
	}
	theirs, err := p.node.SettingsOf(ctx, leader)
	if err != nil {
		return
	}
	if names := differing(ours, theirs); len(names) > 0 {
		logger.Warn("settings differ from those of the leader, and should be the same on all nodes", "settings", strings.Join(names, " "))
	}
}

// differing returns the names of settings, as NAME=VALUE, that have another value in theirs.
func differing(ours, theirs []string) (names []string) {
	for _, s := range ours {
		name, _, _ := strings.Cut(s, "=")
		if !slices.Contains(theirs, s) && slices.ContainsFunc(theirs, func(t string) bool { return strings.HasPrefix(t, name+"=") }) {
			names = append(names, name)
		}
	}
	return names
}
