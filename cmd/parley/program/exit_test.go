package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"parley/client"
	"parley/client/e2ee"
	"parley/client/parley"
)

func TestExitCodes(t *testing.T) {
	refused := func(status int) error {
		return fmt.Errorf("keys: %w", &client.Error{Status: status, Code: "word", RequestID: "r1"})
	}
	for _, c := range []struct {
		err  error
		want int
	}{
		{errors.New("anything"), 1},
		{refused(500), 1},
		{context.Canceled, 1},
		{ExitError{Code: 2, Err: errors.New("usage")}, 2},
		{fmt.Errorf("seal: %w", e2ee.ErrPayloadTooLong), 2},
		{refused(400), 3},
		{refused(413), 3},
		{refused(422), 3},
		{refused(401), 4},
		{refused(403), 4},
		{client.ErrNoCredentials, 4},
		{refused(404), 5},
		{refused(410), 5},
		{refused(409), 6},
		{refused(429), 7},
		{refused(503), 7},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, 8},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), 8},
		{context.DeadlineExceeded, 9},
		{&net.DNSError{Err: "no such host"}, 8},
		{&net.OpError{Op: "listen", Err: syscall.EADDRINUSE}, 1},
		{fmt.Errorf("lock: %w", syscall.EAGAIN), 1},
	} {
		if got := ExitCode(c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}

// TestFailureAsJSON pins the format that scripts read from standard error.
func TestFailureAsJSON(t *testing.T) {
	var text strings.Builder
	std := &Streams{Err: &text, JSON: true}
	code := std.Fail(&client.Error{Status: 409, Code: "slug_taken", Detail: "Taken.", RequestID: "r1"})
	want := `{"error":"409 slug_taken: Taken. (request r1)","exit":6,"status":409,"code":"slug_taken","request_id":"r1"}` + "\n"
	if code != 6 || text.String() != want {
		t.Errorf("exit code %d, standard error %q, want %q", code, text.String(), want)
	}
}

// TestPrintable: text from other users cannot control the reader's terminal.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                    "plain",
		"two\nlines\tand tab":      "two\nlines\tand tab",
		"Grüße 你好 🙂":               "Grüße 你好 🙂",
		"\x1b[2Jgone":              "\uFFFD[2Jgone",
		"over\rwritten":            "over\uFFFDwritten",
		"right\u202eto left":       "right\uFFFDto left",
		"bell\a and delete \u007f": "bell\uFFFD and delete \uFFFD",
	} {
		if got := Printable(in); got != want {
			t.Errorf("printable(%q) is %q, want %q", in, got, want)
		}
	}
}

// TestChangedKeysHaveAnExitCode: a script can distinguish changed keys from other
// failures and read which keys it may accept.
func TestChangedKeysHaveAnExitCode(t *testing.T) {
	var out strings.Builder
	changed := &e2ee.KeyChangedError{Handle: "bob@globex.localhost", AgentID: parley.AgentID{1}, Problem: e2ee.KeysChanged, Accept: []string{"kid-1", "kid-2"}}
	code := (&Streams{Out: &out, Err: &out, JSON: true}).Fail(fmt.Errorf("send: %w", changed))
	var f failure
	if err := json.Unmarshal([]byte(out.String()), &f); err != nil || code != ExitKeys || f.Exit != ExitKeys || f.Code != "keys_changed" || fmt.Sprint(f.Accept) != "[kid-1 kid-2]" {
		t.Errorf("exit %d, %s", code, out.String())
	}
	if !strings.Contains(changed.Error(), "--accept-key kid-1 --accept-key kid-2") || ExitCode(errors.New("x")) != ExitUnexpected {
		t.Error(changed)
	}
}
