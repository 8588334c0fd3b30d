package actors

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/agent"
	"parley/actors/host"
	"parley/actors/keylog"
	"parley/actors/record"
	"parley/actors/rules"
	"parley/client/parley"
	"parley/journal"
)

// gatherLeaves is how long the key log gathers leaves before it appends them. It bounds
// what the log costs: at most this often is one more entry written.
const gatherLeaves = 200 * time.Millisecond

type keyLogTurn = host.Turn[*keylog.State, keylog.Command, keylog.Event]

func (l *KeyLog) kind() *host.Kind[*keylog.State, keylog.Command, keylog.Event] {
	return &host.Kind[*keylog.State, keylog.Command, keylog.Event]{
		Stream: journal.KeyLogStream, Rules: rules.KeyLog, StateEvery: 1, Gather: gatherLeaves,
		Blank: func() *keylog.State { return &keylog.State{} },
		Handle: func(t *keyLogTurn, request any) (any, error) {
			if _, ok := request.(host.GetState); !ok {
				panic("key log: unknown request")
			}
			return proto.CloneOf(t.State), nil
		},
		HandlePage: appendLeaves,
	}
}

// appendLeaves appends the leaves of a page of the queue to the tree.
func appendLeaves(t *keyLogTurn, messages []*record.SagaMessage) error {
	c, leaves, first := keylog.Append{}, [][]byte(nil), t.State.GetSize()
	for _, m := range messages {
		c.Leaves, leaves = append(c.Leaves, keylog.Hash(m.GetCommitment())), append(leaves, m.GetCommitment())
	}
	rows := keylog.Stored(t.State, leaves)
	for i, row := range rows {
		number := binary.BigEndian.AppendUint64(nil, first+uint64(i))
		t.PutRow(journal.KeyLogTable, number, row)
		t.PutRow(journal.KeyLogPlaceTable, leaves[i], number)
	}
	return t.Decide(c)
}

// Tree is the key log at one time.
type Tree struct {
	Size uint64
	Root keylog.Hash
}

// Head returns the tree of everything that is durably in the log. Later trees begin with
// it.
func (l *KeyLog) Head(context.Context) (Tree, error) {
	s, err := host.Query[*keylog.State](l.engine, rules.KeyLogStream, host.GetState{})
	if err != nil {
		return Tree{}, err
	}
	return Tree{s.GetSize(), s.Root()}, nil
}

// ErrBeyondKeyLog is the error of a proof about leaves that the log does not have.
var ErrBeyondKeyLog = errors.New("the key log has fewer entries")

// ProveInclusion proves that a leaf is in the tree of the first size leaves. The index must
// be below the size.
func (l *KeyLog) ProveInclusion(ctx context.Context, size, index uint64) (proof []keylog.Hash, err error) {
	return l.prove(ctx, size, func(read keylog.Rows) ([]keylog.Hash, error) { return keylog.ProveInclusion(size, index, read) })
}

// ProveConsistency proves that the tree of the first size leaves begins with that of the
// first from leaves. Both must be above zero, and from not above size.
func (l *KeyLog) ProveConsistency(ctx context.Context, from, size uint64) (proof []keylog.Hash, err error) {
	return l.prove(ctx, size, func(read keylog.Rows) ([]keylog.Hash, error) { return keylog.ProveConsistency(from, size, read) })
}

func (l *KeyLog) prove(ctx context.Context, size uint64, by func(keylog.Rows) ([]keylog.Hash, error)) (proof []keylog.Hash, err error) {
	head, err := l.Head(ctx)
	if err != nil {
		return nil, err
	}
	if size > head.Size {
		return nil, ErrBeyondKeyLog
	}
	err = journal.Durably(ctx, l.journal.Latest(), func(v journal.View) (err error) {
		proof, err = by(func(leaf uint64) ([]byte, error) {
			row, found, err := v.Row(rules.KeyLogStream.Slot(), journal.KeyLogTable, binary.BigEndian.AppendUint64(nil, leaf))
			if err == nil && !found {
				err = fmt.Errorf("the key log has no row for leaf %d", leaf)
			}
			return row, err
		})
		return err
	})
	return proof, err
}

// Place returns the number of a leaf in the log, false if it is not there yet.
func (l *KeyLog) Place(ctx context.Context, leaf keylog.Hash) (index uint64, found bool, err error) {
	err = journal.Durably(ctx, l.journal.Latest(), func(v journal.View) error {
		row, there, err := v.Row(rules.KeyLogStream.Slot(), journal.KeyLogPlaceTable, leaf[:])
		if err == nil && there && len(row) == 8 {
			index, found = binary.BigEndian.Uint64(row), true
		}
		return err
	})
	return index, found, err
}

// loggedChange is a command about an agent's keys, which is in the key log.
type loggedChange struct {
	Command agent.Command
	// Slug is that of the agent's organization.
	Slug string
	// Kids are the rows that map the thumbprints of new keys to the agent.
	Kids []journal.Effect
}

// logged returns the request for a command: the command itself, or with what the key log
// needs if it is about keys.
func (as *Agents) logged(ctx context.Context, id parley.AgentID, c agent.Command) (any, error) {
	switch c.(type) {
	case agent.RotateKeys, agent.BindKeys, agent.RetireKey, agent.SetPQKey, agent.RemovePQKey, agent.Revoke:
	case agent.Change, agent.Create, agent.IssuePollToken, agent.RevokePollToken, agent.Send, agent.Enter, agent.Depart, agent.PublishCard, agent.WithdrawCard, agent.StoreKeyPackages, agent.ClaimKeyPackage, agent.SetBlock, agent.EndBlock, agent.Logged:
		return c, nil
	}
	a, err := as.Get(ctx, id)
	rotate, rotates := c.(agent.RotateKeys)
	if errors.Is(err, parley.ErrNotFound) && !rotates {
		return c, nil // which the agent refuses
	}
	if err != nil {
		return nil, err
	}
	o, err := as.orgs.Get(ctx, a.Owner())
	if err != nil {
		return nil, err
	}
	r := loggedChange{Command: agent.Logged{Command: c, Salts: as.salts()}, Slug: o.GetSlug()}
	if as.unlogged {
		r.Command = c
	}
	if rotates {
		r.Kids, err = as.freeKids(ctx, id, a.Owner(), rotate.Signing, rotate.Encryption)
	}
	return r, err
}

func (as *Agents) changeLogged(t *agentTurn, r loggedChange) (any, error) {
	if !areKidRows(r.Kids) {
		return nil, parley.ErrInternal
	}
	before := len(t.Events)
	now, err := as.change(t, r.Command)
	if err != nil || len(t.Events) == before {
		return now, err
	}
	t.AddEffects(r.Kids...)
	for _, e := range t.Events[before:] {
		if leaf, ok := leafEffect(r.Slug, t.State, e); ok {
			t.AddEffects(leaf)
		}
	}
	return now, nil
}

// createdLeaves returns the effects that put the events which create an agent into the key
// log.
func createdLeaves(slug string, made *agent.State, events []journal.StoredEvent) (leaves []journal.Effect, err error) {
	for _, f := range events {
		e, err := rules.Agent.Decode(f)
		if err != nil {
			return nil, err
		}
		if leaf, ok := leafEffect(slug, made, e); ok {
			leaves = append(leaves, leaf)
		}
	}
	return leaves, nil
}

// leafEffect returns the effect that puts an event of an agent into the key log, false if
// the event does not belong there.
func leafEffect(slug string, of *agent.State, e agent.Event) (journal.Effect, bool) {
	entry, ok := agent.KeyLogEntry(of.AgentID(), of.GetName()+"@"+slug, e)
	if !ok {
		return nil, false
	}
	leaf := entry.Commitment()
	data, _ := (&record.SagaMessage{Kind: record.SagaMessage_leaf, Commitment: leaf[:]}).MarshalVT() // no field of it can fail
	return journal.EnqueueFor{To: rules.KeyLogStream, Data: data}, true
}

// salts returns random salts.
func (c *core) salts() (salts [2][parley.KeyLogSaltBytes]byte) {
	for i := range salts {
		for filled := 0; filled < len(salts[i]); {
			random := c.entropy()
			filled += copy(salts[i][filled:], random[:])
		}
	}
	return salts
}
