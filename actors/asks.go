package actors

import (
	"slices"

	"parley/actors/agent"
	"parley/actors/conversation"
	"parley/actors/delivery"
	"parley/actors/group"
	"parley/actors/host"
	"parley/actors/issuer"
	"parley/actors/keylog"
	"parley/actors/operator"
	"parley/actors/org"
	"parley/actors/record"
	"parley/client/parley"
	"parley/journal"
)

// AskTypes returns a sample of each type that an actor is asked or answers, and of each that
// a field of an interface type has in one of them. All are data that could cross a network.
// An error is nil or a *parley.Refusal.
func AskTypes() []any {
	return slices.Concat(delivery.AskTypes(), groupAskTypes(), operatorAskTypes(), []any{
		host.GetState{},
		host.TimerDue{},
		// Organizations.
		org.Change{},
		org.GrantTier{},
		org.SetAllowance{},
		org.LiftAllowance{},
		org.ConfirmEmail{},
		org.Suspend{},
		org.Resume{},
		org.Hold{},
		org.Release{},
		org.AddCredential{},
		org.RevokeCredential{},
		org.ProveWorkload{},
		(*org.State)(nil),
		NewAgent{},
		journal.PutRow{},
		foundGroup{},
		GroupMade{},
		beginErasure{},
		(*record.Report)(nil),
		closeReport{},
		// Agents.
		agent.Change{},
		agent.RotateKeys{},
		agent.BindKeys{},
		agent.RetireKey{},
		agent.SetPQKey{},
		agent.RemovePQKey{},
		agent.IssuePollToken{},
		agent.RevokePollToken{},
		agent.SetBlock{},
		agent.EndBlock{},
		agent.WithdrawCard{},
		agent.Revoke{},
		loggedChange{},
		agent.Logged{},
		(*agent.State)(nil),
		publishCard{},
		PublishedCard{},
		storeKeyPackages{},
		StoredKeyPackages{},
		claimKeyPackage{},
		ClaimedKeyPackage{},
		TaskClaim{},
		TaskHold{},
		releaseTask{},
		false,
		// Messages.
		DirectSend{},
		GroupSend{},
		ReplyTo{},
		Posted{},
		ChangeStatus{},
		(*conversation.State)(nil),
		// Keys.
		issuer.Mint{},
		(*issuer.State)(nil), (*keylog.State)(nil),
	})
}

func groupAskTypes() []any {
	return []any{
		group.GetView{},
		group.View{},
		group.GetFate{}, // asked of the new leader if another node leads before a seat is taken
		group.Fate{},
		group.ListMembers{},
		[]group.Member{},
		group.ListRequests{},
		group.RequestList{},
		joining{},
		Joined{},
		Invitation{},
		(*group.Request)(nil),
		group.CastVote{},
		Voted{},
		group.EndRequest{},
		group.Change{},
		group.ChangeRole{},
		appointing{},
		group.Member{},
		group.Remove{},
		[]parley.Seat{},
		group.Delete{},
		[]parley.AgentID{},
		MLSCommit{},
		MLSCommitted{},
		mlsAcknowledgment{},
	}
}

func operatorAskTypes() []any {
	return []any{
		operator.AddToken{},
		operator.RevokeToken{},
		operator.AddRegistration{},
		operator.RevokeRegistration{},
		operator.UseRegistration{},
		operator.ReturnRegistration{},
		(*operator.State)(nil),
		(*operator.Registration)(nil),
	}
}
