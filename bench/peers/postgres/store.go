package main

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	gojson "github.com/goccy/go-json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valyala/fasthttp"
)

const (
	// connections is the number of connections in the pool. On two cores, more of them
	// would wait for each other.
	connections = 32
	pageDefault = 20
	pageMax     = 100
)

// schema has the same two rows as the floor: the message, and its place in an inbox,
// which is read backwards by key to get the newest first.
const schema = `
create table if not exists messages(
	id uuid primary key, conversation_id uuid not null, from_agent uuid not null, to_agent bigint not null,
	type text not null, payload text not null, encryption_version text, metadata jsonb, content_type text,
	created_at timestamptz not null);
create table if not exists inbox(
	agent bigint not null, created_at timestamptz not null, message_id uuid not null,
	status text not null default 'new', primary key(agent, created_at, message_id))`

// insert writes both rows in one statement: one transaction, one round trip, one flush of
// the log.
const insert = `
with m as (
	insert into messages values($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) returning id, to_agent, created_at)
insert into inbox(agent, created_at, message_id) select to_agent, created_at, id from m`

const page = `
select m.id::text, m.conversation_id::text, m.from_agent::text, m.to_agent::text, m.type, m.payload,
	coalesce(m.encryption_version, ''), m.metadata, m.created_at, coalesce(m.content_type, ''), i.status
from inbox i join messages m on m.id = i.message_id
where i.agent = $1 order by i.agent desc, i.created_at desc, i.message_id desc limit $2`

type store struct{ pool *pgxpool.Pool }

// openStore connects, creates the tables on first use and queries the version.
func openStore(ctx context.Context, address string) (*store, string, error) {
	settings, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, "", err
	}
	settings.MaxConns, settings.MinConns = connections, connections
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, "", err
	}
	version := ""
	if _, err = pool.Exec(ctx, schema); err == nil {
		err = pool.QueryRow(ctx, "show server_version").Scan(&version)
	}
	if err != nil {
		pool.Close()
		return nil, "", err
	}
	return &store{pool: pool}, version, nil
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
	CreatedAt         time.Time       `json:"created_at"`
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
	now := time.Now().UTC()
	if _, err := s.pool.Exec(context.Background(), insert, id, id, id, recipient, d.Type, d.EncryptedPayload, d.EncryptionVersion, d.Metadata, d.ContentType, now); err != nil {
		fail(c, err)
		return
	}
	answer(c, fasthttp.StatusCreated, &message{
		ID: id.String(), ConversationID: id.String(), FromAgentID: id.String(), ToAgentID: id.String(),
		Type: d.Type, EncryptedPayload: d.EncryptedPayload, EncryptionVersion: d.EncryptionVersion, Metadata: d.Metadata,
		CreatedAt: now, ContentType: d.ContentType, Status: "new",
	})
}

// inbox answers with the newest messages of one agent.
func (s *store) inbox(c *fasthttp.RequestCtx) {
	recipient, err := strconv.ParseInt(c.UserValue("agent").(string), 10, 64)
	limit := pageDefault
	if c.QueryArgs().Has("limit") {
		limit, _ = c.QueryArgs().GetUint("limit")
	}
	if err != nil || limit < 1 || limit > pageMax {
		c.SetStatusCode(fasthttp.StatusUnprocessableEntity)
		return
	}
	found, err := s.page(context.Background(), recipient, limit)
	if err != nil {
		fail(c, err)
		return
	}
	answer(c, fasthttp.StatusOK, map[string]any{"messages": found, "next_cursor": nil})
}

func answer(c *fasthttp.RequestCtx, status int, value any) {
	body, err := gojson.MarshalNoEscape(value)
	if err != nil {
		fail(c, err)
		return
	}
	c.SetStatusCode(status)
	c.SetContentType("application/json")
	c.Response.SetBodyRaw(body)
}

func (s *store) page(ctx context.Context, recipient int64, limit int) ([]message, error) {
	rows, err := s.pool.Query(ctx, page, recipient, limit)
	if err != nil {
		return nil, err
	}
	return pgx.AppendRows(make([]message, 0, limit), rows, func(row pgx.CollectableRow) (m message, err error) {
		err = row.Scan(&m.ID, &m.ConversationID, &m.FromAgentID, &m.ToAgentID, &m.Type, &m.EncryptedPayload, &m.EncryptionVersion, &m.Metadata, &m.CreatedAt, &m.ContentType, &m.Status)
		return m, err
	})
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
