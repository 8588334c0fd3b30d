package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// broker does as much of a NATS server as one connection needs. It sends its greeting,
// then asks answer for the reply to each publication.
func broker(t testing.TB, answer func(subject, reply, payload string) string) *NATS {
	t.Helper()
	address := scripted(t, func(conn net.Conn, in *bufio.Reader) {
		io.WriteString(conn, "INFO {\"server_id\":\"fake\",\"headers\":true}\r\n")
		for {
			line, err := in.ReadString('\n')
			words := strings.Fields(line)
			switch {
			case err != nil:
				return
			case words[0] == "PING":
				io.WriteString(conn, "PONG\r\n")
			case words[0] == "PUB":
				size, _ := strconv.Atoi(words[3])
				payload := make([]byte, size+2)
				io.ReadFull(in, payload)
				io.WriteString(conn, answer(words[1], words[2], string(payload[:size])))
			}
		}
	})
	c, err := DialNATS(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func msg(subject, reply, payload string) string {
	return fmt.Sprintf("MSG %s 1 %s%d\r\n%s\r\n", subject, strings.TrimLeft(reply+" ", " "), len(payload), payload)
}

func status(subject, text string) string {
	top := "NATS/1.0 " + text + "\r\n\r\n"
	return fmt.Sprintf("HMSG %s 1 %d %d\r\n%s\r\n", subject, len(top), len(top), top)
}

func TestPublishWantsAnAcknowledgement(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(reply string) string
		code   int // of the expected JetStreamError; 0 for none, -1 for a broken connection
	}{
		"stored":          {func(r string) string { return msg(r, "", `{"stream":"INBOX","seq":17}`) }, 0},
		"stored, spaced":  {func(r string) string { return msg(r, "", `{"stream":"INBOX", "seq":17}`) }, 0},
		"after a ping":    {func(r string) string { return "PING\r\n+OK\r\n" + msg(r, "", `{"stream":"INBOX","seq":1}`) }, 0},
		"after another's": {func(r string) string { return msg(r+"0", "", "old") + msg(r, "", `{"stream":"INBOX","seq":1}`) }, 0},
		"refused": {func(r string) string {
			return msg(r, "", `{"error":{"code":400,"description":"full"},"stream":"INBOX","seq":0}`)
		}, 400},
		"no responders":   {func(r string) string { return status(r, "503") }, 503},
		"duplicate":       {func(r string) string { return msg(r, "", `{"stream":"INBOX","seq":1,"duplicate":true}`) }, -1},
		"no number":       {func(r string) string { return msg(r, "", `{"stream":"INBOX","seq":0}`) }, -1},
		"not an answer":   {func(r string) string { return msg(r, "", "+OK") }, -1},
		"complaint":       {func(string) string { return "-ERR 'Maximum Payload Violation'\r\n" }, -1},
		"wrong size":      {func(r string) string { return "MSG " + r + " 1 3\r\nabcdef\r\n" }, -1},
		"too large":       {func(r string) string { return "MSG " + r + " 1 99999999999\r\n" }, -1},
		"somebody else's": {func(r string) string { return "MSG " + r + " 2 3\r\nabc\r\n" }, -1},
		"head too long":   {func(r string) string { return "HMSG " + r + " 1 9 3\r\nabc\r\n" }, -1},
	} {
		t.Run(name, func(t *testing.T) {
			c := broker(t, func(_, reply, _ string) string { return test.answer(reply) })
			err := c.Publish("inbox.1", []byte("hello"))
			var refused *JetStreamError
			if is := errors.As(err, &refused); (err == nil) != (test.code == 0) || is != (test.code > 0) || is && refused.Code != test.code {
				t.Fatalf("got %v, want code %d", err, test.code)
			}
			if again := c.Publish("inbox.1", nil); test.code < 0 && again != err {
				t.Errorf("a broken connection then returned %v", again)
			}
		})
	}
}

func TestPublishSendsThePayload(t *testing.T) {
	var got []string
	c := broker(t, func(subject, reply, payload string) string {
		got = append(got, subject+" "+payload)
		return msg(reply, "", `{"stream":"INBOX","seq":1}`)
	})
	for _, payload := range []string{"", "two\r\nlines", strings.Repeat("x", 100_000)} {
		if err := c.Publish("inbox.7", []byte(payload)); err != nil {
			t.Fatal(err)
		}
		if want := "inbox.7 " + payload; got[len(got)-1] != want {
			t.Errorf("received %.40q, want %.40q", got[len(got)-1], want)
		}
	}
}

// TestPage: goes through the three requests of a page with different numbers of
// messages in the inbox.
func TestPage(t *testing.T) {
	for _, test := range []struct{ held, n, want int }{{0, 20, 0}, {7, 20, 7}, {20, 20, 20}, {50, 20, 20}} {
		var asked []string
		c := broker(t, func(subject, reply, _ string) string {
			words := strings.Split(subject, ".")
			asked = append(asked, strings.Join(words[2:4], "."))
			if words[3] != "MSG" {
				return msg(reply, "", `{"type":"done"}`)
			}
			if test.held == 0 {
				return status(reply, "404 No Messages")
			}
			out := msg("inbox.17", "$JS.ACK.INBOX.another.1.1.1.1.0", "not ours")
			for i := 1; i <= min(test.held, test.n); i++ {
				out += msg("inbox.17", fmt.Sprintf("$JS.ACK.INBOX.%s.1.%d.%d.1.%d", words[6], i, i, test.held-i), "hello")
			}
			return out + status(reply, "409 Consumer Deleted")
		})
		for range 2 {
			asked = nil
			came, err := c.Page("INBOX", "inbox.17", test.n)
			if err != nil || came != test.want {
				t.Errorf("%d held: got %d, %v", test.held, came, err)
			}
			if got := strings.Join(asked, " "); got != "CONSUMER.CREATE CONSUMER.MSG CONSUMER.DELETE" {
				t.Errorf("%d held: asked %s", test.held, got)
			}
		}
	}
}

func TestPageRefused(t *testing.T) {
	refusal := `{"error":{"code":404,"description":"stream not found"}}`
	c := broker(t, func(_, reply, _ string) string { return msg(reply, "", refusal) })
	var refused *JetStreamError
	if _, err := c.Page("INBOX", "inbox.1", 20); !errors.As(err, &refused) || refused.Description != "stream not found" {
		t.Errorf("got %v", err)
	}
	foreign := broker(t, func(subject, reply, _ string) string {
		if words := strings.Split(subject, "."); words[3] == "MSG" {
			return msg("inbox.2", "$JS.ACK.INBOX."+words[6]+".1.1.1.1.0", "hello")
		}
		return msg(reply, "", `{}`)
	})
	var malformed *MalformedError
	if _, err := foreign.Page("INBOX", "inbox.1", 20); !errors.As(err, &malformed) {
		t.Errorf("a message of another inbox: %v", err)
	}
}

func TestDirectPage(t *testing.T) {
	for _, held := range []int{0, 3, 20} {
		c := broker(t, func(subject, reply, payload string) string {
			if subject != "$JS.API.DIRECT.GET.INBOX" || payload != `{"seq":1,"next_by_subj":"inbox.17","batch":20}` {
				return "-ERR '" + subject + " " + payload + "'\r\n"
			}
			if held == 0 {
				return status(reply, "404 Message Not Found")
			}
			top := "NATS/1.0\r\nNats-Subject: inbox.17\r\n\r\n"
			return strings.Repeat(fmt.Sprintf("HMSG %s 1 %d %d\r\n%shello\r\n", reply, len(top), len(top)+5, top), held) + status(reply, "204 EOB")
		})
		if came, err := c.DirectPage("INBOX", "inbox.17", 20); err != nil || came != held {
			t.Errorf("%d held: got %d, %v", held, came, err)
		}
	}
}

func TestDialNATSWantsNATS(t *testing.T) {
	for _, greeting := range []string{"", "HTTP/1.1 400 Bad Request\r\n", "INFO {}\r\n-ERR 'Authorization Violation'\r\n"} {
		address := scripted(t, func(conn net.Conn, in *bufio.Reader) {
			// A server that sends its greeting waits for an answer before it closes.
			if io.WriteString(conn, greeting); greeting != "" {
				in.ReadString('\n')
			}
		})
		if c, err := DialNATS(t.Context(), address); err == nil {
			c.Close()
			t.Errorf("%q was accepted as NATS", greeting)
		}
	}
}

func TestPublishLosesPatience(t *testing.T) {
	c := broker(t, func(_, _, _ string) string { return "" })
	c.SetPatience(20 * time.Millisecond)
	if err := c.Publish("inbox.1", nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestPublishAllocatesNothing: the server allocates nothing either. It reads the reply
// subject in place, after "PUB inbox.17 ".
func TestPublishAllocatesNothing(t *testing.T) {
	address := scripted(t, func(conn net.Conn, in *bufio.Reader) {
		io.WriteString(conn, "INFO {}\r\n")
		var out []byte
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return
			}
			switch {
			case bytes.HasPrefix(line, []byte("PING")):
				io.WriteString(conn, "PONG\r\n")
			case bytes.HasPrefix(line, []byte("PUB ")):
				reply, _, _ := bytes.Cut(line[len("PUB inbox.17 "):], []byte{' '})
				out = append(append(out[:0], "MSG "...), reply...)
				out = append(out, " 1 27\r\n{\"stream\":\"INBOX\",\"seq\":17}\r\n"...)
				in.Discard(1002)
				conn.Write(out)
			}
		}
	})
	c, err := DialNATS(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	payload := bytes.Repeat([]byte("x"), 1000)
	if n := testing.AllocsPerRun(200, func() {
		if err := c.Publish("inbox.17", payload); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per message", n)
	}
}
