package orgs

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"parley/cmd/parley/blackbox/kit"
)

// slowExport begins an export of an agent's organization, of which it reads 20 KB a second.
func slowExport(t *testing.T, g *kit.Agent) {
	t.Helper()
	req, err := g.S.Request(g.Token, "GET", "/orgs/"+g.Org.ID+"/export", nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", req.URL.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("a slow export: %v %v", resp, err)
	}
	go func() {
		for err == nil {
			_, err = io.CopyN(io.Discard, resp.Body, 1000)
			time.Sleep(50 * time.Millisecond)
		}
	}()
}

// TestSlowExportsGiveWay: two organizations that read their exports slowly keep all places only while
// nobody else wants one. An export that gave way does not count.
func TestSlowExportsGiveWay(t *testing.T) {
	kit.OneServerOnly(t, "the places are those of one process")
	s := kit.Start(t)
	var writers []*kit.Agent
	payload := kit.B64(kit.RandomBytes(90_000))
	for range 3 {
		o := s.Org(t)
		g, to := o.Agent("writer"), o.Agent("reader")
		for range 40 {
			g.Send(to, obj{"encrypted_payload": payload})
		}
		writers = append(writers, g)
	}
	underWay := func() (n float64) {
		for _, g := range writers[:2] {
			n += g.Get("/org/quotas").Want(200).At("quotas.exports_per_hour.used").(float64)
		}
		return n
	}
	slowExport(t, writers[0])
	slowExport(t, writers[1])
	time.Sleep(6 * time.Second)
	if n := underWay(); n != 2 {
		t.Errorf("while nobody waited, %.0f of 2 slow exports were ended", 2-n)
	}
	began := time.Now()
	exportOf(t, writers[2])
	took, left := time.Since(began), underWay()
	if t.Logf("another export was wanted, and ended %v later; %.0f of 2 slow ones gave way", took, 2-left); left != 1 {
		t.Error("want one")
	}
}
