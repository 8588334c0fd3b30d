package main

import (
	"context"
	"encoding/base64"

	"github.com/rogpeppe/go-internal/testscript"

	"parley/client/api"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/http/mls/mlstest"
)

// mlsCommand is an MLS client of a profile's only agent: `mls begin PROFILE GROUP` makes the
// first commit, `mls enter PROFILE GROUP AGENT` joins from outside by the second, and
// `mls send PROFILE GROUP` broadcasts in the epoch after that.
func mlsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: mls begin|enter|send profile group [agent]")
	}
	from, _, err := (&profile.Flags{Profile: ts.MkAbs(args[1]), URL: ts.Getenv("PARLEY_URL")}).Open()
	ts.Check(err)
	id, err := parley.ParseID[parley.GroupID](args[2])
	ts.Check(err)
	text := base64.RawURLEncoding.EncodeToString
	commit := func(epoch uint64, external bool, added ...parley.AgentID) {
		_, err := from.MLS.Commit(context.Background(), api.CommitMLS{
			ID: id, Epoch: int64(epoch), Added: added,
			Commit:    text(mlstest.Commit{Group: args[2], Epoch: epoch, External: external}.Message()),
			GroupInfo: text(mlstest.GroupInfo{Group: args[2], Epoch: epoch + 1}.Message()),
		})
		ts.Check(err)
	}
	switch {
	case args[0] == "begin":
		commit(0, false)
	case args[0] == "enter" && len(args) == 4:
		agent, err := parley.ParseID[parley.AgentID](args[3])
		ts.Check(err)
		commit(1, true, agent)
	case args[0] == "send":
		group, err := from.Groups.Get(context.Background(), id)
		ts.Check(err)
		_, err = from.Messages.Send(context.Background(), api.Send{
			ToHandle: &group.Handle, Type: "svc.v1.dm", EncryptionVersion: api.SenderKeyV1, ContentType: "application/json",
			EncryptedPayload: text(mlstest.Application(args[2], 2)),
		})
		ts.Check(err)
	default:
		ts.Fatalf("unknown: mls %q", args)
	}
}
