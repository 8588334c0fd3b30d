package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"parley"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
	"parley/http/api"
	"parley/http/client"
)

type DemoCmd struct {
	URL string `name:"url" placeholder:"URL" help:"Use this server, which is then not killed; default: one of its own."`
	// AllowHTTP is that of profileFlags.
	AllowHTTP bool `name:"allow-http" help:"Allow http:// to another machine, unencrypted."`
}

// story is the demonstration: two agents of two organizations, and a server
// that dies between them. Its methods are told in their order of appearance.
type story struct {
	*narrator
	ctx    context.Context
	dir    string
	url    string
	server *child // nil when the server is not ours

	alice, bob *client.Agent
	stream     *eventStream // bob's open stream

	carol *client.Agent
	group *api.Group // of the three

	greeting *client.SentMessage // alice's first words
	keyed    *client.SentMessage // sent under demoKey
}

// demoPatience is how long the demonstration waits for what should be
// immediate.
const demoPatience = 10 * time.Second

// Run tells the story in a directory that is removed if all went well and kept,
// for a look at the log, if not.
func (c *DemoCmd) Run(ctx context.Context, std *program.Streams) (err error) {
	if std.JSON {
		return program.ExitError{Code: program.ExitUsage, Err: errors.New("demo is for people: it has no --json")}
	}
	if c.URL != "" { // else it is a server of its own
		if err := profile.CheckTransport(c.URL, c.AllowHTTP); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "parley-demo-")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &story{narrator: newNarrator(std.Out), ctx: ctx, dir: dir, url: c.URL}
	start := time.Now()
	defer func() {
		err = s.end(recover(), time.Since(start))
	}()
	s.line("%s: agents of different organizations exchange sealed messages.", s.paint(bold, "Parley"))
	s.line("Every %s below was checked before it was printed.", s.paint(green, "✓"))
	s.serverStarts()
	s.organizationsRegister()
	s.agentsAppear()
	s.aliceWrites()
	s.bobReplies()
	s.aliceCalls()
	s.statusMoves()
	s.sendsTwice()
	s.groupVotes()
	s.groupBroadcasts()
	s.serverDies()
	return nil
}

// end closes the story, however it went.
func (s *story) end(trouble any, took time.Duration) error {
	if s.stream != nil {
		s.stream.close()
	}
	if s.server != nil {
		s.server.kill()
	}
	if trouble == nil {
		s.line("\n%d facts checked in %.1f s; all of them hold.", s.facts, took.Seconds())
		s.line("\nYour turn:  %[1]s serve --dev\n            %[1]s register my-org --email you@my-org.example\n            %[1]s agent create alice\n            %[1]s --help", program.Name)
		return os.RemoveAll(s.dir)
	}
	err, ok := trouble.(error)
	if !ok {
		panic(trouble)
	}
	if s.ctx.Err() != nil {
		return errors.Join(errors.New("interrupted"), os.RemoveAll(s.dir))
	}
	if os.Remove(s.dir) == nil { // nothing in it
		return err
	}
	return fmt.Errorf("%w\nThe keys and the server's log are kept in %s", err, s.dir)
}

func (s *story) serverStarts() {
	s.title("A server starts")
	if s.url != "" {
		c := must(client.New(s.url))
		about := must(c.Version(s.ctx))
		s.check(about.Name == "parley", "%s is there: %s %s", s.url, about.Name, about.Version)
		return
	}
	start := time.Now()
	s.server = must(startChild(s.ctx, s.dir, "127.0.0.1:0"))
	s.url = s.server.url
	s.check(s.url != "", "listening on %s after %s", s.url, millis(time.Since(start)))
	s.aside("process %d, data in %s", s.server.cmd.Process.Pid, filepath.Join(s.dir, "data"))
}

// slug is an organization's short name; on a server that others use it must
// not have been taken by an earlier demonstration.
func (s *story) slug(name string) string {
	if s.server != nil {
		return name
	}
	random := parley.RandomEntropy()
	return fmt.Sprintf("%s-%x", name, random[:4])
}

// profile is where an organization keeps its credentials and keys.
func (s *story) profile(name string) *profile.Flags {
	return &profile.Flags{Profile: filepath.Join(s.dir, name), AllowHTTP: true} // Run has judged the address
}

// eventually waits for something that follows by itself.
func (s *story) eventually(holds func() bool) bool {
	for deadline := time.Now().Add(demoPatience); ; time.Sleep(5 * time.Millisecond) {
		if holds() {
			return true
		}
		if time.Now().After(deadline) || s.ctx.Err() != nil {
			return false
		}
	}
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
