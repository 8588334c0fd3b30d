package importing

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"parley"
	"parley/actors/conversation"
	"parley/http/api"
)

// decodeID returns the member id of a record, "" if it has none.
func decodeID(data []byte) (string, error) {
	var head struct {
		ID string `json:"id"`
	}
	err := json.Unmarshal(data, &head)
	return head.ID, err
}

// check compares the records with each other: whatever the records name must be there.
func (x *Export) check() error {
	if x.lastType < slices.Index(api.ExportTypes(), api.ExportPowChallenge) {
		return errors.New("the export has no organization, user or pow_challenge")
	}
	active := 0
	for i := range x.agents {
		a := &x.agents[i]
		if a.RevokedAt == nil {
			active++
		}
		keys := 1
		for _, k := range a.FormerKeys {
			if k.PublicKey.Curve == a.SigningPublicKey.Curve {
				keys++
			}
		}
		if have := x.signingKeys[a.ID]; have != keys {
			return fmt.Errorf("agent %s has %d signing keys, and the export %d of them: records are missing", a.ID, keys, have)
		}
	}
	if active != x.org.AgentCount {
		return fmt.Errorf("the organization has %d active agents, and the export %d: records are missing", x.org.AgentCount, active)
	}
	places := map[int]bool{}
	for i := range x.agents {
		place := x.agents[i].RosterPlace
		if place < 1 || place > len(x.agents) || places[place] {
			return fmt.Errorf("the agents have no order: place %d", place)
		}
		places[place] = true
	}
	if err := x.checkGroups(); err != nil {
		return err
	}
	return x.checkTalks()
}

// checkTalks gives each conversation its messages, and checks that none is missing.
func (x *Export) checkTalks() error {
	slices.SortFunc(x.messages, func(a, b message) int {
		return cmp.Or(cmp.Compare(a.talk, b.talk), bytes.Compare(a.id[:], b.id[:]))
	})
	for i := range x.messages {
		t := &x.talks[x.messages[i].talk]
		if t.firstMsg < 0 {
			t.firstMsg = int32(i)
		}
		t.lastMsg = int32(i + 1)
	}
	for i := range x.talks {
		if err := x.checkTalk(&x.talks[i]); err != nil {
			return &lineError{x.talks[i].line, err}
		}
	}
	return nil
}

func (x *Export) checkTalk(t *talk) error {
	if t.group != nil {
		if err := x.checkHosted(t); err != nil {
			return err
		}
		return x.checkStatus(t)
	}
	if t.firstMsg < 0 || x.messages[t.firstMsg].id != conversation.FirstMessageID(t.id) {
		return fmt.Errorf("conversation %s has no first message", t.id)
	}
	if have := int64(t.lastMsg - t.firstMsg); have != t.count {
		return fmt.Errorf("conversation %s has %d messages, and the export %d of them: records are missing", t.id, t.count, have)
	}
	t.from, t.to = x.messages[t.firstMsg].from, x.messages[t.firstMsg].to
	for _, m := range x.messages[t.firstMsg:t.lastMsg] {
		if !(m.from == t.from && m.to == t.to || m.from == t.to && m.to == t.from) {
			return &lineError{int(m.line), fmt.Errorf("message %s is not between the participants of its conversation", m.id)}
		}
	}
	return x.checkStatus(t)
}

// checkStatus checks that the changes of a conversation's status lead to the status that it
// has.
func (x *Export) checkStatus(t *talk) error {
	status := conversation.Submitted.String()
	for _, change := range t.changes {
		status = change.Status
		_, known := slices.BinarySearchFunc(x.messages[t.firstMsg:t.lastMsg], change.After, func(m message, id parley.MessageID) int { return compareIDs(m.posted(), id) })
		if !known {
			return fmt.Errorf("a change of status follows message %s, which is not in the export", change.After)
		}
	}
	if status != t.status {
		return fmt.Errorf("its status is %s, and its changes lead to %s", t.status, status)
	}
	return nil
}
