package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// metricStreams is the name of the operator's metric for the number of open streams, with
// a space.
const metricStreams = "parley_streams_open "

// liveBytes makes a server collect its garbage and returns the bytes of its heap that are
// alive, and of its stacks.
func liveBytes(ctx context.Context, admin, token string) (bytes uint64, err error) {
	request, err := http.NewRequestWithContext(ctx, "GET", "http://"+admin+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	c := http.Client{Timeout: 30 * time.Second}
	answer, err := c.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("heap profile: %s", answer.Status)
	}
	found := 0
	lines := bufio.NewScanner(io.LimitReader(answer.Body, 64<<20))
	for lines.Scan() {
		for _, name := range []string{"# HeapAlloc = ", "# Stack = "} {
			text, ok := strings.CutPrefix(lines.Text(), name)
			if !ok {
				continue
			}
			text, _, _ = strings.Cut(text, " ")
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return 0, err
			}
			bytes += n
			found++
		}
	}
	if found != 2 {
		return 0, errors.New("heap profile: nothing about its size")
	}
	return bytes, lines.Err()
}

// openStreams reads the number of open streams from a server's admin address.
func openStreams(admin string) (n int, err error) {
	c := http.Client{Timeout: 5 * time.Second}
	answer, err := c.Get("http://" + admin + "/metrics")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("metrics: %s", answer.Status)
	}
	lines := bufio.NewScanner(io.LimitReader(answer.Body, 1<<20))
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), metricStreams); ok {
			value, err := strconv.ParseFloat(text, 64)
			return int(value), err
		}
	}
	return 0, errors.New("metrics: nothing about streams")
}
