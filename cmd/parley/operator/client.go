package operator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"parley/client"
	"parley/client/parley"
	"parley/cmd/parley/datadir"
	"parley/cmd/parley/program"
)

// defaultAdmin is the default address for operator calls.
const defaultAdmin = "http://127.0.0.1:8081"

// operatorFlags name the running server that a command calls.
type operatorFlags struct {
	Admin string `env:"PARLEY_ADMIN" placeholder:"URL" help:"Admin address of the running server; default: http://127.0.0.1:8081."`
	Data  string `env:"PARLEY_DATA" default:"./parley-data" placeholder:"DIR" help:"Data directory of the server, for its admin.token; PARLEY_ADMIN_TOKEN may hold that token, or one of parley operator token create, instead. Default: ${default}."`
}

// changeFlags are those of a command that changes something.
type changeFlags struct {
	operatorFlags
	Reason string `placeholder:"TEXT" help:"Why; at most 500 bytes. It is in the audit log, and the organization concerned can read it. Needed with the token of an operator."`
}

// change makes a call that changes something, and decodes its answer unless into is nil.
func (f *changeFlags) change(ctx context.Context, path string, order, into any) error {
	text, err := json.Marshal(order)
	members := map[string]jsontext.Value{}
	if err == nil {
		err = json.Unmarshal(text, &members)
	}
	if err == nil && f.Reason != "" {
		members["reason"], err = json.Marshal(f.Reason)
	}
	if err != nil {
		return err
	}
	if into == nil {
		into = &struct{}{}
	}
	return f.get(ctx, path, members, into)
}

// address returns the admin address.
func (f *operatorFlags) address() (*url.URL, error) {
	text := cmp.Or(f.Admin, defaultAdmin)
	admin, err := url.Parse(text)
	if err != nil || !parley.Dialable(admin) || admin.Scheme != "http" && admin.Scheme != "https" {
		return nil, program.ExitError{Code: program.ExitUsage, Err: fmt.Errorf("--admin: %q is not an http or https address such as %s", program.Redacted(text), defaultAdmin)}
	}
	return admin, nil
}

// do makes an operator call: a GET if body is nil, else a POST of it as JSON. It returns
// answers with status 200; the caller closes the body.
func (f *operatorFlags) do(ctx context.Context, path string, body any) (*http.Response, error) {
	admin, err := f.address()
	if err != nil {
		return nil, err
	}
	token, origin, err := datadir.FindAdminToken(f.Data)
	if err != nil {
		return nil, err
	}
	relative, err := url.Parse(path)
	if err != nil {
		return nil, err
	}
	method, text := http.MethodGet, []byte(nil)
	if body != nil {
		method = http.MethodPost
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	whole := admin.JoinPath(relative.EscapedPath())
	whole.RawQuery = relative.RawQuery
	request, err := http.NewRequestWithContext(ctx, method, whole.String(), bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("no server answers at %s; name its admin address with --admin: %w", admin, err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode == http.StatusUnauthorized {
		return nil, program.ExitError{Code: program.ExitForbidden, Err: fmt.Errorf("the server at %s does not accept the admin token of %s: is that the data directory of this server?", admin, origin)}
	}
	said, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	return nil, errors.Join(refusedCall(answer.StatusCode, said), err)
}

// get makes a call and decodes its answer.
func (f *operatorFlags) get(ctx context.Context, path string, body, into any) error {
	answer, err := f.do(ctx, path, body)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	return nil
}

// refusedCall returns the error for an answer whose status is not 200.
func refusedCall(status int, body []byte) error {
	var said struct {
		Detail string      `json:"detail"`
		Code   client.Code `json:"code"`
	}
	switch unclear := json.Unmarshal(body, &said) != nil || said.Detail == ""; {
	case unclear && status == http.StatusNotFound:
		return program.ExitError{Code: program.ExitNotFound, Err: errors.New("the server does not know this call: it is no node of a cluster, or a server of another version")}
	case unclear:
		return program.ExitError{Code: program.RefusalCode(status), Err: fmt.Errorf("the server answered %d", status)}
	}
	return program.ExitError{Code: program.RefusalCode(status), Err: errors.New(said.Detail)}
}
