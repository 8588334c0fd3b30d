package main

import (
	"context"

	gojson "github.com/goccy/go-json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"parley/bench/peers/plain"
)

// connections is the number of connections in the pool. On two cores, more of them would wait
// for each other.
const connections = 32

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

// Put implements plain.Store.
func (s *store) Put(id uuid.UUID, recipient int64, m *plain.Message, _ []byte) error {
	_, err := s.pool.Exec(context.Background(), insert, id, id, id, recipient, m.Type, m.EncryptedPayload, m.EncryptionVersion, m.Metadata, m.ContentType, m.CreatedAt)
	return err
}

// Page implements plain.Store.
func (s *store) Page(recipient int64, limit int, each func(body []byte)) error {
	rows, err := s.pool.Query(context.Background(), page, recipient, limit)
	if err != nil {
		return err
	}
	found, err := pgx.AppendRows(make([]plain.Message, 0, limit), rows, func(row pgx.CollectableRow) (m plain.Message, err error) {
		err = row.Scan(&m.ID, &m.ConversationID, &m.FromAgentID, &m.ToAgentID, &m.Type, &m.EncryptedPayload, &m.EncryptionVersion, &m.Metadata, &m.CreatedAt, &m.ContentType, &m.Status)
		return m, err
	})
	for i := range found {
		var body []byte
		if body, err = gojson.MarshalNoEscape(&found[i]); err != nil {
			break
		}
		each(body)
	}
	return err
}
