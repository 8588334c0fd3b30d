package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"parley/client/api"
	"parley/client/deliveries"
	"parley/client/parley"
	"parley/cmd/parley/program"
)

type webhookListenCmd struct {
	watchedFlags
	Addr    string        `default:"127.0.0.1:0" help:"Address to receive on; port 0 selects a free port."`
	Secret  string        `env:"PARLEY_WEBHOOK_SECRET" placeholder:"SECRET" help:"Secret of an existing webhook with this target. Default: create a webhook for --agent and delete it at the end."`
	As      string        `placeholder:"URL" help:"URL under which the server reaches this address, such as a tunnel's; default: the address itself, which only a server with --dev accepts."`
	Event   []string      `placeholder:"NAME" help:"Events of the created webhook; default: message.received."`
	Once    bool          `help:"End after the first delivery; fail if its signatures are wrong."`
	Timeout time.Duration `placeholder:"DURATION" help:"With --once: fail unless a delivery arrives within this time."`
}

// deliveryBytesMax bounds the size of a delivery, far above that of a real one.
const deliveryBytesMax = 64 << 10

// errNoDelivery reports that no delivery arrived in time.
var errNoDelivery = program.ExitError{Code: program.ExitTimeout, Err: errors.New("no delivery arrived in time")}

// receivedDelivery is one line of `webhook listen --json`.
type receivedDelivery struct {
	// ID is the webhook-id, which is the id of the delivery job.
	ID string `json:"id"`
	// Verified reports whether both signatures and the age are valid. If not, Error says
	// why.
	Verified bool             `json:"verified"`
	Error    string           `json:"error,omitzero"`
	Payload  *api.HookPayload `json:"payload,omitzero"`
}

func (c *webhookListenCmd) Validate() error {
	if !parley.IsHostPort(c.Addr) {
		return fmt.Errorf("--addr: %q is not host:port", c.Addr)
	}
	if u, err := url.Parse(c.As); c.As != "" && (err != nil || !parley.Dialable(u)) {
		return errors.New("--as: not an address such as https://tunnel.example:8443/hook")
	}
	return nil
}

// Run receives deliveries until it is interrupted, which is how it normally ends.
func (c *webhookListenCmd) Run(ctx context.Context, std *program.Streams) (err error) {
	ln, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return program.ExitError{Code: program.ExitNetwork, Err: err}
	}
	defer func() { _ = ln.Close() }()
	ear := &deliveryReceiver{secret: c.Secret, brand: "svc", heard: make(chan receivedDelivery)}
	if c.Secret == "" {
		forget, created := c.create(ctx, std, ear, "http://"+ln.Addr().String()+"/")
		if created != nil {
			return created
		}
		defer func() { err = errors.Join(err, forget()) }()
	} else if a, _, err := c.Load(); err == nil {
		ear.brand = a.Brand
	}
	server := &http.Server{Handler: ear, ReadTimeout: 10 * time.Second}
	go func() { _ = server.Serve(ln) }() // ends with the listener
	defer func() { _ = server.Close() }()
	std.Note("listening on http://%s", ln.Addr())
	return c.follow(ctx, std, ear)
}

// create creates a webhook with the address here and returns a function that deletes it.
func (c *webhookListenCmd) create(ctx context.Context, std *program.Streams, ear *deliveryReceiver, here string) (forget func() error, err error) {
	agent, err := c.ProvideAgent(ctx)
	if err != nil {
		return nil, err
	}
	made, err := agent.Webhooks.Create(ctx, api.CreateWebhook{AgentID: agent.ID, URL: cmp.Or(c.As, here), Events: c.Event})
	if err != nil {
		return nil, err
	}
	ear.secret, ear.brand = made.Secret, agent.Brand()
	std.Note("made webhook %s of %s", made.ID, program.Text(agent.Handle))
	return func() error { // even if the command was interrupted
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return agent.Webhooks.Delete(ctx, made.ID)
	}, nil
}

func (c *webhookListenCmd) follow(ctx context.Context, std *program.Streams, ear *deliveryReceiver) error {
	var over <-chan time.Time
	if c.Once && c.Timeout > 0 {
		over = time.After(c.Timeout)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			return errNoDelivery
		case d := <-ear.heard:
			if err := tellDelivery(std, &d); err != nil {
				return err
			}
			if c.Once && !d.Verified {
				return program.ExitError{Code: program.ExitForbidden, Err: errors.New(d.Error)}
			}
			if c.Once {
				return nil
			}
		}
	}
}

func tellDelivery(std *program.Streams, d *receivedDelivery) error {
	switch {
	case std.JSON:
		return std.Value(d)
	case !d.Verified:
		return std.Say("rejected %s: %s", d.ID, d.Error)
	}
	line := fmt.Sprintf("%s  verified  %s", d.Payload.Event, program.Clock(d.Payload.Timestamp))
	if id := d.Payload.MessageID; id != nil {
		line += "  message " + id.String()
	}
	if id := d.Payload.ConversationID; id != nil {
		line += "  conversation " + id.String()
	}
	if id := d.Payload.GroupID; id != nil {
		line += "  group " + id.String()
	}
	return std.Say("%s", line)
}

// deliveryReceiver verifies and answers each delivery, and then passes it on.
type deliveryReceiver struct {
	secret string
	brand  string
	heard  chan receivedDelivery
}

func (e *deliveryReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, deliveryBytesMax))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	told := receivedDelivery{ID: r.Header.Get("Webhook-Id")}
	w.Header().Set("Content-Length", "0")
	d, err := deliveries.Open(e.secret, e.brand, r.Header, body, time.Now())
	if err != nil {
		told.Error = err.Error()
		w.WriteHeader(http.StatusUnauthorized)
	} else {
		told.Verified, told.Payload = true, &d.HookPayload
		w.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(w).Flush()
	select {
	case e.heard <- told:
	case <-r.Context().Done():
	}
}
