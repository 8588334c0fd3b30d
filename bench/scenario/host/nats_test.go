package host

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// broker does as much of a NATS server as one connection needs. It asks answer for what
// follows each publication.
func broker(t *testing.T, answer func(subject, reply, payload string) string) *NATSConn {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		in := bufio.NewReader(conn)
		_, _ = io.WriteString(conn, "INFO {\"server_id\":\"fake\",\"headers\":true,\"max_payload\":1000000}\r\n")
		numbers := map[string]string{} // of subscriptions, by the start of their subjects
		for {
			line, err := in.ReadString('\n')
			words := strings.Fields(line)
			switch {
			case err != nil:
				return
			case words[0] == "PING":
				_, _ = io.WriteString(conn, "PONG\r\n")
			case words[0] == "SUB":
				numbers[strings.TrimSuffix(words[1], "*")] = words[2]
			case words[0] == "PUB":
				size, _ := strconv.Atoi(words[3])
				payload := make([]byte, size+2)
				_, _ = io.ReadFull(in, payload)
				said := answer(words[1], words[2], string(payload[:size]))
				for start, number := range numbers {
					if strings.HasPrefix(words[2], start) {
						said = strings.ReplaceAll(said, " SID ", " "+number+" ")
					}
				}
				_, _ = io.WriteString(conn, said)
			}
		}
	}()
	c, err := DialNATS(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func natsAnswer(reply, head, payload string) string {
	if head == "" {
		return fmt.Sprintf("MSG %s SID %d\r\n%s\r\n", reply, len(payload), payload)
	}
	head = "NATS/1.0" + head + "\r\n\r\n"
	return fmt.Sprintf("HMSG %s SID %d %d\r\n%s%s\r\n", reply, len(head), len(head)+len(payload), head, payload)
}

func TestNATSSenderWantsAnAcknowledgement(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		stored bool
	}{
		"stored":    {`{"stream":"INBOX","seq":17}`, true},
		"refused":   {`{"error":{"code":400,"description":"full"},"stream":"INBOX","seq":0}`, false},
		"duplicate": {`{"stream":"INBOX","seq":1,"duplicate":true}`, false},
		"no number": {`{"stream":"INBOX","seq":0}`, false},
		"no answer": {"+OK", false},
	} {
		var got string
		conn := broker(t, func(subject, reply, payload string) string {
			got = subject + " " + payload
			return natsAnswer(reply, "", test.answer)
		})
		p := newPayloads(7, 64)
		c := &natsSender{NATSConn: conn, payloads: p, payload: make([]byte, 64)}
		if err := c.Send(3, Key{N: 5}); (err == nil) != test.stored {
			t.Errorf("%s: %v", name, err)
		}
		subject, payload, _ := strings.Cut(got, " ")
		if key, sound := p.Read([]byte(payload)); subject != "inbox.3" || !sound || key != (Key{N: 5}) {
			t.Errorf("%s: published %s", name, got)
		}
	}
}

func TestNATSPage(t *testing.T) {
	for name, test := range map[string]struct {
		held     int
		subject  string
		end      string
		refusing bool
	}{
		"empty":           {0, "inbox.17", " 404 Message Not Found", false},
		"three":           {3, "inbox.17", " 204 EOB", false},
		"full":            {20, "inbox.17", " 204 EOB", false},
		"another's":       {1, "inbox.18", " 204 EOB", true},
		"not direct here": {0, "inbox.17", " 503", true},
	} {
		conn := broker(t, func(subject, reply, payload string) string {
			if subject != "$JS.API.DIRECT.GET.INBOX" || payload != `{"seq":1,"next_by_subj":"inbox.17","batch":20}` {
				return "-ERR '" + subject + " " + payload + "'\r\n"
			}
			return strings.Repeat(natsAnswer(reply, "\r\nNats-Subject: "+test.subject, "hello"), test.held) + natsAnswer(reply, test.end, "")
		})
		if n, err := conn.page("inbox.17"); (err != nil) != test.refusing || err == nil && n != test.held {
			t.Errorf("%s: %d messages, %v", name, n, err)
		}
	}
}
