package bench

import (
	"bufio"
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
