package record

import (
	"encoding/binary"
	"time"

	"parley/actors/webhook"
	"parley/client/parley"
	"parley/journal"
)

// OwnStatus is appended to a status in the feed of the agent that asked for the change.
const OwnStatus = 0

// StatusNews decodes the note of a StatusEntry: the conversation's new status, and
// whether the feed's agent itself asked for it.
func StatusNews(note []byte) (status string, own bool) {
	if last := len(note) - 1; last >= 0 && note[last] == OwnStatus {
		return string(note[:last]), true
	}
	return string(note), false
}

// Kinds of group events in feeds, the first byte of the note of a GroupEntry. The id
// of the join request follows, if the event has one, that of the member if it joined or left,
// or the epoch of the MLS group, if the event is about that.
const (
	Invited byte = iota + 1
	RequestCreated
	RequestResolved
	MemberJoined
	MemberLeft
	MLSCommitted
	MLSWelcomed
	MLSAdmission
	MLSRemoval
)

// groupNews are their names in the API. // docs: webhooks.md
var groupNews = [...]string{
	Invited: "invited", RequestCreated: "request.created", RequestResolved: "request.resolved",
	MemberJoined: "member.joined", MemberLeft: "member.left",
	MLSCommitted: "mls_commit", MLSWelcomed: "mls_welcome", MLSAdmission: "mls_admission", MLSRemoval: "mls_removal",
}

// GroupNews decodes the note of a GroupEntry: the event, "" if its kind is unknown, and
// the join request that it is about, zero if there is none.
func GroupNews(note []byte) (kind string, request parley.JoinRequestID) {
	switch {
	case len(note) == 0 || int(note[0]) >= len(groupNews):
		return "", request
	case ofMember(note):
		return groupNews[note[0]], request
	}
	return groupNews[note[0]], parley.IDFromBytes[parley.JoinRequestID](note[1:])
}

// MemberNews decodes the member that an event is about: one that joined or left. It is zero for
// any other event, and for one of a release before 0.9.
func MemberNews(note []byte) (member parley.AgentID) {
	if !ofMember(note) {
		return member
	}
	return parley.IDFromBytes[parley.AgentID](note[1:])
}

// MemberKind returns the note of an event of a member without the member, and any other note as
// it is. Releases before 0.9 did not store the member.
func MemberKind(note []byte) []byte {
	if ofMember(note) {
		return note[:1]
	}
	return note
}

func ofMember(note []byte) bool {
	return len(note) > 0 && (note[0] == MemberJoined || note[0] == MemberLeft)
}

// MLSNote encodes the note of an event of a group's MLS group.
func MLSNote(kind byte, epoch uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, epoch)
}

// MLSNews decodes the epoch of a note that MLSNote made. It reports false for any other
// note.
func MLSNews(note []byte) (epoch uint64, ok bool) {
	if len(note) != 9 || note[0] < MLSCommitted || note[0] > MLSRemoval {
		return 0, false
	}
	return binary.BigEndian.Uint64(note[1:]), true
}

// ReceiptNews decodes the note of a ReceiptEntry: whether the message was delivered and
// whether it was read, for the first time.
func ReceiptNews(note []byte) (delivered, read bool) {
	if len(note) == 0 {
		return false, false
	}
	kinds := journal.ReceiptKinds(note[0])
	return kinds&journal.DeliveredReceipt != 0, kinds&journal.ReadReceipt != 0
}

// DisablingNote encodes the note of a WebhookEntry.
func DisablingNote(why webhook.Reason) []byte { return []byte{byte(why)} }

// DisablingNews decodes a note that DisablingNote made: why the server disabled a webhook.
func DisablingNews(note []byte) webhook.Reason {
	if len(note) == 0 {
		return 0
	}
	return webhook.Reason(note[0])
}

// ExpiryNote encodes the note of a CredentialEntry.
func ExpiryNote(at time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli()))
}

// ExpiryNews decodes a note that ExpiryNote made: when the credential ends, UTC.
func ExpiryNews(note []byte) time.Time {
	if len(note) != 8 {
		return time.Time{}
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(note))).UTC()
}

// WebhookNews returns the webhook events that follow from a feed entry. The note of a
// message says whether it is a copy.
func WebhookNews(e journal.FeedEntry) (all []*webhook.News) {
	add := func(x webhook.What, ref, note []byte) {
		all = append(all, &webhook.News{Event: x, Ref: ref, Note: note, HappenedMs: e.At, Position: e.Position})
	}
	switch e.Kind {
	case journal.MessageEntry:
		add(webhook.MessageReceived, e.Ref.Bytes(), nil)
	case journal.CopyEntry:
		add(webhook.MessageReceived, e.Ref.Bytes(), []byte{1})
	case journal.StatusEntry:
		if _, own := StatusNews(e.Note); !own {
			add(webhook.ConversationUpdated, e.Ref.Bytes(), nil)
		}
	case journal.GroupEntry:
		kind, request := GroupNews(e.Note)
		if _, mls := MLSNews(e.Note); mls {
			add(webhook.GroupMLS, e.Ref.Bytes(), e.Note)
		} else if x, known := webhook.ParseEvent("group." + kind); known {
			var about []byte
			if member := MemberNews(e.Note); !member.Zero() {
				about = member.Bytes()
			} else if !request.Zero() {
				about = request.Bytes()
			}
			add(x, e.Ref.Bytes(), about)
		}
	case journal.WebhookEntry:
		add(webhook.Disabling, e.Ref.Bytes(), e.Note)
	case journal.CredentialEntry:
		add(webhook.CredentialExpiring, e.Ref.Bytes(), e.Note)
	case journal.ReceiptEntry:
		delivered, read := ReceiptNews(e.Note)
		if delivered {
			add(webhook.MessageDelivered, e.Ref.Bytes(), nil)
		}
		if read {
			add(webhook.MessageRead, e.Ref.Bytes(), nil)
		}
	}
	return all
}
