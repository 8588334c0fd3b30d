package embed

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"parley/client/parley"
)

// RemoteOptions configure NewRemote. Zero values of bounds mean the defaults.
type RemoteOptions struct {
	// URL is the base of the endpoint, for instance https://api.openai.com/v1 or
	// http://localhost:11434/v1; texts go to URL/embeddings.
	URL   string
	Model string
	// Key is sent as a bearer token, unless it is empty.
	Key string
	Dim int
	// Threshold is the cosine below which texts have nothing in common, which depends on
	// the model.
	Threshold float32
	// Client makes the requests. It must not follow redirects to other hosts with the
	// key; nil is a client that follows none.
	Client *http.Client
	// Batch is how many texts one request carries, 64 by default; Timeout bounds one
	// request, 10 s by default; Tries is how often a request is made, 4 by default.
	Batch   int
	Timeout time.Duration
	Tries   int
	// Backoff is the pause before the second attempt, 250 ms by default. Each further
	// one is twice as long, at most 8 s; of each, a random half to whole is waited.
	Backoff time.Duration
	// Entropy randomizes pauses. It must not be nil.
	Entropy parley.Entropy
}

// ErrRemote is returned if the endpoint does not answer with vectors. The text of the
// error contains neither the key nor texts.
var ErrRemote = errors.New("embed: the endpoint gave no vectors")

const (
	backoffMax = 8 * time.Second
	// retryAfterMax bounds how long an endpoint can make a caller wait.
	retryAfterMax = 30 * time.Second
	// numberBytesMax is how long a number of an answer may be, with its separators.
	numberBytesMax = 40
	dimMax         = 1 << 14
)

// Remote asks an HTTP endpoint with the interface of OpenAI's POST /v1/embeddings.
type Remote struct{ o RemoteOptions }

// NewRemote returns a provider that asks an endpoint. The error says which option is
// wrong; no request is made.
func NewRemote(o RemoteOptions) (*Remote, error) {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("embed: the URL must be http or https, with a host and without user, query and fragment")
	case o.Model == "":
		return nil, errors.New("embed: a model is needed")
	case o.Dim < 1 || o.Dim > dimMax:
		return nil, fmt.Errorf("embed: the dimension must be 1 to %d", dimMax)
	case o.Entropy == nil:
		return nil, errors.New("embed: a source of randomness is needed")
	}
	if o.Client == nil {
		o.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	o.URL = strings.TrimSuffix(o.URL, "/")
	o.Batch = orDefault(o.Batch, 64)
	o.Timeout = orDefault(o.Timeout, 10*time.Second)
	o.Tries = orDefault(o.Tries, 4)
	o.Backoff = orDefault(o.Backoff, 250*time.Millisecond)
	return &Remote{o}, nil
}

func orDefault[N int | time.Duration](given, standard N) N {
	if given <= 0 {
		return standard
	}
	return given
}

// ID implements Embedder: the endpoint, the model and the dimension.
func (r *Remote) ID() string { return fmt.Sprintf("%s %s %d", r.o.URL, r.o.Model, r.o.Dim) }

// Dim implements Embedder.
func (r *Remote) Dim() int { return r.o.Dim }

// Threshold implements Embedder.
func (r *Remote) Threshold() float32 { return r.o.Threshold }

// Embed implements Embedder. It makes one request after another, each for up to Batch
// texts. A blank text is not sent and has a vector of zeros. The errors are the
// context's and ErrRemote.
func (r *Remote) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	var batch []int // indexes into texts
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		some := make([]string, len(batch))
		for i, at := range batch {
			some[i] = texts[at]
		}
		answer, err := r.request(ctx, some)
		for i, v := range answer {
			vectors[batch[i]] = v
		}
		batch = batch[:0]
		return err
	}
	for i, text := range texts {
		if strings.TrimSpace(text) == "" {
			vectors[i] = make([]float32, r.o.Dim)
			continue
		}
		if batch = append(batch, i); len(batch) == r.o.Batch {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return vectors, nil
}

// request asks for the vectors of a batch and tries again after failures that may pass.
func (r *Remote) request(ctx context.Context, texts []string) ([][]float32, error) {
	body, err := json.Marshal(map[string]any{"model": r.o.Model, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, err
	}
	pause := r.o.Backoff
	for try := 1; ; try++ {
		vectors, after, err := r.attempt(ctx, body, len(texts))
		if err == nil {
			return vectors, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if after < 0 || try == r.o.Tries {
			return nil, err
		}
		random := r.o.Entropy()
		wait := pause/2 + time.Duration(binary.BigEndian.Uint32(random[:4]))*(pause/2)/math.MaxUint32
		if err := sleep(ctx, max(wait, min(after, retryAfterMax))); err != nil {
			return nil, err
		}
		pause = min(2*pause, backoffMax)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempt makes one request. after is how long the endpoint wants the next attempt to
// wait, or less than 0 if there is no use in one.
func (r *Remote) attempt(ctx context.Context, body []byte, n int) (vectors [][]float32, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.o.URL+"/embeddings", bytes.NewReader(body))
	if err != nil {
		return nil, -1, fmt.Errorf("%w: bad URL", ErrRemote)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	if r.o.Key != "" {
		request.Header.Set("Authorization", "Bearer "+r.o.Key)
	}
	response, err := r.o.Client.Do(request)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: the request failed", ErrRemote)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%w: status %d", ErrRemote, response.StatusCode)
		if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusRequestTimeout && response.StatusCode < 500 {
			return nil, -1, err
		}
		seconds, _ := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16)
		return nil, time.Duration(seconds) * time.Second, err
	}
	most := int64(n*(r.o.Dim*numberBytesMax+1024) + 1<<16)
	content, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err != nil {
		return nil, 0, fmt.Errorf("%w: the answer ended early", ErrRemote)
	}
	if int64(len(content)) > most {
		return nil, -1, fmt.Errorf("%w: the answer has more than %d bytes", ErrRemote, most)
	}
	vectors, err = r.parse(content, n)
	return vectors, -1, err
}

// parse checks that an answer has one vector of numbers for each text.
func (r *Remote) parse(content []byte, n int) ([][]float32, error) {
	var answer struct {
		Data []struct {
			Index     *int      `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	if err := json.Unmarshal(content, &answer); err != nil || len(answer.Data) != n {
		return nil, fmt.Errorf("%w: the answer is not a list of %d vectors", ErrRemote, n)
	}
	vectors := make([][]float32, n)
	for i, d := range answer.Data {
		at := i
		if d.Index != nil {
			at = *d.Index
		}
		if at < 0 || at >= n || vectors[at] != nil {
			return nil, fmt.Errorf("%w: a wrong index", ErrRemote)
		}
		if len(d.Embedding) != r.o.Dim {
			return nil, fmt.Errorf("%w: a vector has %d numbers, want %d", ErrRemote, len(d.Embedding), r.o.Dim)
		}
		vectors[at] = d.Embedding
	}
	return vectors, nil
}
