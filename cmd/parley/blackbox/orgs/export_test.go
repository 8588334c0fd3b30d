package orgs

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"parley/cmd/parley/blackbox/kit"
)

// export makes an export of an organization. Who reads the last byte of one may ask for the
// next before the server has ended the first: then it asks again.
func export(t *testing.T, o *kit.Org) (resp *http.Response, raw []byte) {
	t.Helper()
	kit.Eventually(t, "no export is under way", func() bool {
		req, err := o.S.Request(o.Token, "GET", "/orgs/"+o.ID+"/export", nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err = kit.Streaming.Do(req); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if raw, err = io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode != 429 || !bytes.Contains(raw, []byte("under way"))
	})
	if resp.StatusCode != 200 {
		t.Fatalf("export: %d %.300s", resp.StatusCode, raw)
	}
	return resp, raw
}

// exportOf makes an export of an agent's organization and returns its lines by type. It
// checks the trailers.
func exportOf(t *testing.T, g *kit.Agent) map[string][]obj {
	t.Helper()
	resp, raw := export(t, g.Org)
	sum, records := sha256.Sum256(raw), map[string][]obj{}
	for line := range bytes.Lines(raw) {
		l := struct {
			Type string
			Data obj
		}{}
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		records[l.Type] = append(records[l.Type], l.Data)
	}
	if got, want := resp.Trailer.Get("X-Svc-Export-Records"), strconv.Itoa(bytes.Count(raw, []byte("\n"))); got != want {
		t.Errorf("X-Svc-Export-Records is %q, want %q", got, want)
	}
	if got, want := resp.Trailer.Get("Repr-Digest"), "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":"; got != want {
		t.Errorf("Repr-Digest is %q, want %q", got, want)
	}
	return records
}

// exportChain sends messages one after the other, each when the one before it was
// acknowledged: by turns one of the organization begins a conversation, the other party
// replies, and the organization answers the reply.
type exportChain struct {
	ids  []string
	mu   sync.Mutex
	done atomic.Int64 // how many were acknowledged
}

func (x *exportChain) extend(t *testing.T, ours, theirs *kit.Agent) {
	reply := func(by *kit.Agent, to string) string {
		return by.Post("/messages/"+to+"/reply", obj{"type": "svc.v1.dm", "encrypted_payload": "QUJD"}).Want(201).Str("id")
	}
	first := kit.Text(ours.Send(theirs), "id")
	for _, id := range []func() string{func() string { return first }, func() string { first = reply(theirs, first); return first }, func() string { return reply(ours, first) }} {
		next := id()
		x.mu.Lock()
		x.ids = append(x.ids, next)
		x.mu.Unlock()
		x.done.Add(1)
	}
}

// TestExportWhileOthersWrite: an export has everything that was acknowledged before it
// began, and nothing without what came before it, whichever journals it is in.
func TestExportWhileOthersWrite(t *testing.T) {
	kit.Own(t, func(t *testing.T, journals string) {
		s := kit.Start(t, "--journals", journals, "--quota", "tier1.exports_per_hour=none")
		us, them := s.Org(t), s.Org(t)
		const chains, exports = 6, 5
		all := make([]*exportChain, chains)
		stop := make(chan struct{})
		var writers sync.WaitGroup
		first := us.Agent("a")
		for i := range all {
			ours, theirs := us.Agent(fmt.Sprint("a", i)), them.Agent(fmt.Sprint("b", i))
			all[i] = &exportChain{}
			all[i].extend(t, ours, theirs)
			writers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						all[i].extend(t, ours, theirs)
					}
				}
			})
		}
		for range exports {
			before := make([]int64, chains)
			for i, x := range all {
				before[i] = x.done.Load()
			}
			checkExport(t, exportOf(t, first), all, before)
		}
		close(stop)
		writers.Wait()
		for i, x := range all {
			if len(x.ids) < 6 {
				t.Errorf("chain %d has only %d messages: nothing was written during the exports", i, len(x.ids))
			}
		}
	})
}

// checkExport checks that an export has a beginning of each chain, and at least so many
// messages of it; and that it has what its records refer to.
func checkExport(t *testing.T, records map[string][]obj, chains []*exportChain, before []int64) {
	t.Helper()
	has := map[string]bool{}
	for _, kind := range []string{"message", "conversation", "agent"} {
		for _, r := range records[kind] {
			has[kit.Text(r, "id")] = true
		}
	}
	for i, x := range chains {
		x.mu.Lock()
		ids := x.ids
		x.mu.Unlock()
		end := 0
		for end < len(ids) && has[ids[end]] {
			end++
		}
		if int64(end) < before[i] {
			t.Errorf("chain %d: the export ends after %d messages, %d had been acknowledged when it began", i, end, before[i])
		}
		for n := end; n < len(ids); n++ {
			if has[ids[n]] {
				t.Errorf("chain %d: the export has message %d without message %d", i, n, end)
			}
		}
	}
	for _, m := range records["message"] {
		if !has[kit.Text(m, "conversation_id")] {
			t.Errorf("the export has message %s without its conversation", kit.Text(m, "id"))
		}
		if !has[kit.Text(m, "from_agent_id")] && !has[kit.Text(m, "to_agent_id")] {
			t.Errorf("message %s is of none of the organization's agents", kit.Text(m, "id"))
		}
	}
	if len(records["org"]) != 1 || len(records["user"]) != 1 || len(records["pow_challenge"]) != 1 {
		t.Errorf("the export has %d organizations, %d users, %d challenges", len(records["org"]), len(records["user"]), len(records["pow_challenge"]))
	}
	if solved := records["pow_challenge"]; len(solved) == 1 && (kit.Text(solved[0], "challenge_id") == "" || solved[0]["difficulty"] == nil) {
		t.Errorf("the proof of work of the registration: %v", solved[0])
	}
}
