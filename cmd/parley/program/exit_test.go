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
	"parley/client/api"
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
	std := &Streams{RawErr: &text, JSON: true}
	code := std.Fail(&client.Error{Status: 409, Code: "slug_taken", Detail: "Taken.", RequestID: "r1"})
	want := `{"error":"409 slug_taken: Taken. (request r1)","exit":6,"status":409,"code":"slug_taken","request_id":"r1"}` + "\n"
	if code != 6 || text.String() != want {
		t.Errorf("exit code %d, standard error %q, want %q", code, text.String(), want)
	}
}

// TestPrintable: text from other users cannot control the reader's terminal, nor begin a line.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                    "plain",
		"two\nlines\tand tab":      `two\u000alines\u0009and tab`,
		"Grüße 你好 🙂":               "Grüße 你好 🙂",
		"\x1b[2Jgone":              `\u001b[2Jgone`,
		"over\rwritten":            `over\u000dwritten`,
		"right\u202eto left":       `right\u202eto left`,
		"bell\a and delete \u007f": `bell\u0007 and delete \u007f`,
		"C1 \u009b, a tag \U000e0041, no UTF-8 \x9b": `C1 \u009b, a tag \udb40\udc41, no UTF-8 ` + "\uFFFD",
	} {
		if got := Format("%s", in).String(); got != want {
			t.Errorf("%q is written as %q, want %q", in, got, want)
		}
		if got := Format("%v", errors.New(in)).String(); got != want {
			t.Errorf("the error %q is written as %q, want %q", in, got, want)
		}
	}
	lines := Format("%d\n%-4s|", 1, "a\nb")
	lines.Add("  %s", Paragraph("one\n\x1btwo\n", "    "))
	if want := "1\na\\u000ab |\n  one\n    \\u001btwo"; lines.String() != want {
		t.Errorf("%q, want %q", lines, want)
	}
}

// TestStreamsAreVisible: every way of printing makes control characters visible, and JSON
// stays the same value.
func TestStreamsAreVisible(t *testing.T) {
	const bad = "a\x1b\u009b\u202e\r\nb\u2028\U000e0041\x7f"
	var text strings.Builder
	std := &Streams{RawOut: &text, RawErr: &text}
	_ = std.Say("%s", bad)
	std.Note("%q %v", bad, []string{bad})
	_ = std.Table([][]string{{bad, "x\ty"}})
	_, _ = io.WriteString(std.Log(), bad)
	std.Fail(errors.New(bad))
	std.JSON = true
	std.Fail(errors.New(bad))
	for _, r := range text.String() {
		if r != '\n' && api.Visible(string(r)) != string(r) {
			t.Errorf("%q in %q", r, text.String())
		}
	}
	text.Reset()
	raw := api.Object("{\n \"x\": \"\u009b\u202e\", \"y\":\t1}")
	if err := std.Value(map[string]any{"bad": bad, "raw": raw}); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Bad string
		Raw struct{ X string }
	}
	if err := json.Unmarshal([]byte(text.String()), &back); err != nil || back.Bad != bad || back.Raw.X != "\u009b\u202e" || strings.ContainsAny(text.String(), "\u009b\u202e\x7f\u2028") {
		t.Errorf("%v: %q", err, text.String())
	}
}

// TestChangedKeysHaveAnExitCode: a script can distinguish changed keys from other
// failures and read which keys it may accept.
func TestChangedKeysHaveAnExitCode(t *testing.T) {
	var out strings.Builder
	changed := &e2ee.KeyChangedError{Handle: "bob@globex.localhost", AgentID: parley.AgentID{1}, Problem: e2ee.KeysChanged, Accept: []string{"kid-1", "kid-2"}}
	code := (&Streams{RawOut: &out, RawErr: &out, JSON: true}).Fail(fmt.Errorf("send: %w", changed))
	var f failure
	if err := json.Unmarshal([]byte(out.String()), &f); err != nil || code != ExitKeys || f.Exit != ExitKeys || f.Code != "keys_changed" || fmt.Sprint(f.Accept) != "[kid-1 kid-2]" {
		t.Errorf("exit %d, %s", code, out.String())
	}
	if !strings.Contains(changed.Error(), "--accept-key kid-1 --accept-key kid-2") || ExitCode(errors.New("x")) != ExitUnexpected {
		t.Error(changed)
	}
}
