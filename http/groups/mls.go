package groups

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"parley/actors"
	"parley/actors/agent"
	"parley/actors/group"
	"parley/actors/record"
	"parley/client/api"
	"parley/client/parley"
	"parley/http/access"
	"parley/http/buffer"
	"parley/http/content"
	"parley/http/mls"
	"parley/http/rest"
	"parley/http/view"
)

// MLS has the requests of members of MLS groups. // docs: mls.md
type MLS struct{ Options }

// mlsReader is an agent that asks about a group's MLS group.
type mlsReader struct {
	agent *agent.State
	owner parley.OrgID
	has   group.Access // of the agent's organization
}

// reader returns the acting agent and what its organization may know of the group.
func (s MLS) reader(c *rest.Call, id parley.GroupID, name string) (r mlsReader, err error) {
	if r.agent, err = s.Agents.Sole(c, name); err != nil {
		return r, err
	}
	v, err := s.Access.ViewWith(c, id, group.GetView{Viewer: access.Viewer(c, group.Stranger), Access: true})
	r.owner, r.has = v.Org, v.Access
	return r, err
}

// refused returns the refusal as the agent's organization may see it: a private group is
// unknown to strangers.
func (r mlsReader) refused(err error) error {
	if r.has == group.Stranger && errors.Is(err, group.ErrNotMember) {
		return group.ErrUnknown
	}
	return err
}

// Commit begins the next epoch of a group's MLS group. Whether the group may be known is
// judged before what was sent.
func (s MLS) Commit(c *rest.Call, in *api.CommitMLS) (api.MLSEpoch, error) {
	r, err := s.reader(c, in.ID, in.ActingAgent)
	if err != nil {
		return api.MLSEpoch{}, err
	}
	sent := len(in.Commit) + len(in.GroupInfo)
	if in.Welcome != nil {
		sent += len(*in.Welcome)
	}
	if err := c.Reserve(2 * sent); err != nil { // for the texts, and for their bytes
		return api.MLSEpoch{}, err
	}
	commit, err := readMLSCommit(in)
	if err != nil {
		standing := s.Node.Groups.CheckMember(c.Context(), in.ID, r.agent.AgentID())
		if errors.Is(standing, group.ErrNotMember) {
			err = r.refused(standing)
		}
		return api.MLSEpoch{}, err
	}
	commit.By = r.agent.AgentID()
	if commit.SeatLimit, err = s.Access.SeatLimit(c.Context(), r.owner); err != nil {
		return api.MLSEpoch{}, err
	}
	done, err := s.Node.Groups.CommitMLS(c.Context(), in.ID, commit)
	if err != nil {
		return api.MLSEpoch{}, r.refused(err)
	}
	if done.Repeated {
		c.SetStatus(200)
	}
	return api.MLSEpoch{Epoch: done.Epoch}, nil
}

// readMLSCommit reads the headers of what a committer has sent.
func readMLSCommit(in *api.CommitMLS) (commit actors.MLSCommit, err error) {
	commit.Epoch, commit.Added, commit.Removed = uint64(in.Epoch), in.Added, in.Removed
	if commit.Message, err = bodyBytes(in.Commit, "commit"); err != nil {
		return commit, err
	}
	m, err := mls.ParseMessage(commit.Message)
	switch {
	case err != nil:
		return commit, mlsFault("commit", "this should be an MLSMessage with a public or private message: "+err.Error())
	case m.Content != mls.ContentCommit:
		return commit, mlsFault("commit", "the content type should be commit; proposals travel by value inside commits")
	case string(m.GroupID) != in.ID.String():
		return commit, mlsFault("commit", "the group_id should be the 36 characters of the group's id")
	case m.Epoch != commit.Epoch:
		return commit, mlsFault("commit", "its epoch should be epoch")
	case m.Format == mls.FormatPublic && m.Sender != mls.SenderMember && m.Sender != mls.SenderNewMemberCommit:
		return commit, mlsFault("commit", "the sender should be a member or new_member_commit")
	}
	commit.External = m.Format == mls.FormatPublic && m.Sender == mls.SenderNewMemberCommit
	if commit.GroupInfo, err = bodyBytes(in.GroupInfo, "group_info"); err != nil {
		return commit, err
	}
	info, err := mls.ParseGroupInfo(commit.GroupInfo)
	switch {
	case err != nil:
		return commit, mlsFault("group_info", "this should be a GroupInfo: "+err.Error())
	case string(info.GroupID) != in.ID.String():
		return commit, mlsFault("group_info", "the group_id should be the 36 characters of the group's id")
	case info.Epoch != commit.Epoch+1:
		return commit, mlsFault("group_info", "its epoch should be the one after epoch")
	case !info.RatchetTree || !info.ExternalPub:
		return commit, mlsFault("group_info", "it should have the extensions ratchet_tree and external_pub")
	}
	commit.Suite = uint16(info.Suite)
	if in.Welcome == nil {
		return commit, nil
	}
	if commit.Welcome, err = bodyBytes(*in.Welcome, "welcome"); err != nil {
		return commit, err
	}
	welcome, err := mls.ParseWelcome(commit.Welcome)
	switch {
	case err != nil:
		return commit, mlsFault("welcome", "this should be a Welcome: "+err.Error())
	case welcome.Suite != info.Suite:
		return commit, mlsFault("welcome", "its cipher suite should be that of group_info")
	}
	return commit, nil
}

// mlsFault rejects a member of the body.
func mlsFault(member, why string) error {
	return parley.Refuse(parley.Unprocessable, "validation_error", "Value error, "+why).With("loc", member)
}

// bodyBytes decodes a member of the body.
func bodyBytes(text, member string) ([]byte, error) {
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil, mlsFault(member, "this should be base64url")
	}
	return data, nil
}

// mlsItemFrame bounds the bytes that a commit or a Welcome takes in a page besides its
// base64url.
const mlsItemFrame = 256

// mlsPageBytes returns how many bytes of commits or Welcomes a page may have, so that it is
// within parley.PageBytesMax.
func mlsPageBytes(limit int) int { return (parley.PageBytesMax - (limit+1)*mlsItemFrame) / 4 * 3 }

// mlsRoom reserves what an answer with MLS objects takes from the caller's memory budget,
// before their rows are read.
type mlsRoom struct {
	call *rest.Call
	// items is how many objects the answer may have besides the first.
	items, stored int
}

// reserve reserves room for an answer from rows of so many bytes: for the rows as they are
// stored, opened and decoded, and for the answer. It implements query.Reserve.
func (r *mlsRoom) reserve(stored int) error {
	r.stored = stored
	return r.call.Reserve(3*stored + buffer.Size(r.size()))
}

// size returns an upper bound of the size of the answer in bytes.
func (r *mlsRoom) size() int {
	return rest.PageFrame + (r.items+1)*mlsItemFrame + base64.RawURLEncoding.EncodedLen(r.stored)
}

// appendBase64 appends a JSON string. The alphabet needs no escapes.
func appendBase64(b, data []byte) []byte {
	return append(base64.RawURLEncoding.AppendEncode(append(b, '"'), data), '"')
}

// ListCommits returns the commits that the acting agent may see.
func (s MLS) ListCommits(c *rest.Call, in *api.ListMLSCommits) (rest.Rendered, error) {
	list := "mls commits " + in.ID.String()
	place, err := s.Lists.Place(list, in.Cursor)
	if err != nil {
		return rest.Rendered{}, err
	}
	r, err := s.reader(c, in.ID, in.ActingAgent)
	if err != nil {
		return rest.Rendered{}, err
	}
	since := max(uint64(in.SinceEpoch), place)
	room := mlsRoom{call: c, items: in.Limit}
	commits, more, err := s.Node.Groups.MLSCommitsFor(c.Context(), in.ID, r.agent.AgentID(), since, in.Limit, mlsPageBytes(in.Limit), room.reserve)
	if err != nil {
		return rest.Rendered{}, r.refused(err)
	}
	next := ""
	if more {
		next = s.Lists.Cursor(list, commits[len(commits)-1].Epoch+1)
	}
	return c.Render(room.size(), func(b []byte) []byte {
		b = append(b, `{"items":[`...)
		for i, one := range commits {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendUint(append(b, `{"epoch":`...), one.Epoch, 10)
			b = appendBase64(append(b, `,"commit":`...), one.GetCommit())
			b = content.AppendID(append(b, `,"committed_by":`...), parley.AnyID(one.By()))
			b = content.AppendTime(append(b, `,"created_at":`...), time.UnixMilli(one.GetCreatedMs()))
			b = append(b, '}')
		}
		return view.AppendPageEnd(b, next)
	}), nil
}

// GroupInfo returns the GroupInfo of the present epoch.
func (s MLS) GroupInfo(c *rest.Call, in *api.GetMLSGroupInfo) (rest.Rendered, error) {
	r, err := s.reader(c, in.ID, in.ActingAgent)
	if err != nil {
		return rest.Rendered{}, err
	}
	room := mlsRoom{call: c}
	info, err := s.Node.Groups.MLSInfoFor(c.Context(), in.ID, r.agent.AgentID(), room.reserve)
	if err != nil {
		return rest.Rendered{}, r.refused(err)
	}
	return c.Render(room.size(), func(b []byte) []byte {
		b = strconv.AppendUint(append(b, `{"epoch":`...), info.Epoch, 10)
		b = appendBase64(append(b, `,"group_info":`...), info.GroupInfo)
		b = content.AppendInt(append(b, `,"cipher_suite":`...), int(info.Suite))
		return append(b, '}')
	}), nil
}

// ListWelcomes returns the Welcomes that the acting agent has not acknowledged.
func (s MLS) ListWelcomes(c *rest.Call, in *api.ListMLSWelcomes) (rest.Rendered, error) {
	list := "mls welcomes " + in.ID.String()
	since, err := s.Lists.Place(list, in.Cursor)
	if err != nil {
		return rest.Rendered{}, err
	}
	r, err := s.reader(c, in.ID, in.ActingAgent)
	if err != nil {
		return rest.Rendered{}, err
	}
	room := mlsRoom{call: c, items: in.Limit}
	welcomes, more, err := s.Node.Groups.MLSWelcomesFor(c.Context(), in.ID, r.agent.AgentID(), since, in.Limit, mlsPageBytes(in.Limit), room.reserve)
	if err != nil {
		return rest.Rendered{}, r.refused(err)
	}
	next := ""
	if more {
		next = s.Lists.Cursor(list, welcomes[len(welcomes)-1].Epoch+1)
	}
	return c.Render(room.size(), func(b []byte) []byte {
		b = append(b, `{"items":[`...)
		for i, one := range welcomes {
			if i > 0 {
				b = append(b, ',')
			}
			b = content.AppendID(append(b, `{"id":`...), record.WelcomeID(in.ID, one.Epoch))
			b = strconv.AppendUint(append(b, `,"epoch":`...), one.Epoch+1, 10)
			b = appendBase64(append(b, `,"welcome":`...), one.GetWelcome())
			b = content.AppendTime(append(b, `,"created_at":`...), time.UnixMilli(one.GetCreatedMs()))
			b = append(b, '}')
		}
		return view.AppendPageEnd(b, next)
	}), nil
}

// AcknowledgeWelcome drops a Welcome of the acting agent.
func (s MLS) AcknowledgeWelcome(c *rest.Call, in *api.AcknowledgeMLSWelcome) (rest.NoContent, error) {
	r, err := s.reader(c, in.ID, in.ActingAgent)
	if err != nil {
		return rest.NoContent{}, err
	}
	return rest.NoContent{}, r.refused(s.Node.Groups.AcknowledgeWelcome(c.Context(), in.ID, r.agent.AgentID(), in.WelcomeID))
}
