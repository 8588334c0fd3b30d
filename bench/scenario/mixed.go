package scenario

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"

	"parley/bench/load"
	"parley/bench/wire"
)

// recent is how many of its last messages a client of Mixed uses again.
const recent = 16

// mixing is the client of Mixed. It acts as the sender and the recipients in turn, on one
// connection.
type mixing struct {
	*postCourier
	*reader
	choice *rand.Rand
	key    Key
	answer *replyRequest
	from   *agent
	sight  []byte
	at     int
	// last holds messages that it sent; count of them are set.
	last  [recent]opening
	count int
}

func (h *Host) prepareMixed(ctx context.Context) (load.Dial, error) {
	if err := h.fill(ctx); err != nil {
		return nil, err
	}
	run := h.nextRun()
	return func(ctx context.Context, worker int) (load.Client, error) {
		c, err := h.courier(ctx, worker)
		if err != nil {
			return nil, err
		}
		post := c.(*postCourier) // Parley's always is one
		m := &mixing{
			postCourier: post,
			reader:      &reader{conn: post.conn, payloads: h.payloads, agents: h.params.Agents, token: h.world.acme.token, workers: h.world.workers},
			choice:      h.choice(run, worker), key: Key{Run: run, Worker: uint32(worker)},
			answer: h.replyRequest(h.world.acme.token), from: h.world.planners[worker%len(h.world.planners)],
		}
		placeholder := strings.Repeat("0", 36)
		m.sight = wire.Request("GET", "/messages/"+placeholder, h.world.acme.token, nil, nil)
		m.at = bytes.Index(m.sight, []byte(placeholder))
		return m, nil
	}, nil
}

// Close implements load.Client.
func (m *mixing) Close() error { return m.postCourier.Close() }

// Do implements load.Client: 70 % send, 15 % inbox, 10 % reply, 5 % read.
func (m *mixing) Do(_ context.Context, n int, _ *load.Laps) error {
	m.key.N = uint32(n)
	dice := m.choice.IntN(100)
	switch {
	case dice < 70 || m.count == 0:
		return m.send()
	case dice < 85:
		_, err := m.newest(m.choice.IntN(m.reader.agents))
		return err
	case dice < 95:
		m.key.Part = answered
		to := m.last[m.choice.IntN(m.count)]
		_, err := m.reply(m.answer, to.id, m.key, m.from)
		return err
	default:
		return m.look(m.last[m.choice.IntN(m.count)])
	}
}

func (m *mixing) send() error {
	m.key.Part = question
	to := m.choice.IntN(m.reader.agents)
	before := len(m.book.entries)
	err := m.deliver(to, m.key)
	if err == nil && len(m.book.entries) > before {
		sent := opening{id: m.book.entries[before].id, to: m.reader.workers[to]}
		if m.count < recent {
			m.last[m.count] = sent
			m.count++
		} else {
			m.last[m.choice.IntN(recent)] = sent
		}
	}
	return err
}

// look reads one message that this client sent.
func (m *mixing) look(sent opening) error {
	sent.id.put(m.sight[m.at:])
	answer, err := m.postCourier.conn.Do(m.sight)
	if err != nil {
		return err
	}
	if answer.Status != 200 {
		err, _ := refusal(answer)
		return err
	}
	got, err := readMessage(answer.Body)
	if err != nil {
		return err
	}
	key, sound := m.reader.payloads.read(got.payload)
	switch {
	case got.id != sent.id:
		return wrong("another message than the one asked for")
	case !sound || key.Run != m.key.Run || key.Worker != m.key.Worker:
		return wrong("another payload than the one sent")
	}
	return nil
}
