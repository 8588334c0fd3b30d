package export

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/query"
	stored "parley/actors/query/export"
	"parley/actors/webhook"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/content"
	"parley/http/view"
	"parley/journal"
)

// writeAll writes the lines of all types in the order of the specification.
// // spec: Export record types
func (st *stream) writeAll(ctx context.Context) error {
	for _, write := range []func(context.Context) error{
		st.writeOrg, st.writeAgents, st.writeGroups, st.writeMemberships, st.writeRequests, st.writeConversations, st.writeMessages,
		st.writeWebhooks, st.writeSigningKeys,
	} {
		if err := errors.Join(ctx.Err(), write(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// writeOrg writes the organization, who registered it, and by which proof of work.
func (st *stream) writeOrg(context.Context) error {
	o := st.read.Org()
	first, err := st.read.Registration()
	if err != nil {
		return err
	}
	record := api.ExportedOrg{
		Org: view.Org(o), Suspended: o.Suspended(), Credentials: []api.Credential{},
		TierGrantedAt: view.MaybeMillis(o.GetTierGrantedMs()), TierLowered: o.GetTierLoweredMs() != 0, Allowances: []api.ExportedAllowance{},
		Export: api.ExportInfo{Format: api.ExportFormat, SnapshotAt: api.At(st.read.At())},
	}
	for _, a := range o.GetAllowances() {
		limit, _ := o.Allowed(a.GetQuota())
		record.Allowances = append(record.Allowances, api.ExportedAllowance{Quota: a.GetQuota(), Limit: limit})
	}
	for _, c := range o.GetCredentials() {
		record.Credentials = append(record.Credentials, view.Credential(c))
	}
	return errors.Join(
		st.addValue(api.ExportOrg, record),
		st.addValue(api.ExportUser, api.ExportedUser{Email: first.GetContactEmail(), VerifiedAt: view.MaybeMillis(o.GetEmailConfirmedMs())}),
		st.addValue(api.ExportPowChallenge, api.ExportedChallenge{
			ChallengeID: first.GetChallengeId(), Difficulty: int(first.GetDifficulty()), SolvedAt: view.Millis(first.GetAtMs()),
		}),
	)
}

func (st *stream) writeAgents(context.Context) error {
	o := st.read.Org()
	return st.read.Agents(func(a stored.Agent) error {
		record := api.ExportedAgent{
			Agent: st.Show.Agent(a.State, o), FormerKeys: []api.ExportedKey{}, KeyBindings: []api.ExportedBinding{},
			UnboundSince: api.Maybe(a.UnboundSince()), LastActiveAt: api.Maybe(a.LastActive),
		}
		if k := a.GetPqKey(); k != nil {
			record.PQSince = view.MaybeMillis(k.GetSinceMs())
		}
		if key, found := a.KeyByKid(parley.Thumbprint(parley.Ed25519, a.GetSigningKey())); found {
			record.SigningSince = api.At(key.Since)
		}
		if key, found := a.KeyByKid(parley.Thumbprint(parley.X25519, a.GetEncryptionKey())); found {
			record.EncryptionSince = api.At(key.Since)
		}
		if a.Card != nil {
			body, err := st.Show.Branded(st.Show.Card(a.State, o, a.Card))
			if err != nil {
				return err
			}
			record.Card = json.RawMessage(body)
		}
		for _, k := range a.GetFormerKeys() {
			if key, found := a.KeyByKid(parley.Thumbprint(k.GetCurve(), k.GetRaw())); found {
				record.FormerKeys = append(record.FormerKeys, keyOf(key))
			}
		}
		for place, b := range a.GetBindings() {
			bound := api.ExportedBinding{KeyBinding: view.KeyBinding(a.State, place)}
			if previous := b.GetPreviousKey(); previous != nil {
				bound.PreviousSigningKid = new(parley.Thumbprint(parley.Ed25519, previous))
			}
			record.KeyBindings = append(record.KeyBindings, bound)
		}
		return st.addValue(api.ExportAgent, record)
	})
}

func keyOf(key agent.Key) api.ExportedKey {
	return api.ExportedKey{
		PublicKey: api.NewJWK(key.Curve, key.Raw), ValidFrom: api.At(key.Since), ValidUntil: api.Maybe(key.Until), RetiredAt: api.Maybe(key.Retired),
	}
}

func (st *stream) writeGroups(ctx context.Context) error {
	return st.read.Groups(func(g *group.State) error {
		v, err := g.View(group.GetView{MemberIDs: true}, st.read.At())
		if err != nil {
			return err
		}
		record := api.ExportedGroup{Group: view.Group(v), DeletedAt: view.MaybeMillis(g.DeletedMs)}
		if record.Handle, err = st.Groups.Handle(ctx, g.Org, g.Name); err != nil {
			return err
		}
		return st.addValue(api.ExportGroup, record)
	})
}

func (st *stream) writeMemberships(ctx context.Context) error {
	return st.read.Memberships(func(g *group.State, m group.Member) error {
		handle, err := st.handleIfKnown(ctx, m.Agent)
		if err != nil {
			return err
		}
		return st.addValue(api.ExportGroupMembership, api.GroupMember{
			AgentID: m.Agent, AgentHandle: handle, GroupID: g.ID, ID: new(m.ID(g.ID)), IsOwnOrg: m.Org == st.org,
			JoinedAt: api.At(m.JoinedAt()), Role: m.Role.String(),
		})
	})
}

// handleIfKnown returns the handle of an agent, nil if its organization was erased.
func (x *Exports) handleIfKnown(ctx context.Context, id parley.AgentID) (*string, error) {
	handle, err := x.Agents.HandleOf(ctx, id)
	if errors.Is(err, journal.ErrErased) || errors.Is(err, parley.ErrNotFound) {
		return nil, nil
	}
	return handle, err
}

func (st *stream) writeRequests(ctx context.Context) error {
	return st.read.Requests(func(g *group.State, r *group.Request) error {
		record := view.JoinRequest(g.Info, g.ViewRequest(r, group.Caller{Org: st.org}, st.read.At()))
		handle, err := st.Groups.Handle(ctx, g.Org, g.Name)
		if err != nil {
			return err
		}
		record.GroupHandle = &handle
		return st.addValue(api.ExportGroupJoinRequest, api.ExportedJoinRequest{JoinRequest: record, Consented: r.GetConsented()})
	})
}

func (st *stream) writeConversations(context.Context) error {
	return st.read.Conversations(func(c stored.Conversation) error {
		st.begin(api.ExportConversation)
		st.chunk = appendConversation(st.chunk, c)
		return st.end()
	})
}

// appendConversation appends an api.ExportedConversation. Most records of an export are
// conversations and messages.
func appendConversation(b []byte, c stored.Conversation) []byte {
	b = content.AppendID(append(b, `{"id":`...), parley.AnyID(c.ConversationID()))
	b = content.AppendText(append(b, `,"status":`...), c.GetStatus().String())
	b = content.AppendTime(append(b, `,"created_at":`...), c.CreatedAt())
	b = appendOptionalID(append(b, `,"parent_conversation_id":`...), parley.AnyID(c.ParentID()))
	b = append(b, `,"metadata":`...)
	if metadata := c.GetMetadata(); len(metadata) > 0 {
		b = append(b, metadata...)
	} else {
		b = append(b, `{}`...)
	}
	b = content.AppendTime(append(b, `,"updated_at":`...), c.UpdatedAt())
	host := c.GroupID()
	b = appendOptionalID(append(b, `,"group_id":`...), parley.AnyID(host))
	b = append(b, `,"participants":[`...)
	for i, p := range c.GetParticipants() {
		if !host.Zero() {
			break
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = content.AppendID(append(b, `{"agent_id":`...), parley.AnyID(p.Agent()))
		b = content.AppendText(append(b, `,"role":`...), p.GetRole().String())
		b = content.AppendTime(append(b, `,"joined_at":`...), p.JoinedAt())
		b = append(b, '}')
	}
	b = content.AppendBool(append(b, `],"task":`...), c.GetTask())
	b = content.AppendInt(append(b, `,"messages":`...), int(c.GetMessages()))
	b = append(b, `,"status_changes":[`...)
	for i, change := range c.Changes {
		if i > 0 {
			b = append(b, ',')
		}
		b = content.AppendText(append(b, `{"status":`...), change.GetStatus().String())
		b = content.AppendID(append(b, `,"by":`...), parley.IDFromBytes[parley.AnyID](change.GetBy()))
		b = content.AppendTime(append(b, `,"at":`...), time.UnixMilli(change.GetAtMs()))
		b = content.AppendOptional(append(b, `,"reason":`...), view.OrNull(change.GetReason()))
		b = append(content.AppendID(append(b, `,"after":`...), parley.AnyID(change.After)), '}')
	}
	return append(b, `]}`...)
}

func appendOptionalID(b []byte, id parley.AnyID) []byte {
	if id.Zero() {
		return append(b, `null`...)
	}
	return content.AppendID(b, id)
}

func (st *stream) writeMessages(ctx context.Context) error {
	from := view.Viewer{Principal: parley.Principal{Org: st.org}, Logger: st.Logger}
	return st.read.Messages(func(m query.Message) error {
		st.begin(api.ExportMessage)
		st.chunk = view.AppendMessage(st.chunk, st.Agents.ToView(ctx, m), from)
		st.chunk = append(st.appendStanding(append(st.chunk[:len(st.chunk)-1], `,"export":`...), m), '}')
		return st.end()
	})
}

// appendStanding appends what the record of a message has besides the message: a
// api.MessageExport.
func (st *stream) appendStanding(b []byte, m query.Message) []byte {
	r := m.Record
	b = content.AppendID(append(b, `{"sender_org_id":`...), parley.AnyID(r.SenderOrg()))
	b = content.AppendID(append(b, `,"recipient_org_id":`...), parley.AnyID(r.RecipientOrg()))
	b = append(b, `,"in_reply_to":`...)
	if original := r.GetInReplyTo(); len(original) > 0 {
		b = content.AppendID(b, parley.IDFromBytes[parley.AnyID](original))
	} else {
		b = append(b, `null`...)
	}
	b = append(b, `,"position":`...)
	if m.Position != 0 && r.RecipientOrg() == st.org {
		b = strconv.AppendUint(b, m.Position, 10)
	} else {
		b = append(b, `null`...)
	}
	b = content.AppendInstant(append(b, `,"transferred_at":`...), m.Receipts.TransferredAt)
	b = append(b, `,"transferred_by":`...)
	if names, known := view.Channels[m.Receipts.TransferredBy]; known {
		b = content.AppendText(b, names[0])
	} else {
		b = append(b, `null`...)
	}
	b = content.AppendInstant(append(b, `,"announced_at":`...), m.Receipts.AnnouncedAt)
	return append(b, '}')
}

func (st *stream) writeWebhooks(context.Context) error {
	return st.read.Webhooks(func(w *webhook.State) error {
		return st.addValue(api.ExportWebhook, api.ExportedWebhook{Webhook: view.Webhook(w), Target: w.GetUrl()})
	})
}

func (st *stream) writeSigningKeys(context.Context) error {
	return st.read.SigningKeys(func(a *agent.State, kid string, key agent.Key) error {
		return st.addValue(api.ExportSigningKey, api.ExportedSigningKey{ID: kid, AgentID: a.AgentID(), ExportedKey: keyOf(key)})
	})
}

// encodedDigest returns the value of Repr-Digest for a SHA-256. source: RFC 9530 section 3
func encodedDigest(sum []byte) string {
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":"
}
