package view

import (
	"parley/actors/group"
	"parley/actors/record"
	"parley/client/api"
)

// Group returns a group as a caller sees it, without its handle.
func Group(v group.View) api.Group {
	out := api.Group{
		ID: v.ID, Name: v.Name, Description: OrNull(v.Description), EnrollmentPolicy: v.Policy.String(), Visibility: visibility(v.Public),
		Isolated: v.Isolated, VoteDurationHours: v.VoteHours, MemberCount: v.Members, MemberAgentIDs: v.MemberIDs, CreatedAt: api.At(v.CreatedAt()), Frozen: v.Frozen,
	}
	if id := v.Conversation; !id.Zero() {
		out.ConversationID = &id
	}
	if out.MLSEnabled = v.Epoch > 0; out.MLSEnabled {
		out.MLSPending = v.MLSPending
		out.MLSGroupID, out.MLSCipherSuite = new(v.ID.String()), new(int(v.Suite))
	}
	return out
}

func visibility(public bool) string {
	if public {
		return api.PublicGroups
	}
	return api.PrivateGroups
}

// JoinRequest returns a request of a group as its viewer sees it, without the group's handle.
// // spec: Join request
func JoinRequest(g group.Info, v group.RequestView) api.JoinRequest {
	r := v.Request
	out := api.JoinRequest{
		ID: r.RequestID(), GroupID: g.ID, GroupName: new(g.Name), AgentID: r.AgentID(), Status: r.GetStatus().String(),
		Message: OrNull(r.GetMessage()), CreatedAt: Millis(r.GetCreatedMs()), Reason: OrNull(r.GetReason()),
		YouMayVote: v.MayVote, YouMayVoteReason: v.MayVoteReason, YourVote: OrNull(v.Vote),
	}
	if r.Nomination() {
		out.InvitedBy = new(r.Inviter())
	}
	if r.GetExpiresMs() != 0 {
		out.ExpiresAt = new(Millis(r.GetExpiresMs()))
	}
	if r.GetResolvedMs() != 0 {
		out.ResolvedAt = new(Millis(r.GetResolvedMs()))
	}
	if v.Expired {
		// It ended then, even if that was noticed later.
		out.Status, out.ResolvedAt = group.Expired.String(), out.ExpiresAt
	}
	if r.GetTotal() > 0 {
		out.ElectorateSize, out.QuorumTotalMembers = new(int(r.GetElectorate())), new(int(r.GetTotal()))
		out.Approvals, out.Denials = new(int(r.GetApprovals())), new(int(r.GetDenials()))
		out.ApprovalsNeeded, out.DenialsNeeded = new(r.ApprovalsNeeded()), new(r.DenialsNeeded())
	}
	return out
}

// Profile returns what anyone may see of a public group.
func Profile(g *record.PublicGroup, handle string) api.GroupProfile {
	return api.GroupProfile{
		ID: g.GroupID(), Name: g.GetName(), Handle: handle, OrgID: g.Owner(), Description: OrNull(g.GetDescription()),
		EnrollmentPolicy: g.GetPolicy(), VoteDurationHours: int(g.GetVoteHours()), MemberCount: int(g.GetMembers()),
		CreatedAt: Millis(g.GetCreatedMs()), MLSEnabled: g.GetMls(),
	}
}
