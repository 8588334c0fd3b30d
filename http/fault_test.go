package http

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdhttp "net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/valyala/fasthttp/fasthttputil"

	"parley/client/parley"
)

// badDisk is a disk that delays the syncs of the log, or refuses tables.
type badDisk struct {
	held    atomic.Pointer[chan struct{}]
	refuses atomic.Bool
}

func (d *badDisk) String() string { return "bad disk" }

func (d *badDisk) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData:
		if held := d.held.Load(); held != nil && strings.HasSuffix(op.Path, ".log") {
			<-*held
		}
	case errorfs.OpCreate:
		if d.refuses.Load() && strings.HasSuffix(op.Path, ".sst") {
			return errors.New("the disk refuses")
		}
	}
	return nil
}

// hold delays every sync until the returned function is called.
func (d *badDisk) hold() (release func()) {
	held := make(chan struct{})
	d.held.Store(&held)
	return func() { d.held.Store(nil); close(held) }
}

// reply is the answer to a request in the harness, with the time it took.
type reply struct {
	status int
	header stdhttp.Header
	body   map[string]any
	took   time.Duration
}

func (h *harness) request(token, method, path, body string, headers ...string) reply {
	conn, err := h.dial()
	if err != nil {
		h.t.Error(err)
		return reply{}
	}
	defer func() { _ = conn.Close() }()
	began := time.Now()
	text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: home\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nContent-Type: application/json\r\n",
		method, path, token, len(body))
	for i := 0; i < len(headers); i += 2 {
		text += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	if _, err := conn.Write([]byte(text + "\r\n" + body)); err != nil {
		h.t.Error(err)
		return reply{}
	}
	answer, err := stdhttp.ReadResponse(bufio.NewReader(conn), &stdhttp.Request{Method: method})
	if err != nil {
		h.t.Errorf("%s %s: %v", method, path, err)
		return reply{}
	}
	r := reply{status: answer.StatusCode, header: answer.Header, took: time.Since(began)}
	raw, err := io.ReadAll(answer.Body)
	if err == nil {
		err = json.Unmarshal(raw, &r.body)
	}
	if err != nil {
		h.t.Errorf("%s %s: %s: %v", method, path, raw, err)
	}
	return r
}

// shed checks for a 503 with the given code and an integer Retry-After, within the
// given time.
func (r reply) shed(t *testing.T, what, code string, within time.Duration) {
	t.Helper()
	after, err := strconv.Atoi(r.header.Get("Retry-After"))
	if r.status != 503 || r.body["code"] != code || err != nil || after < 1 || r.took > within {
		t.Errorf("%s: %d %v after %v, Retry-After %q; want 503 %s within %v", what, r.status, r.body, r.took, r.header.Get("Retry-After"), code, within)
	}
}

// health waits until /health has a status and returns how long that took.
func (h *harness) health(status int, within time.Duration) time.Duration {
	h.t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		r := h.request("", "GET", "/health", "")
		if r.status == status {
			if checks, _ := r.body["checks"].(map[string]any); status == 503 && !strings.Contains(fmt.Sprint(checks["journal"]), "disk") {
				h.t.Errorf("/health does not name the disk: %v", r.body)
			}
			return time.Since(began)
		}
		if time.Since(began) > within {
			h.t.Errorf("/health is %d after %v: %v", r.status, within, r.body)
			return within
		}
	}
}

func letter(from, to parley.AgentID, payload string) string {
	return fmt.Sprintf(`{"from_agent_id":%q,"to_agent_id":%q,"type":"svc.v1.dm","encrypted_payload":%q}`, from, to, payload)
}

// TestStalledDisk: delays the syncs of the log. /health reports it within a second, new
// requests that write are refused at once, those under way end in bounded time, and
// everything works again once the disk does.
func TestStalledDisk(t *testing.T) {
	theEngineClock()
	for _, journals := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d journals", journals), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := &badDisk{}
				ln := fasthttputil.NewInmemoryListener()
				h := newHarness(t, journals, ln, ln.Dial, func(o *harnessOptions) {
					o.Store.FS, o.Store.StallPatience = errorfs.Wrap(vfs.NewMem(), disk), 0
				})
				from, to := h.agent("from"), h.agent("to")
				token := h.token(h.client)
				act := []string{"X-Svc-Agent", from.String(), "Idempotency-Key", "one"}
				release := disk.hold()
				under := make(chan reply, 1)
				go func() { under <- h.request(token, "POST", "/messages", letter(from, to, "aGVsbG8"), act...) }()
				synctest.Wait()
				t.Logf("/health is 503 after %v", h.health(503, time.Second))
				for _, key := range []string{"two", "three"} {
					r := h.request(token, "POST", "/messages", letter(from, to, "aGVsbG8"), "X-Svc-Agent", from.String(), "Idempotency-Key", key)
					r.shed(t, "a new send", "overloaded", 50*time.Millisecond)
				}
				h.request(token, "GET", "/agents/"+to.String()+"/messages", "").shed(t, "a page of what is not stored", "overloaded", 6*time.Second)
				r := <-under
				r.shed(t, "the send under way", "outcome_unknown", 11*time.Second)
				t.Logf("the send under way ended after %v", r.took)
				release()
				t.Logf("/health is 200 after %v", h.health(200, time.Second))
				r = h.request(token, "POST", "/messages", letter(from, to, "aGVsbG8"), act...)
				if r.status != 200 {
					t.Errorf("a repeat of the send with its key is answered %d %v, want 200", r.status, r.body)
				}
				h.close()
				time.Sleep(time.Minute) // until the engine's sweeper ends
			})
		})
	}
}

// TestTablesCannotBeWritten: the storage engine cannot flush. Stored data can be read
// while writes are refused, and writes work again once the disk does.
func TestTablesCannotBeWritten(t *testing.T) {
	theEngineClock()
	synctest.Test(t, func(t *testing.T) {
		disk := &badDisk{}
		ln := fasthttputil.NewInmemoryListener()
		h := newHarness(t, 1, ln, ln.Dial, func(o *harnessOptions) {
			o.Store.FS, o.Store.MemTableBytes, o.Store.StallPatience = errorfs.Wrap(vfs.NewMem(), disk), 64<<10, 0
		})
		from, to := h.agent("from"), h.agent("to")
		token := h.token(h.client)
		page := "/agents/" + to.String() + "/messages"
		send := func(key string) reply {
			return h.request(token, "POST", "/messages", letter(from, to, strings.Repeat("A", 16<<10)), "X-Svc-Agent", from.String(), "Idempotency-Key", key)
		}
		send("first")
		disk.refuses.Store(true)
		stored, began := 1, time.Now()
		for n := 0; ; n++ {
			r := send(fmt.Sprint(n))
			if r.status == 503 {
				if r.took > time.Second { // it was under way when the fault began
					r.shed(t, "the send under way", "outcome_unknown", 11*time.Second)
					r = send("new")
				}
				r.shed(t, "a new send", "overloaded", 50*time.Millisecond)
				break
			}
			stored++
			if time.Since(began) > 15*time.Second {
				t.Fatalf("%d messages are accepted although no table can be written", stored)
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Logf("refusing stopped %v after it began, %d messages stored", time.Since(began), stored)
		h.health(503, time.Second)
		for range 3 {
			r := h.request(token, "GET", page+"?limit=100", "")
			items, _ := r.body["items"].([]any)
			if r.status != 200 || len(items) != stored || r.took > 100*time.Millisecond {
				t.Errorf("a page is answered %d with %d of %d messages after %v: %v", r.status, len(items), stored, r.took, r.body["code"])
			}
		}
		disk.refuses.Store(false)
		t.Logf("/health is 200 after %v", h.health(200, 3*time.Second))
		if r := send("last"); r.status != 201 {
			t.Errorf("once the disk works again, a send is answered %d %v", r.status, r.body)
		}
		h.close()
		time.Sleep(time.Minute) // until the engine's sweeper ends
	})
}
