package verify

import (
	"fmt"

	"parley/client/parley"
	"parley/journal"
)

func streamName(s journal.Stream) string {
	kind := map[journal.StreamKind]string{
		journal.OrgStream: "organization", journal.AgentStream: "agent",
		journal.ConversationStream: "conversation", journal.IssuerStream: "signing keys", journal.OperatorStream: "operator tokens", journal.SlugStream: "slug",
		journal.GroupStream: "group", journal.WebhookStream: "webhook", journal.WorkloadStream: "workload identity",
		journal.KeyLogStream: "key log",
	}[s.Kind]
	if kind == "" {
		kind = fmt.Sprintf("stream of kind %d", s.Kind)
	}
	return kind + " " + s.ID.String()
}

func feedName(agent parley.AgentID, position uint64) string {
	return fmt.Sprintf("feed of agent %s, position %d", agent, position)
}
