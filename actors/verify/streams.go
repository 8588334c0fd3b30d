package verify

import (
	"bytes"
	"encoding/binary"

	"parley"
	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/issuer"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/journal"
)

func big(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// replayOf returns the replay for a stream of that kind.
func (x *verifier) replayOf(s journal.Stream) streamReplay {
	switch s.Kind {
	case journal.OrgStream:
		return x.replayOrg(s)
	case journal.AgentStream:
		return x.replayAgent(s)
	case journal.ConversationStream:
		return x.replayConversation(s)
	case journal.IssuerStream:
		return x.replayIssuer(s)
	case journal.GroupStream:
		return x.replayGroup(s)
	case journal.WebhookStream:
		return x.replayWebhook(s)
	case journal.KeyLogStream:
		return x.replayKeyLog(s)
	case journal.SlugStream:
		return claim{x, s}
	case journal.WorkloadStream:
		return workloadClaim{claim{x, s}}
	}
	return unknown{}
}

// begins checks an event that begins a stream.
func (x *verifier) begins(s journal.Stream, seq uint64, self []byte) {
	if seq > 1 {
		x.begin.Fault(record.StreamName(s), "event %d makes it once more", seq)
	}
	if !bytes.Equal(self, s.ID[:]) {
		x.begin.Fault(record.StreamName(s), "it was made as %x: nobody finds it", self)
	}
}

// replay is the stream being replayed.
type replay struct {
	stream journal.Stream
	run    streamReplay
	events uint64
	// stored is the stored state after the first storedAt events.
	stored   []byte
	storedAt uint64
	// started: the event that begins the stream was replayed and is not stored as one.
	started bool
	// broken: the stream is not checked any further.
	broken bool
}

// readStreams replays every stream.
func (x *verifier) readStreams() error {
	r := &replay{broken: true}
	err := x.Streams(func(s journal.Stream, seq uint64, f journal.StoredEvent) error {
		x.progress("streams")
		if s != r.stream {
			if err := x.finish(r); err != nil {
				return err
			}
			r = &replay{stream: s, run: x.replayOf(s)}
			var err error
			if r.storedAt, r.stored, err = x.State(s); err != nil {
				return err
			}
			x.begin.Checked++
			if err := x.replayStart(r); err != nil {
				return err
			}
		}
		return x.replayed(r, seq, f)
	})
	if err != nil {
		return err
	}
	if err := x.finish(r); err != nil {
		return err
	}
	x.leftOver()
	return nil
}

// replayStart replays the start of a conversation for which its first message stands.
func (x *verifier) replayStart(r *replay) error {
	if r.stream.Kind != journal.ConversationStream {
		return nil
	}
	start, found, err := rules.Conversation.Start(x, r.stream)
	if err != nil {
		x.decode.Fault(record.StreamName(r.stream), "its first message: %v: requests for it fail", err)
		r.broken = true
		return nil
	}
	if !found {
		return nil
	}
	r.started = true
	stored, err := rules.Conversation.Encode([]conversation.Event{start})
	if err != nil {
		return err
	}
	return r.run.play(0, stored[0])
}

// readStart checks a conversation of which only the first message is stored.
func (x *verifier) readStart(first parley.MessageID) error {
	s := rules.ConversationStream(conversation.StartedBy(first))
	replied := false
	err := x.Events(s, 1, false, func(uint64, int64, journal.StoredEvent) bool {
		replied = true
		return false
	})
	if err != nil || replied {
		return err
	}
	r := &replay{stream: s, run: x.replayOf(s)}
	if err := x.replayStart(r); err != nil || !r.started {
		return err
	}
	x.begin.Checked++
	return r.run.done(0)
}

// replayed replays the next event.
func (x *verifier) replayed(r *replay, seq uint64, f journal.StoredEvent) error {
	r.events = seq
	if r.broken {
		return nil
	}
	x.decode.Checked++
	if seq == 1 && f.Tag != 1 && !r.started {
		x.begin.Fault(record.StreamName(r.stream), "its first event is not the one that makes it")
	}
	if err := r.run.play(seq, f); err != nil {
		x.decode.Fault(record.StreamName(r.stream), "event %d: %v: requests for it fail", seq, err)
		r.broken = true
		return nil
	}
	if r.stored == nil || seq != r.storedAt {
		return nil
	}
	x.state.Checked++
	folded, err := r.run.encode()
	if err != nil {
		return err
	}
	stored, err := r.run.recode(r.stored)
	switch {
	case err != nil:
		x.state.Fault(record.StreamName(r.stream), "its stored state cannot be read: %v", err)
	case !bytes.Equal(folded, stored):
		x.state.Fault(record.StreamName(r.stream), "its stored state is not what its first %d events give: what it shows did not happen", seq)
	}
	return nil
}

// finish checks a stream after its last event.
func (x *verifier) finish(r *replay) error {
	if r.broken {
		return nil
	}
	if r.run.current() && (r.stored == nil || r.storedAt < r.events) {
		x.state.Fault(record.StreamName(r.stream), "its stored state is of %d events, and it has %d: others see it as it was", r.storedAt, r.events)
	}
	return r.run.done(r.events)
}

func (x *verifier) replayIssuer(s journal.Stream) streamReplay {
	t := &aggregateReplay[*issuer.State, issuer.Command, issuer.Event]{
		rules: rules.Issuer, state: &issuer.State{}, blank: func() *issuer.State { return &issuer.State{} },
	}
	t.judge = func(uint64, issuer.Event) error { return nil }
	t.end = func() error {
		if s != rules.SigningKeyStream && s != rules.CardKeyStream && s != rules.ReceiptKeyStream && s != rules.LogKeyStream {
			x.begin.Fault(record.StreamName(s), "signing keys exist for access tokens, cards, receipts and the key log, and these are others")
		}
		return nil
	}
	return t
}

func (x *verifier) replayAgent(s journal.Stream) streamReplay {
	t := &aggregateReplay[*agent.State, agent.Command, agent.Event]{
		rules: rules.Agent, state: &agent.State{}, blank: func() *agent.State { return &agent.State{} },
	}
	self := parley.AgentID(s.ID)
	t.after = func(e agent.Event) { x.keysLogged(self, t.state, e) }
	t.judge = func(seq uint64, e agent.Event) error {
		if err := x.keyEvent(self, t.state, e); err != nil {
			return err
		}
		switch e := e.(type) {
		case *agent.Created:
			x.begins(s, seq, e.GetId())
			owner := parley.IDFromBytes[parley.OrgID](e.GetOrgId())
			x.names.Expect(owner.Slot(), 1, owner[:], self[:], x.hiddenName(journal.NameTable, owner, e.GetName()))
			x.agents.Find(owner.Slot(), 1, owner[:], self[:])
		case *agent.Revoked:
			owner := t.state.Owner()
			x.retired.Expect(owner.Slot(), 1, owner[:], self[:])
		case *agent.Entered:
			x.entered(self, t.state, e)
		case *agent.KeyDistrusted, *agent.KeysBound, *agent.Changed, *agent.Departed, *agent.KeysRotated, *agent.PollTokenIssued, *agent.PollTokenRevoked, *agent.CardPublished, *agent.CardWithdrawn, *agent.PQKeySet, *agent.PQKeyRemoved, *agent.KeyPackagesStored, *agent.KeyPackageClaimed, *agent.KeyPackagesExpired: // the changes are checked at the end
		}
		return nil
	}
	t.end = func() error {
		x.belongs(self, t.state)
		x.carded(self, t.state)
		x.keepsKeyPackages(self, t.state)
		return x.findable(self, t.state)
	}
	return t
}

// findable checks the rows that lead to an agent: one for each key that it has or had,
// and one for its valid token. readTables checks that each row names this agent or
// another agent with the same key.
func (x *verifier) findable(self parley.AgentID, s *agent.State) error {
	keys := s.GetFormerKeys()
	keys = append(keys[:len(keys):len(keys)],
		&agent.FormerKey{Curve: parley.Ed25519, Raw: s.GetSigningKey()}, &agent.FormerKey{Curve: parley.X25519, Raw: s.GetEncryptionKey()})
	for _, k := range keys {
		if len(k.GetRaw()) == 0 {
			continue
		}
		kid := parley.Thumbprint(k.GetCurve(), k.GetRaw())
		x.keys.Checked++
		if there, err := x.found(parley.SlotOf(kid), journal.KidTable, []byte(kid)); err != nil {
			return err
		} else if !there {
			x.keys.Fault("agent "+self.String(), "its key %s finds nobody: what it signed cannot be verified", kid)
		}
	}
	hash := s.GetPollTokenHash()
	if len(hash) == 0 {
		return nil
	}
	x.poll.Checked++
	if there, err := x.found(parley.SlotOf(string(hash)), journal.PollTable, hash); err != nil {
		return err
	} else if !there {
		x.poll.Fault("agent "+self.String(), "its poll token finds nobody: polling answers as if it were unknown")
	}
	return nil
}

// found reports whether a row is stored or in an outbox.
func (x *verifier) found(slot parley.Slot, table journal.Table, key []byte) (bool, error) {
	if _, ok := x.underway.rows[string(byte(table))+string(key)]; ok {
		return true, nil
	}
	_, ok, err := x.Row(slot, table, key)
	return ok, err
}
