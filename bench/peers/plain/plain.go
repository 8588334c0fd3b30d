// Package plain is the HTTP server of peers that only store messages: it checks a cached token,
// decodes a message, has it stored and answers with it. Peers differ in their stores alone.
package plain

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fasthttp/router"
	gojson "github.com/goccy/go-json"
	"github.com/google/uuid"
	"github.com/valyala/fasthttp"
)

const (
	pageDefault = 20
	pageMax     = 100
)

// Store keeps messages.
type Store interface {
	// Put returns when a message is on the disk. body is its JSON.
	Put(id uuid.UUID, recipient int64, m *Message, body []byte) error
	// Page calls each with the newest messages of a recipient as JSON, the newest first.
	Page(recipient int64, limit int, each func(body []byte)) error
}

// Message is the stored, answered and listed form of a message.
type Message struct {
	ID                string          `json:"id"`
	ConversationID    string          `json:"conversation_id"`
	FromAgentID       string          `json:"from_agent_id"`
	ToAgentID         string          `json:"to_agent_id"`
	Type              string          `json:"type"`
	EncryptedPayload  string          `json:"encrypted_payload"`
	EncryptionVersion string          `json:"encryption_version"`
	Metadata          json.RawMessage `json:"metadata"`
	CreatedAt         time.Time       `json:"created_at"`
	ContentType       string          `json:"content_type"`
	Status            string          `json:"status"`
}

// Main runs a peer with the flags of the command line until SIGTERM.
func Main(name string, run func(ctx context.Context, listen, dir string) error) {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	dir := flag.String("dir", "", "directory of the store, kept from run to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	err := errors.New("--dir is missing")
	if *dir != "" {
		err = run(ctx, *listen, *dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Serve serves a store until ctx ends or something fails.
func Serve(ctx context.Context, listen, name, version string, store Store, failed <-chan error) error {
	tokens, token, err := newTokens()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	routes := router.New()
	routes.POST("/messages", tokens.guard(func(c *fasthttp.RequestCtx) { send(c, store) }))
	routes.GET("/agents/{agent}/messages", tokens.guard(func(c *fasthttp.RequestCtx) { inbox(c, store) }))
	server := &fasthttp.Server{Handler: routes.Handler, NoDefaultServerHeader: true, Concurrency: 1 << 20, CloseOnShutdown: true}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	// This line gives the bench the address and the token.
	json.NewEncoder(os.Stdout).Encode(map[string]string{
		"name": name, "version": version, "address": listener.Addr().String(), "token": token, "kind": "plain",
	})
	select {
	case err := <-ended:
		return err
	case err := <-failed:
		return fmt.Errorf("the store is gone: %v", err)
	case <-ctx.Done():
		return server.Shutdown()
	}
}

// send stores a message durably and answers 201 with it.
func send(c *fasthttp.RequestCtx, store Store) {
	var in struct {
		ToHandle          string          `json:"to_handle"`
		FromHandle        string          `json:"from_handle"`
		Type              string          `json:"type"`
		EncryptedPayload  string          `json:"encrypted_payload"`
		EncryptionVersion string          `json:"encryption_version"`
		Metadata          json.RawMessage `json:"metadata"`
		ContentType       string          `json:"content_type"`
	}
	err := gojson.Unmarshal(c.PostBody(), &in)
	recipient, known := recipientOf(in.ToHandle)
	if err != nil || in.Type == "" || !known {
		c.SetStatusCode(fasthttp.StatusUnprocessableEntity)
		return
	}
	id, err := uuid.NewV7()
	if err != nil {
		fail(c, err)
		return
	}
	m := Message{
		ID: id.String(), ConversationID: id.String(), FromAgentID: id.String(), ToAgentID: id.String(),
		Type: in.Type, EncryptedPayload: in.EncryptedPayload, EncryptionVersion: in.EncryptionVersion, Metadata: in.Metadata,
		CreatedAt: time.Now().UTC(), ContentType: in.ContentType, Status: "new",
	}
	body, err := gojson.MarshalNoEscape(&m)
	if err == nil {
		err = store.Put(id, recipient, &m, body)
	}
	if err != nil {
		fail(c, err)
		return
	}
	c.SetStatusCode(fasthttp.StatusCreated)
	c.SetContentType("application/json")
	c.Write(body)
}

// inbox answers with the newest messages of one agent.
func inbox(c *fasthttp.RequestCtx, store Store) {
	recipient, err := strconv.ParseInt(c.UserValue("agent").(string), 10, 64)
	limit := pageDefault
	if c.QueryArgs().Has("limit") {
		limit, _ = c.QueryArgs().GetUint("limit")
	}
	if err != nil || limit < 1 || limit > pageMax {
		c.SetStatusCode(fasthttp.StatusUnprocessableEntity)
		return
	}
	c.SetContentType("application/json")
	separator := `{"messages":[`
	err = store.Page(recipient, limit, func(body []byte) {
		c.WriteString(separator)
		c.Write(body)
		separator = ","
	})
	if err != nil {
		c.ResetBody()
		fail(c, err)
		return
	}
	if separator != "," {
		c.WriteString(separator)
	}
	c.WriteString(`],"next_cursor":null}`)
}

// recipientOf reads 17 in "worker-17@acme.example.org".
func recipientOf(handle string) (int64, bool) {
	name, _, _ := strings.Cut(handle, "@")
	number, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	return number, err == nil
}

func fail(c *fasthttp.RequestCtx, err error) {
	c.SetStatusCode(fasthttp.StatusInternalServerError)
	c.SetBodyString(err.Error())
}
