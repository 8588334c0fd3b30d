package nodes

import (
	"crypto/rand"
	"encoding/base64"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/blackbox/kit/recorded"
)

var nodesContent = flag.Int("nodes.content", 24, "how many MiB of messages the cluster has that a node joins in TestBlankNodeUnderLoad")

// TestBlankNodeUnderLoad has a blank node join a cluster that has content, while clients write and
// read: it gets everything, and the others go on.
func TestBlankNodeUnderLoad(t *testing.T) {
	t.Parallel()
	n := kit.StartNodes(t, 2)
	w := recorded.NewServer(t, n.Server(), 2, 6)
	readers := map[*kit.Agent]int{}
	for left := *nodesContent; left > 0; left -= 64 { // an inbox has so many pages as one test reads
		one, other := kit.Pair(t, n.Server())
		readers[other] = sendContent(t, one, other, min(left, 64)<<20)
	}
	var took time.Duration
	w.RunThrough(nil, recorded.ClientCounts{Writers: 12, Movers: 3, Readers: 3}, 500*time.Millisecond, func() {
		n.Patience = 3 * time.Minute
		began := time.Now()
		if err := n.Add(2); err != nil {
			t.Fatal(err)
		}
		took = time.Since(began)
	})
	t.Logf("a blank node shows %d MiB after %v", *nodesContent, took.Round(time.Millisecond))
	eventuallyStatus(t, n.Server(), "three voters", func(c clusterStatus) bool { return c.voters() == 3 })
	n.Ready(t)
	w.RepeatUnanswered()
	w.ReadAll(nil, true)
	w.Check()
	for reader, sent := range readers {
		if rows := reader.On(n.Node(2)).Everything(); len(rows) != sent {
			t.Errorf("the new node shows %d of %d messages", len(rows), sent)
		}
	}
}

// sendContent sends messages of random content of so many bytes in all, and returns how many.
func sendContent(t *testing.T, from, to *kit.Agent, size int) (sent int) {
	t.Helper()
	const each, writers = 96 << 10, 8
	sent = size/each + 1
	errs := kit.Concurrently(writers, func(i int) error {
		for at := i; at < sent; at += writers {
			content := make([]byte, each/4*3)
			_, _ = rand.Read(content)
			body, key := obj{"encrypted_payload": base64.RawURLEncoding.EncodeToString(content)}, uuid.NewString()
			a := from.TrySend(to, body, "Idempotency-Key", key)
			for tries := 0; a.Status == 503 && tries < 10; tries++ { // the machine may be busy
				a = from.TrySend(to, body, "Idempotency-Key", key)
			}
			if a.Status != 201 {
				return fmt.Errorf("%d %s", a.Status, a.Raw)
			}
		}
		return nil
	})
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return sent
}
