package importing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"parley"
	"parley/actors/conversation"
	"parley/http/api"
	"parley/journal"
)

// Export is an export that was read once and found whole. It remembers about 150 bytes of
// each message and conversation; the messages themselves are read again when they are
// written.
type Export struct {
	source io.ReaderAt
	scanned

	org  api.ExportedOrg
	user api.ExportedUser
	// challenge is the proof of work of the registration.
	challenge api.ExportedChallenge
	agents    []api.ExportedAgent
	// parties are the agents of the organization, in the order of agents, and then the
	// agents of others that occur in messages. indexOf finds them.
	parties []party
	indexOf map[parley.AgentID]int32
	// talks are in the order of their ids, and so are the messages of each.
	talks    []talk
	messages []message
	webhooks []api.ExportedWebhook
	// signingKeys are counted by agent.
	signingKeys map[parley.AgentID]int
	// skipped counts the records that are left out because their groups cannot be restored.
	skipped   map[string]int
	leaveOut  bool // those records
	lastType  int
	lastID    string
	talkIndex map[parley.ConversationID]int32
	groups    map[parley.GroupID]*groupHistory
	news      []news
	// leftOutTalks are the conversations of groups that are left out.
	leftOutTalks map[parley.ConversationID]parley.GroupID
}

// party is an agent.
type party struct {
	id   parley.AgentID
	org  parley.OrgID
	name string
	slug string
}

// talk is a conversation between two agents or, if group is set, in a group.
type talk struct {
	group             *groupHistory
	id                parley.ConversationID
	line              int
	from, to          int32 // parties
	parent            parley.ConversationID
	task              bool
	status            string
	metadata          []byte // empty for none
	updatedMs         int64
	count             int64
	changes           []api.ExportedStatusChange
	listed            []api.ExportedPlace
	announced         []api.ExportedStatus // of a group
	createdMs         int64
	firstMsg, lastMsg int32 // in Export.messages, the latter exclusive
}

// message is what is remembered of a message.
type message struct {
	id        parley.MessageID
	inReplyTo parley.MessageID
	offset    int64
	length    int32
	line      int32
	talk      int32
	from, to  int32 // parties
	position  uint64
	receipts  journal.Receipts
	// arrivedMs is when it came into its recipient's feed.
	arrivedMs int64
	// copied: it is one of the copies of a broadcast, of which there are recipients. All of
	// them are in the export.
	copied     bool
	recipients int32
}

// Read reads a whole export and checks that its records fit together. Errors name the
// line. With skipGroups, it leaves out the groups that cannot be restored, which it
// otherwise refuses.
func Read(source io.ReaderAt, size int64, skipGroups bool) (*Export, error) {
	x := &Export{
		source: source, indexOf: map[parley.AgentID]int32{}, signingKeys: map[parley.AgentID]int{}, skipped: map[string]int{},
		leaveOut: skipGroups, talkIndex: map[parley.ConversationID]int32{}, groups: map[parley.GroupID]*groupHistory{},
		leftOutTalks: map[parley.ConversationID]parley.GroupID{},
	}
	var err error
	if x.scanned, err = scan(io.NewSectionReader(source, 0, size), x.take); err != nil {
		return nil, err
	}
	return x, x.check()
}

// Records is the number of lines, SHA256 the digest of the whole in hexadecimal.
func (x *Export) Records() int   { return x.records }
func (x *Export) SHA256() string { return x.sha256 }

// Slug is the slug of the organization.
func (x *Export) Slug() string { return *x.org.Slug }

// take remembers one line.
func (x *Export) take(l line) error {
	if err := x.inOrder(l); err != nil {
		return err
	}
	switch l.kind {
	case api.ExportOrg:
		return x.takeOrg(l)
	case api.ExportUser:
		var err error
		x.user, err = decode[api.ExportedUser](l.data)
		return err
	case api.ExportPowChallenge:
		var err error
		x.challenge, err = decode[api.ExportedChallenge](l.data)
		return err
	case api.ExportAgent:
		return x.takeAgent(l)
	case api.ExportGroup:
		return x.takeGroup(l)
	case api.ExportGroupMembership:
		return x.takeMembership(l)
	case api.ExportGroupJoinRequest:
		return x.takeRequest(l)
	case api.ExportConversation:
		return x.takeConversation(l)
	case api.ExportMessage:
		return x.takeMessage(l)
	case api.ExportWebhook:
		w, err := decode[api.ExportedWebhook](l.data)
		if err == nil && !x.owns(w.AgentID) {
			err = fmt.Errorf("its agent %s is not in the export", w.AgentID)
		}
		x.webhooks = append(x.webhooks, w)
		return err
	case api.ExportSigningKey:
		k, err := decode[api.ExportedSigningKey](l.data)
		if err == nil && !x.owns(k.AgentID) {
			err = fmt.Errorf("its agent %s is not in the export", k.AgentID)
		}
		x.signingKeys[k.AgentID]++
		return err
	}
	return fmt.Errorf("%q is no type of an export", l.kind)
}

// inOrder refuses a line that does not follow the one before it: types are in the order of
// the specification, records of a type in that of their ids.
func (x *Export) inOrder(l line) error {
	at := slices.Index(api.ExportTypes(), l.kind)
	head, err := decodeID(l.data)
	if err != nil {
		return err
	}
	if l.number == 1 != (l.kind == api.ExportOrg) {
		return errors.New("an export begins with its organization, and has one")
	}
	again := head == x.lastID && l.kind == api.ExportSigningKey // two agents may have one key
	if at < x.lastType || at == x.lastType && l.number > 1 && head <= x.lastID && !again {
		return fmt.Errorf("%s %s does not follow %s %s", l.kind, head, api.ExportTypes()[x.lastType], x.lastID)
	}
	if single := slices.Index(api.ExportTypes(), api.ExportAgent); at <= single && at > x.lastType+1 {
		return fmt.Errorf("there is no %s before it", api.ExportTypes()[x.lastType+1])
	}
	x.lastType, x.lastID = at, head
	return nil
}

// owns reports whether an agent is the organization's.
func (x *Export) owns(id parley.AgentID) bool {
	i, known := x.indexOf[id]
	return known && int(i) < len(x.agents)
}

// own reports the same of a party.
func (x *Export) own(i int32) bool { return int(i) < len(x.agents) }

func (x *Export) takeOrg(l line) (err error) {
	x.org, err = decode[api.ExportedOrg](l.data)
	switch {
	case err != nil:
		return err
	case x.org.Export.Format != api.ExportFormat:
		return fmt.Errorf("its format is %q, and this release imports %q: export the organization again with this release", x.org.Export.Format, api.ExportFormat)
	case x.org.Slug == nil || !parley.ValidSlug(*x.org.Slug):
		return errors.New("the organization has no valid slug")
	case parley.SlotOf(*x.org.Slug) != x.org.ID.Slot():
		return fmt.Errorf("no organization with the slug %q can have the id %s", *x.org.Slug, x.org.ID)
	}
	return nil
}

func (x *Export) takeAgent(l line) error {
	a, err := decode[api.ExportedAgent](l.data)
	switch {
	case err != nil:
		return err
	case a.OrgID != x.org.ID || a.ID != a.AgentID || !parley.ValidAgentName(a.Name):
		return errors.New("it is no agent of the organization")
	case a.SigningPublicKey == nil || a.EncryptionPublicKey == nil:
		return errors.New("the agent has no keys")
	}
	x.indexOf[a.ID] = int32(len(x.parties))
	x.agents, x.parties = append(x.agents, a), append(x.parties, party{a.ID, a.OrgID, a.Name, *x.org.Slug})
	return nil
}

func (x *Export) takeConversation(l line) error {
	c, err := decode[api.ExportedConversation](l.data)
	if err != nil {
		return err
	}
	t := talk{
		id: c.ID, line: l.number, status: c.Status, task: c.Task, count: c.Messages, changes: c.StatusChanges, listed: c.Listed,
		announced: c.Announced, createdMs: c.CreatedAt.UnixMilli(), from: -1, to: -1, firstMsg: -1,
	}
	if c.GroupID != nil {
		if t.group, err = x.groupOf(l.kind, *c.GroupID); t.group == nil {
			x.leftOutTalks[c.ID] = *c.GroupID
			return err
		}
		if !t.group.conversations[c.ID] {
			return fmt.Errorf("the history of group %s did not begin it", *c.GroupID)
		}
	}
	if c.UpdatedAt == nil {
		return errors.New("it has no updated_at")
	}
	t.updatedMs = c.UpdatedAt.UnixMilli()
	if c.ParentConversationID != nil {
		t.parent = *c.ParentConversationID
	}
	if !bytes.Equal(c.Metadata, []byte(`{}`)) {
		t.metadata = c.Metadata
	}
	for _, change := range c.StatusChanges {
		if _, known := conversation.ParseStatus(change.Status); !known {
			return fmt.Errorf("%q is no status", change.Status)
		}
	}
	x.talkIndex[c.ID] = int32(len(x.talks))
	x.talks = append(x.talks, t)
	return nil
}

func (x *Export) takeMessage(l line) error {
	m, err := decode[api.ExportedMessage](l.data)
	if err != nil {
		return err
	}
	of, known := x.talkIndex[m.ConversationID]
	if of, skipped := x.leftOutTalks[m.ConversationID]; skipped {
		_, err := x.groupOf(l.kind, of)
		return err
	}
	if !known {
		return fmt.Errorf("its conversation %s is not in the export", m.ConversationID)
	}
	kept := message{id: m.ID, offset: l.offset, length: int32(len(l.data)), line: int32(l.number), talk: of}
	if kept.from, err = x.party(m.FromAgentID, m.Export.SenderOrgID, m.SenderHandle); err != nil {
		return err
	}
	if kept.to, err = x.party(m.ToAgentID, m.Export.RecipientOrgID, m.RecipientHandle); err != nil {
		return err
	}
	if !x.own(kept.from) && !x.own(kept.to) {
		return errors.New("it is of none of the organization's agents")
	}
	if m.Export.InReplyTo != nil {
		kept.inReplyTo = *m.Export.InReplyTo
	}
	if m.Export.Position != nil {
		kept.position = *m.Export.Position
	}
	if kept.receipts, err = receiptsOf(&m); err != nil {
		return err
	}
	if kept.copied = m.GroupID != nil; kept.copied {
		if g := x.talks[of].group; g == nil || g.state.ID != *m.GroupID || m.RecipientCount == nil {
			return errors.New("it is no copy of a broadcast in its conversation")
		}
		kept.recipients = int32(*m.RecipientCount)
	}
	x.messages = append(x.messages, kept)
	return nil
}

// party returns the party of a message, which may be an agent of another organization.
func (x *Export) party(id parley.AgentID, of parley.OrgID, handle *string) (int32, error) {
	if i, known := x.indexOf[id]; known {
		if x.parties[i].org != of {
			return 0, fmt.Errorf("agent %s belongs to organization %s, and to %s before", id, of, x.parties[i].org)
		}
		return i, nil
	}
	if of == x.org.ID {
		return 0, fmt.Errorf("agent %s of the organization is not in the export", id)
	}
	if handle == nil {
		return 0, fmt.Errorf("agent %s has no handle", id)
	}
	h, err := parley.ParseHandle(*handle)
	if err != nil || h.Group || parley.SlotOf(h.Slug) != of.Slot() {
		return 0, fmt.Errorf("agent %s of organization %s cannot have the handle %q", id, of, *handle)
	}
	x.indexOf[id] = int32(len(x.parties))
	x.parties = append(x.parties, party{id, of, h.Name, h.Slug})
	return x.indexOf[id], nil
}

// receiptsOf returns the receipts of a message.
func receiptsOf(m *api.ExportedMessage) (r journal.Receipts, err error) {
	ms := func(t *api.Time) int64 {
		if t == nil {
			return 0
		}
		return t.UnixMilli()
	}
	r = journal.Receipts{TransferredAt: ms(m.Export.TransferredAt), AnnouncedAt: ms(m.Export.AnnouncedAt), ReadAt: ms(m.ReadAt)}
	if by := m.Export.TransferredBy; by != nil {
		if r.TransferredBy = channels[*by]; r.TransferredBy == 0 {
			return r, fmt.Errorf("%q is no channel", *by)
		}
	}
	if r.DeliveredAt() != ms(m.DeliveredAt) {
		return r, errors.New("delivered_at is neither transferred_at nor announced_at")
	}
	return r, nil
}

// channels are the channels by their names in exports.
var channels = map[string]journal.Channel{
	api.ChannelInbox: journal.InboxChannel, api.ChannelStream: journal.StreamChannel, api.ChannelSync: journal.SyncChannel,
	api.ChannelWait: journal.WaitChannel, api.ChannelA2A: journal.BridgeChannel,
}
