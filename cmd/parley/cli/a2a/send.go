package a2a

import (
	"context"
	"fmt"
	"strings"
	"time"

	"parley/client"
	"parley/client/parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

// A2ACmd holds the commands for the A2A bridge.
type A2ACmd struct {
	Echo a2aEchoCmd `cmd:"" help:"Answer the tasks of one agent: a responder to try an A2A client against."`
	Send a2aSendCmd `cmd:"" help:"Send a text to an agent over the A2A bridge, and show the task."`
}

// a2aWaitMax is the longest wait that the bridge allows.
const a2aWaitMax = 300 * time.Second

type a2aSendCmd struct {
	profile.Flags
	Agent   string        `short:"a" env:"PARLEY_AGENT" placeholder:"NAME" help:"Acting agent by name, handle or id; default: the organization's first active agent that is not the recipient."`
	To      string        `arg:"" help:"Recipient: handle; a bare name is an agent of the organization."`
	Text    string        `arg:"" optional:"" help:"Text to send, not encrypted; omitted or -: standard input."`
	Task    string        `placeholder:"ID" help:"Continue this task."`
	Context string        `placeholder:"ID" help:"Begin the task in this context."`
	Stream  bool          `help:"Print what happens to the task until it ends or waits for input."`
	Wait    time.Duration `default:"60s" placeholder:"DURATION" help:"Wait this long, 1s to 5m, for the reply. Without effect on --stream."`
	ID      string        `name:"message-id" placeholder:"ID" help:"Id of the message: a repeated send with the same id takes effect once; default: a random id."`
}

func (c *a2aSendCmd) Run(ctx context.Context, std *program.Streams) error {
	if c.Wait < time.Second || c.Wait > a2aWaitMax {
		return program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("--wait: %v is not between %v and %v", c.Wait, time.Second, a2aWaitMax)}
	}
	text, err := std.Payload(c.Text)
	if err != nil {
		return err
	}
	from, err := c.ProvideSession()
	if err != nil {
		return err
	}
	in := client.A2ASend{
		Handle: c.To, ActingAgent: c.Agent, MessageID: c.ID, TaskID: c.Task, ContextID: c.Context, Parts: client.A2AText(string(text)), Wait: c.Wait,
	}
	if parley.ValidAgentName(c.To) {
		own, err := profile.FindAgent(ctx, from, c.To)
		if err != nil {
			return err
		}
		in.Handle = program.Text(own.Handle)
	}
	if c.Stream {
		for event, err := range from.A2A.Stream(ctx, in) {
			if err == nil {
				err = tellEvent(std, event)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	answer, err := from.A2A.Send(ctx, in)
	if err != nil {
		return err
	}
	if answer.Message != nil {
		return tellMessage(std, answer.Message)
	}
	if err := tellTask(std, answer.Task); err != nil || answered(answer.Task) {
		return err
	}
	return program.ExitError{Code: program.ExitTimeout, Err: fmt.Errorf("no reply within %v; the task goes on", c.Wait)}
}

// answered reports whether a task has ended, waits for input, or shows a reply.
func answered(t *client.A2ATask) bool {
	for i := range t.History {
		if t.History[i].Role == "ROLE_AGENT" {
			return true
		}
	}
	return t.Status.Final()
}

// tellMessage prints a message that was answered instead of a task.
func tellMessage(std *program.Streams, m *client.A2AMessage) error {
	if std.JSON {
		return std.Value(m)
	}
	return std.Say("message  context %s\n%s", m.ContextID, indented(m.Text()))
}

// tellTask prints a task.
func tellTask(std *program.Streams, t *client.A2ATask) error {
	if std.JSON {
		return std.Value(t)
	}
	context := ""
	if t.ContextID != t.ID {
		context = "  context " + t.ContextID
	}
	lines := program.Format("task %s is %s%s", t.ID, stateWord(t.Status.State), context)
	for i := range t.Artifacts {
		lines.Add("%s", indented(t.Artifacts[i].Text()))
	}
	if t.Status.Message != nil {
		lines.Add("%s", indented(t.Status.Message.Text()))
	}
	return std.Say("%s", lines)
}

// tellEvent prints an event of a task's stream.
func tellEvent(std *program.Streams, e *client.A2AEvent) error {
	switch {
	case std.JSON:
		return std.Value(e)
	case e.Task != nil:
		return tellTask(std, e.Task)
	case e.ArtifactUpdate != nil:
		return std.Say("result\n%s", indented(e.ArtifactUpdate.Artifact.Text()))
	case e.StatusUpdate != nil:
		lines := program.Format("%s", stateWord(e.StatusUpdate.Status.State))
		if m := e.StatusUpdate.Status.Message; m != nil {
			lines.Add("%s", indented(m.Text()))
		}
		return std.Say("%s", lines)
	}
	return nil
}

// stateWord returns a state as it is read: input_required for TASK_STATE_INPUT_REQUIRED.
func stateWord(state string) string {
	return strings.ToLower(strings.TrimPrefix(state, "TASK_STATE_"))
}

func indented(text string) program.Printable {
	return program.Format("  %s", program.Paragraph(text, "  "))
}
