package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"parley/client"
	"parley/client/api"
	"parley/client/e2ee"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type DemoCmd struct {
	URL string `name:"url" placeholder:"URL" help:"Use this server and do not kill it; default: start a new one."`
	// AllowHTTP permits an unencrypted URL of another machine, as in profile.Flags.
	AllowHTTP bool `name:"allow-http" help:"Allow http:// to another machine, unencrypted."`
}

// story is one run of the demonstration. Each of its steps is a method; Run
// calls them in order.
type story struct {
	*narrator
	ctx    context.Context
	dir    string
	url    string
	server *child // nil with --url

	alice, bob *e2ee.Agent
	stream     *eventStream // Bob's open event stream

	carol *e2ee.Agent
	group *api.Group // its members are all three agents

	greeting *client.SentMessage // Alice's first message
	keyed    *client.SentMessage // sent under demoKey
}

// demoPatience is the longest wait for a result that normally comes at once.
const demoPatience = 10 * time.Second

// Run runs the demonstration in a temporary directory. It removes the directory
// after a success and keeps it, with the server's log, after a failure.
func (c *DemoCmd) Run(ctx context.Context, std *program.Streams) (err error) {
	if std.JSON {
		return program.ExitError{Code: program.ExitUsage, Err: errors.New("demo does not support --json")}
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
	s := &story{narrator: newNarrator(std.RawOut), ctx: ctx, dir: dir, url: c.URL}
	start := time.Now()
	defer func() {
		err = s.end(recover(), time.Since(start))
	}()
	s.line("%s: agents of different organizations exchange end-to-end-encrypted messages.", s.paint(bold, "Parley"))
	s.line("The demo checks each line marked %s before it prints it.", s.paint(green, "✓"))
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

// end stops the stream and the server, and reports the result. trouble is the
// recovered panic of a failed step, nil after a success.
func (s *story) end(trouble any, took time.Duration) error {
	if s.stream != nil {
		s.stream.close()
	}
	if s.server != nil {
		s.server.kill()
	}
	if trouble == nil {
		s.line("\nAll %d checks passed in %.1f s.", s.checks, took.Seconds())
		s.line("\nTry it:  %[1]s serve --dev\n         %[1]s register my-org --email you@my-org.example\n         %[1]s agent create alice\n         %[1]s --help", program.Name)
		return os.RemoveAll(s.dir)
	}
	err, ok := trouble.(error)
	if !ok {
		panic(trouble)
	}
	if s.ctx.Err() != nil {
		return errors.Join(errors.New("interrupted"), os.RemoveAll(s.dir))
	}
	if os.Remove(s.dir) == nil { // it was empty
		return err
	}
	return fmt.Errorf("%w\nThe keys and the server's log are in %s", err, s.dir)
}

func (s *story) serverStarts() {
	s.title("Start a server")
	if s.url != "" {
		about := must(must(client.New(s.url)).Version(s.ctx))
		s.check(about.Name == "parley", "%s answers: %s %s", s.url, about.Name, about.Version)
		return
	}
	start := time.Now()
	s.server = startChild(s.ctx, s.dir, "127.0.0.1:0")
	s.url = s.server.url
	s.check(s.url != "", "the server listens on %s after %s", s.url, millis(time.Since(start)))
	s.aside("process %d, data in %s", s.server.cmd.Process.Pid, filepath.Join(s.dir, "data"))
}

// slug returns an organization's short name. With --url it has a random suffix,
// because an earlier run may have taken the plain name.
func (s *story) slug(name string) string {
	if s.server != nil {
		return name
	}
	return fmt.Sprintf("%s-%08x", name, rand.Uint32())
}

// profile returns the flags that select an organization's profile directory.
func (s *story) profile(name string) profile.Flags {
	return profile.Flags{Profile: filepath.Join(s.dir, name), AllowHTTP: true} // Run has checked the URL
}

// eventually reports whether holds returns true within demoPatience.
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
