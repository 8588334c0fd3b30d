package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// programs is the path of each major version on Debian.
const programs = "/usr/lib/postgresql/*/bin"

// settings differ from the defaults where any guide to PostgreSQL would change them for
// this machine, always in its favour: more memory, rarer checkpoints. The settings that
// make a commit durable have their default values and are listed so that nobody has to
// look them up.
var settings = []string{
	"listen_addresses=",
	"shared_buffers=1GB",
	"max_connections=300",
	"max_wal_size=4GB",
	"checkpoint_timeout=15min",
	"synchronous_commit=on",
	"fsync=on",
}

const (
	// startPatience includes recovery after a kill.
	startPatience = 2 * time.Minute
	stopPatience  = time.Minute
)

// cluster is one PostgreSQL server with its data in our directory and its socket in a
// temporary one.
type cluster struct {
	bin, data, socket string
	// as is the user of the server: PostgreSQL refuses to run as root.
	as     *syscall.Credential
	server *exec.Cmd
	// log is the file with the server's output.
	log string
	// exited receives the error with which the server ended, and is closed then.
	exited chan error
}

// startCluster creates the database on first use, starts it and waits until it answers.
func startCluster(ctx context.Context, dir string) (*cluster, error) {
	c := &cluster{exited: make(chan error, 1)}
	found, _ := filepath.Glob(programs + "/postgres")
	if len(found) == 0 {
		return nil, errors.New("no PostgreSQL under " + programs + ": apt-get install postgresql")
	}
	c.bin = filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return major(a) - major(b) }))
	if err := c.choosePlaces(dir); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(c.data, "PG_VERSION")); errors.Is(err, fs.ErrNotExist) {
		if err := c.initialize(ctx); err != nil {
			return nil, errors.Join(err, os.RemoveAll(c.socket))
		}
	}
	if err := c.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.socket))
	}
	if err := c.wait(ctx); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// major reads 15 in /usr/lib/postgresql/15/bin/postgres.
func major(program string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(program))))
	return n
}

// choosePlaces chooses the user of the server and creates folders for that user's data
// and socket.
func (c *cluster) choosePlaces(dir string) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if c.as, err = debianUser(); err != nil {
			return err
		}
	}
	c.data, c.log = filepath.Join(dir, "cluster"), filepath.Join(dir, "postgres.log")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := c.own(c.data); err != nil {
		return err
	}
	if err := c.reaches(c.data); err != nil {
		return err
	}
	// The path of a socket may have at most 107 bytes, so the socket cannot be below an
	// arbitrary --dir.
	if c.socket, err = os.MkdirTemp("", "bench-postgres-"); err != nil {
		return err
	}
	if err := c.own(c.socket); err != nil {
		return err
	}
	return c.reaches(c.socket)
}

// debianUser returns the user as whom Debian's package runs PostgreSQL.
func debianUser() (*syscall.Credential, error) {
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, errors.New("PostgreSQL does not run as root and there is no user postgres: apt-get install postgresql")
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func (c *cluster) own(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil || c.as == nil {
		return err
	}
	return os.Chown(folder, int(c.as.Uid), int(c.as.Gid))
}

// reaches checks, as that user, whether the folder can be entered: a parent of it may be
// closed to others, as /root is.
func (c *cluster) reaches(folder string) error {
	if c.as == nil {
		return nil
	}
	probe := c.command(context.Background(), "/bin/sh", "-c", `cd "$0"`, folder)
	probe.Dir = "/"
	if probe.Run() == nil {
		return nil
	}
	return fmt.Errorf("the user postgres cannot enter %s: choose --dir (or TMPDIR) so that others may pass all its parents (chmod o+x), such as below /var/tmp", folder)
}

func (c *cluster) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, program, args...)
	command.Dir, command.Env = c.data, []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}
	// If the parent is killed, the database is killed at once: that is the crash. Its own
	// process group keeps interrupts of the terminal away from it; we stop it in an
	// orderly way.
	command.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	return command
}

// initialize creates an empty database with the defaults of its version.
func (c *cluster) initialize(ctx context.Context) error {
	said, err := c.command(ctx, filepath.Join(c.bin, "initdb"), "-D", c.data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, bytes.TrimSpace(said))
	}
	return nil
}

// start runs the server as our child, without pg_ctl, whose server would not be our
// child.
func (c *cluster) start() error {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", c.data, "-k", c.socket}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	c.server = c.command(context.Background(), filepath.Join(c.bin, "postgres"), args...)
	c.server.Stdout, c.server.Stderr = log, log
	started := make(chan error)
	go func() {
		// The kernel regards the thread that started the child as its parent, so this
		// thread must live as long as the child.
		runtime.LockOSThread()
		err := c.server.Start()
		started <- err
		if err == nil {
			c.exited <- c.server.Wait()
			close(c.exited)
		}
	}()
	return <-started
}

// address returns the connection string for the socket.
func (c *cluster) address() string {
	return "host=" + c.socket + " user=postgres dbname=postgres sslmode=disable"
}

func (c *cluster) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, c.address())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case gone := <-c.exited:
			return fmt.Errorf("the database did not start, %s says why: %v", c.log, gone)
		case <-ctx.Done():
			return fmt.Errorf("the database did not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop requests a fast shutdown, which writes a checkpoint and closes connections.
func (c *cluster) stop() error {
	defer os.RemoveAll(c.socket)
	c.server.Process.Signal(syscall.SIGINT)
	select {
	case err := <-c.exited:
		return err
	case <-time.After(stopPatience):
		return errors.Join(errors.New("the database does not stop"), c.server.Process.Kill())
	}
}
