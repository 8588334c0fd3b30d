// Command parley is the whole service in one binary: the server, a client for
// its command line, and a demonstration that needs neither preparation nor
// network.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"

	"parley/cmd/parley/cli"
	"parley/cmd/parley/cli/a2a"
	"parley/cmd/parley/cli/credential"
	"parley/cmd/parley/cli/directory"
	"parley/cmd/parley/cli/webhook"
	"parley/cmd/parley/datadir"
	"parley/cmd/parley/demo"
	"parley/cmd/parley/operator"
	"parley/cmd/parley/program"
	"parley/cmd/parley/server"
)

// commands is the command line, in the order in which help lists it.
type commands struct {
	JSON bool `name:"json" help:"Print JSON: one value, or one per line for continuous output."`

	Demo  demo.DemoCmd    `cmd:"" help:"See two agents exchange messages while the server is killed and restarted. Needs no setup."`
	Serve server.ServeCmd `cmd:"" help:"Run the service."`

	Register     cli.RegisterCmd          `cmd:"" help:"Register an organization by proof of work and keep its credentials."`
	Key          keyCmd                   `cmd:"" help:"Show an agent's keys, bindings and pins; retire, restore and rotate keys."`
	VerifyKeys   cli.VerifyKeysCmd        `cmd:"" help:"Compare an agent's keys with its WebFinger and DID documents, and show its five verification words."`
	Erase        cli.EraseCmd             `cmd:"" help:"Erase the profile's organization and everything that belongs to it, for good."`
	Credential   credential.CredentialCmd `cmd:"" help:"Create, list and revoke credentials, also ones that are good for some agents or for reading only."`
	Agent        cli.AgentCmd             `cmd:"" help:"Create, list and show agents and their keys."`
	Card         directory.CardCmd        `cmd:"" help:"Publish, show and delete the cards by which agents are found."`
	Directory    directory.DirectoryCmd   `cmd:"" help:"Find agents of all organizations by their cards."`
	Send         cli.SendCmd              `cmd:"" help:"Encrypt, sign and send a message."`
	Reply        cli.ReplyCmd             `cmd:"" help:"Encrypt, sign and send a reply."`
	Inbox        cli.InboxCmd             `cmd:"" help:"List an agent's messages, newest first, decrypted and verified."`
	Watch        cli.WatchCmd             `cmd:"" help:"Follow an agent's event stream; reconnects after a disconnect."`
	Ack          cli.AckCmd               `cmd:"" help:"Mark messages of an agent's inbox as read."`
	Trace        cli.TraceCmd             `cmd:"" help:"Show the delivery attempts of a message, and why it is not delivered yet."`
	Receipt      cli.ReceiptCmd           `cmd:"" help:"Get the server's signed proof that it accepted a message, and check such proofs."`
	Block        cli.BlockCmd             `cmd:"" help:"Keep agents and organizations from reaching an agent."`
	Conversation cli.ConversationCmd      `cmd:"" help:"List and show conversations and transcripts, change a conversation's status."`
	Webhook      webhook.WebhookCmd       `cmd:"" help:"Deliver an agent's events to a URL, list and retry deliveries, receive them on this machine."`
	A2A          a2a.A2ACmd               `cmd:"" name:"a2a" help:"Write to agents over the A2A bridge, and answer their tasks."`
	Export       cli.ExportCmd            `cmd:"" help:"Write everything that belongs to the organization to a file, and check that it is complete."`
	Group        cli.GroupCmd             `cmd:"" help:"Create groups, invite, join, vote, send an encrypted message to all members."`

	Org          operator.OrgCmd          `cmd:"" help:"List and suspend organizations, set their tiers and limits; for the operator of a running server."`
	Operator     operator.OperatorCmd     `cmd:"" help:"Create, list and revoke the tokens of those who operate a server."`
	Registration operator.RegistrationCmd `cmd:"" help:"Create, list and revoke the tokens that --registration token asks for; for the operator of a running server."`
	Report       operator.ReportCmd       `cmd:"" help:"List and close what organizations reported; for the operator of a running server."`

	Backup  operator.BackupCmd  `cmd:"" help:"Write, list, check and prune snapshots of a server's data, running or not."`
	Restore operator.RestoreCmd `cmd:"" help:"Restore a snapshot into a new data directory."`
	Verify  operator.VerifyCmd  `cmd:"" help:"Check the data directory of a stopped server for damage and inconsistencies."`

	Cluster operator.ClusterCmd `cmd:"" help:"Begin a cluster of nodes, let nodes join and leave, and see how they are; for the operator."`

	Quarantine operator.QuarantineCmd `cmd:"" help:"List and drop stored effects that could not be decoded, in the data directory of a stopped server."`

	Bench benchCmd `cmd:"" passthrough:"" help:"Measure a server and comparable systems with parley-bench; bench --help lists the scenarios. make build builds it."`

	Config     server.ConfigCmd `cmd:"" help:"Print the effective settings of serve and where each came from."`
	Version    versionCmd       `cmd:"" help:"Print the version."`
	Completion completionCmd    `cmd:"" help:"Print a completion script for bash, zsh or fish."`
	Complete   completeCmd      `cmd:"" name:"__complete" hidden:""`
}

type keyCmd struct {
	Show    cli.KeyShowCmd        `cmd:"" help:"Show an agent's keys and their binding, and whether this profile has pinned them."`
	Retire  cli.KeyRetireCmd      `cmd:"" help:"Retire a former key of one of the organization's agents: signatures made with it from now on do not verify."`
	Rotate  operator.KeyRotateCmd `cmd:"" help:"Replace the key with which the server signs access tokens (or cards, or receipts); for its operator. To replace an agent's keys, use agent rotate-keys."`
	Restore cli.KeyRestoreCmd     `cmd:"" help:"Publish an agent's own keys again after somebody else has replaced them."`
}

const description = `Parley: agents of different organizations exchange sealed messages, durably and live.

Exit codes: 0 done, 1 unexpected, 2 usage, 3 refused by the server, 4 not authenticated or not allowed,
5 not found or gone, 6 conflict, 7 server unavailable, overloaded or rate limited, 8 network, 9 timed out,
10 the keys of an agent are not the ones to be trusted (see --accept-key and "parley key show").`

func main() {
	datadir.KeepFilesPrivate()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, stop, os.Args[1:], &program.Streams{In: os.Stdin, RawOut: os.Stdout, RawErr: os.Stderr}))
}

// run is one execution of the program and gives its exit code. stop makes the
// next signal deadly again.
func run(ctx context.Context, stop func(), args []string, std *program.Streams) int {
	context.AfterFunc(ctx, stop)
	var chosen commands
	code, left := 0, false
	args = usual(args)
	parser, err := newParser(&chosen, std, func(c int) { code, left = c, true })
	if err != nil {
		return std.Fail(err)
	}
	selected, err := parser.Parse(args)
	if left { // --help has said everything
		return code
	}
	std.JSON = chosen.JSON || err != nil && slices.Contains(args, "--json")
	if err != nil {
		return std.Fail(usageError(err))
	}
	selected.BindTo(ctx, (*context.Context)(nil))
	if err := selected.Run(std); err != nil {
		return std.Fail(explained(err, selected))
	}
	return 0
}

// usual reads the words that users of other programs try first: none at all and
// "help" for --help, "help send" for "send --help".
func usual(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case args[0] == "--version":
		return append([]string{"version"}, args[1:]...)
	}
	return withKids(args)
}

// dashedKid is a key's id that begins like a flag, as one of 64 does.
var dashedKid = regexp.MustCompile(`^-[A-Za-z0-9_-]{42}$`)

// withKids has such ids read as what they are: the value of --accept-key before
// them, or the last word of "key retire".
func withKids(args []string) []string {
	retire := len(args) > 1 && args[0] == "key" && args[1] == "retire" && !slices.Contains(args, "--")
	var read, last []string
	for i, arg := range args {
		switch {
		case !dashedKid.MatchString(arg):
			read = append(read, arg)
		case i > 0 && args[i-1] == "--accept-key":
			read[len(read)-1] += "=" + arg
		case retire:
			last = append(last, "--", arg)
		default:
			read = append(read, arg)
		}
	}
	return append(read, last...)
}

func newParser(chosen *commands, std *program.Streams, exit func(int)) (*kong.Kong, error) {
	return kong.New(chosen,
		kong.Name(program.Name),
		kong.Description(description),
		kong.Writers(std.RawOut, std.RawErr),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 110}),
	)
}

// usageError marks what kong says of a command line as the caller's to mend.
func usageError(err error) error {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if command := parse.Context.Selected(); command != nil {
			return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%w\nRun \"%s --help\" for usage", err, command.FullPath())}
		}
	}
	return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("%w\nRun \"%s\" for usage", err, program.Typed("--help"))}
}

// explained adds to an error what the command knows of its circumstances, such
// as which server and which profile it used.
func explained(err error, selected *kong.Context) error {
	if command := selected.Selected(); command != nil && command.Target.CanAddr() {
		if c, ok := command.Target.Addr().Interface().(interface{ Explain(error) error }); ok {
			return c.Explain(err)
		}
	}
	return err
}
