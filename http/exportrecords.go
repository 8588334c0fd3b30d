package http

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"

	"parley"
	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/group"
	"parley/actors/org"
	"parley/actors/query"
	"parley/actors/webhook"
	"parley/http/api"
	"parley/http/auth"
	"parley/http/content"
	"parley/journal"
)

// writeAll writes the lines of all types in the order of the specification.
// // spec: Export record types
func (st *exportStream) writeAll(ctx context.Context) error {
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
func (st *exportStream) writeOrg(context.Context) error {
	o := st.read.Org()
	first, err := st.read.Registration()
	if err != nil {
		return err
	}
	record := api.ExportedOrg{
		Org: orgOf(o), Suspended: o.Suspended(), Credentials: []api.ExportedCredential{},
		Export: api.ExportInfo{Format: api.ExportFormat, SnapshotAt: api.At(st.read.At())},
	}
	for _, c := range o.GetCredentials() {
		record.Credentials = append(record.Credentials, api.ExportedCredential{
			ClientID: parley.IDFromBytes[parley.ClientID](c.GetClientId()), CreatedAt: atMillis(c.GetCreatedMs()), RevokedAt: maybeMillis(c.GetRevokedMs()),
		})
	}
	return errors.Join(
		st.addValue(api.ExportOrg, record),
		st.addValue(api.ExportUser, api.ExportedUser{Email: first.GetContactEmail(), VerifiedAt: maybeMillis(o.GetEmailConfirmedMs())}),
		st.addValue(api.ExportPowChallenge, challengeOf(first)),
	)
}

func challengeOf(first *org.Registered) api.ExportedChallenge {
	record := api.ExportedChallenge{SolvedAt: atMillis(first.GetAtMs())}
	if id := first.GetChallengeId(); id != "" {
		record.ChallengeID, record.Difficulty = &id, new(int(first.GetDifficulty()))
	}
	return record
}

func maybeMillis(ms int64) *api.Time {
	if ms == 0 {
		return nil
	}
	return new(atMillis(ms))
}

func (st *exportStream) writeAgents(context.Context) error {
	o := st.read.Org()
	return st.read.Agents(func(a query.ExportedAgent) error {
		record := api.ExportedAgent{Agent: st.agentIn(a.State, o), FormerKeys: []api.ExportedKey{}, KeyBindings: []api.KeyBinding{}}
		if a.Card != nil {
			body, err := st.branded(st.showCard(a.State, o, a.Card))
			if err != nil {
				return err
			}
			record.Card = json.RawMessage(body)
		}
		for _, k := range a.GetFormerKeys() {
			if key, found := a.KeyByKid(parley.Thumbprint(k.GetCurve(), k.GetRaw())); found {
				record.FormerKeys = append(record.FormerKeys, exportedKey(key))
			}
		}
		for place := range a.GetBindings() {
			record.KeyBindings = append(record.KeyBindings, bindingOf(a.State, place))
		}
		return st.addValue(api.ExportAgent, record)
	})
}

// agentIn returns an agent of an organization as its owner sees it, without warnings about
// its webhooks.
func (s *core) agentIn(a *agent.State, o *org.State) api.Agent {
	handle := parley.Handle{Name: a.GetName(), Slug: o.GetSlug(), Domain: s.Domain}.String()
	signing, encryption := api.NewJWK(parley.Ed25519, a.GetSigningKey()), api.NewJWK(parley.X25519, a.GetEncryptionKey())
	read := api.Agent{
		ID: a.AgentID(), AgentID: a.AgentID(), OrgID: a.Owner(), Name: a.GetName(), HumanOversight: a.GetHumanOversight(),
		IncomingPolicy: a.GetIncomingPolicy(), OutgoingPolicy: a.GetOutgoingPolicy(), Unlisted: a.GetUnlisted(),
		CreatedAt: api.At(a.CreatedAt()), Handle: &handle, VerificationWords: new(auth.VerificationWords(a.GetSigningKey())),
		SigningPublicKey: &signing, EncryptionPublicKey: &encryption, Warnings: a.Warnings(),
		PQPublicKey: pqKeyOf(a),
	}
	if at, revoked := a.RevokedAt(); revoked {
		read.RevokedAt = new(api.At(at))
	}
	return read
}

func exportedKey(key agent.Key) api.ExportedKey {
	return api.ExportedKey{
		PublicKey: api.NewJWK(key.Curve, key.Raw), ValidFrom: api.At(key.Since), ValidUntil: api.Maybe(key.Until), RetiredAt: api.Maybe(key.Retired),
	}
}

func (st *exportStream) writeGroups(ctx context.Context) error {
	return st.read.Groups(func(g *group.State) error {
		seen := seeGroup(g, st.read.At())
		var err error
		if seen.Handle, err = st.groupHandle(ctx, g.Org, g.Name); err != nil {
			return err
		}
		return st.addValue(api.ExportGroup, seen.Group)
	})
}

func (st *exportStream) writeMemberships(ctx context.Context) error {
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
func (s *core) handleIfKnown(ctx context.Context, id parley.AgentID) (*string, error) {
	handle, err := s.handleOf(ctx, id)
	if errors.Is(err, journal.ErrErased) || errors.Is(err, parley.ErrNotFound) {
		return nil, nil
	}
	return handle, err
}

func (st *exportStream) writeRequests(ctx context.Context) error {
	return st.read.Requests(func(g *group.State, r *group.Request) error {
		record := requestOf(g, r, group.Caller{Org: st.org}, st.read.At())
		handle, err := st.groupHandle(ctx, g.Org, g.Name)
		if err != nil {
			return err
		}
		record.GroupHandle = &handle
		return st.addValue(api.ExportGroupJoinRequest, record)
	})
}

func (st *exportStream) writeConversations(context.Context) error {
	return st.read.Conversations(func(c *conversation.State) error {
		st.begin(api.ExportConversation)
		st.chunk = appendConversation(st.chunk, c)
		return st.end()
	})
}

// appendConversation appends an api.ExportedConversation. Most records of an export are
// conversations and messages.
func appendConversation(b []byte, c *conversation.State) []byte {
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
	return append(b, `]}`...)
}

func appendOptionalID(b []byte, id parley.AnyID) []byte {
	if id.Zero() {
		return append(b, `null`...)
	}
	return content.AppendID(b, id)
}

func (st *exportStream) writeMessages(context.Context) error {
	from := viewer{org: st.org, service: st.core}
	return st.read.Messages(func(m query.Message) error {
		st.begin(api.ExportMessage)
		st.chunk = appendMessage(st.chunk, m, from)
		return st.end()
	})
}

func (st *exportStream) writeWebhooks(context.Context) error {
	return st.read.Webhooks(func(w *webhook.State) error { return st.addValue(api.ExportWebhook, webhookOf(w)) })
}

func (st *exportStream) writeSigningKeys(context.Context) error {
	return st.read.SigningKeys(func(a *agent.State, kid string, key agent.Key) error {
		return st.addValue(api.ExportSigningKey, api.ExportedSigningKey{ID: kid, AgentID: a.AgentID(), ExportedKey: exportedKey(key)})
	})
}

// encodedDigest returns the value of Repr-Digest for a SHA-256. source: RFC 9530 section 3
func encodedDigest(sum []byte) string {
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum) + ":"
}
