package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	gojson "github.com/goccy/go-json"
	"github.com/google/uuid"
	"github.com/valyala/fasthttp"
)

// Rows are m/<id> with the message as it is answered, and i/<recipient><sequence,
// inverted> with the id, so that the newest message of an inbox comes first.
const (
	messagePrefix = "m/"
	inboxPrefix   = "i/"
	pageDefault   = 20
	pageMax       = 100
)

// store is one Pebble database. Every commit is synced; Pebble groups concurrent commits
// into one fsync.
type store struct {
	db *pebble.DB
	// sequence orders inboxes. It starts at the clock, so that after a restart new
	// messages come first.
	sequence atomic.Uint64
}

func openStore(dir string) (*store, error) {
	options := &pebble.Options{
		MemTableSize: 64 << 20, MemTableStopWritesThreshold: 4, CacheSize: 256 << 20,
		FormatMajorVersion: pebble.FormatNewest, Logger: quiet{},
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(dir, options)
	if err != nil {
		return nil, err
	}
	s := &store{db: db}
	s.sequence.Store(uint64(time.Now().UnixNano()))
	return s, nil
}

func (s *store) Close() error { return s.db.Close() }

// quiet forwards the errors of Pebble and discards its other log lines.
type quiet struct{}

func (quiet) Infof(string, ...any) {}

func (quiet) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "floor: "+format+"\n", args...)
}

func (q quiet) Fatalf(format string, args ...any) {
	q.Errorf(format, args...)
	os.Exit(1)
}

// draft is the message in a request; message is the stored, answered and listed form.
type draft struct {
	ToHandle          string          `json:"to_handle"`
	FromHandle        string          `json:"from_handle"`
	Type              string          `json:"type"`
	EncryptedPayload  string          `json:"encrypted_payload"`
	EncryptionVersion string          `json:"encryption_version"`
	Metadata          json.RawMessage `json:"metadata"`
	ContentType       string          `json:"content_type"`
}

type message struct {
	ID                string          `json:"id"`
	ConversationID    string          `json:"conversation_id"`
	FromAgentID       string          `json:"from_agent_id"`
	ToAgentID         string          `json:"to_agent_id"`
	Type              string          `json:"type"`
	EncryptedPayload  string          `json:"encrypted_payload"`
	EncryptionVersion string          `json:"encryption_version"`
	Metadata          json.RawMessage `json:"metadata"`
	CreatedAt         string          `json:"created_at"`
	ContentType       string          `json:"content_type"`
	Status            string          `json:"status"`
}

// send stores a message durably and answers 201 with it.
func (s *store) send(c *fasthttp.RequestCtx) {
	var d draft
	if err := gojson.Unmarshal(c.PostBody(), &d); err != nil || d.Type == "" {
		c.SetStatusCode(fasthttp.StatusUnprocessableEntity)
		return
	}
	recipient, ok := recipientOf(d.ToHandle)
	if !ok {
		c.SetStatusCode(fasthttp.StatusUnprocessableEntity)
		return
	}
	id, err := uuid.NewV7()
	if err != nil {
		fail(c, err)
		return
	}
	body, err := gojson.MarshalNoEscape(&message{
		ID: id.String(), ConversationID: id.String(), FromAgentID: id.String(), ToAgentID: id.String(),
		Type: d.Type, EncryptedPayload: d.EncryptedPayload, EncryptionVersion: d.EncryptionVersion, Metadata: d.Metadata,
		CreatedAt: time.Now().UTC().Format(time.RFC3339Nano), ContentType: d.ContentType, Status: "new",
	})
	if err != nil {
		fail(c, err)
		return
	}
	if err := s.commit(id, recipient, body); err != nil {
		fail(c, err)
		return
	}
	c.SetStatusCode(fasthttp.StatusCreated)
	c.SetContentType("application/json")
	c.Write(body)
}

// commit returns when both rows are on the disk.
func (s *store) commit(id uuid.UUID, recipient uint64, body []byte) error {
	batch := s.db.NewBatch()
	defer batch.Close()
	if err := batch.Set(append([]byte(messagePrefix), id[:]...), body, nil); err != nil {
		return err
	}
	place := binary.BigEndian.AppendUint64(inboxOf(recipient), ^s.sequence.Add(1))
	if err := batch.Set(place, id[:], nil); err != nil {
		return err
	}
	return batch.Commit(pebble.Sync)
}

// inbox answers with the newest messages of one agent.
func (s *store) inbox(c *fasthttp.RequestCtx) {
	recipient, err := strconv.ParseUint(c.UserValue("agent").(string), 10, 63)
	limit := pageDefault
	if c.QueryArgs().Has("limit") {
		limit, _ = c.QueryArgs().GetUint("limit")
	}
	if err != nil || limit < 1 || limit > pageMax {
		c.SetStatusCode(fasthttp.StatusUnprocessableEntity)
		return
	}
	c.SetContentType("application/json")
	c.WriteString(`{"messages":[`)
	if err := s.page(c, recipient, limit); err != nil {
		c.ResetBody()
		fail(c, err)
		return
	}
	c.WriteString(`],"next_cursor":null}`)
}

func (s *store) page(c *fasthttp.RequestCtx, recipient uint64, limit int) (err error) {
	rows, err := s.db.NewIter(&pebble.IterOptions{LowerBound: inboxOf(recipient), UpperBound: inboxOf(recipient + 1)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	key := make([]byte, len(messagePrefix), len(messagePrefix)+len(uuid.UUID{}))
	copy(key, messagePrefix)
	for n, ok := 0, rows.First(); ok && n < limit; n, ok = n+1, rows.Next() {
		body, done, err := s.db.Get(append(key, rows.Value()...))
		if err != nil {
			return err
		}
		if n > 0 {
			c.WriteString(",")
		}
		c.Write(body)
		done.Close()
	}
	return rows.Error()
}

func inboxOf(recipient uint64) []byte {
	key := make([]byte, 0, len(inboxPrefix)+16)
	return binary.BigEndian.AppendUint64(append(key, inboxPrefix...), recipient)
}

// recipientOf reads 17 in "worker-17@acme.example.org".
func recipientOf(handle string) (uint64, bool) {
	name, _, _ := strings.Cut(handle, "@")
	number, err := strconv.ParseUint(name[strings.LastIndexByte(name, '-')+1:], 10, 63)
	return number, err == nil
}

func fail(c *fasthttp.RequestCtx, err error) {
	c.SetStatusCode(fasthttp.StatusInternalServerError)
	c.SetBodyString(err.Error())
}
