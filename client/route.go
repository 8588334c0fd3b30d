package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"parley/client/api"
)

// route is an endpoint of the server.
type route struct {
	method, path string
	// public endpoints need no token.
	public bool
	// repeatable requests may be retried even if the first attempt may have succeeded.
	repeatable bool
	// wait is how long the server may wait before it answers.
	wait time.Duration
}

func get(path string) route  { return route{method: http.MethodGet, path: path, repeatable: true} }
func post(path string) route { return route{method: http.MethodPost, path: path} }
func put(path string) route  { return route{method: http.MethodPut, path: path} }

func (r route) forAnyone() route {
	r.public = true
	return r
}

func (r route) idempotent() route {
	r.repeatable = true
	return r
}

// Call makes a call with the fields of In, a request of package api, and returns the
// answer. An In that is an id or a text is the only variable part of the path.
type Call[In, Out any] func(ctx context.Context, in In) (*Out, error)

// List makes a call whose answer has all rows of a list.
type List[In, Row any] func(ctx context.Context, in In) ([]Row, error)

// Fetch makes a call that needs no input.
type Fetch[Out any] func(ctx context.Context) (*Out, error)

// Command makes a call whose answer has no body.
type Command[In any] func(ctx context.Context, in In) error

func (f *Call[In, Out]) bind(s *Session, r route) {
	*f = func(ctx context.Context, in In) (*Out, error) { return fetch[Out](ctx, s, r, in) }
}

func (f *List[In, Row]) bind(s *Session, r route) {
	*f = func(ctx context.Context, in In) ([]Row, error) {
		rows, err := fetch[[]Row](ctx, s, r, in)
		if err != nil {
			return nil, err
		}
		return *rows, nil
	}
}

func (f *Fetch[Out]) bind(s *Session, r route) {
	*f = func(ctx context.Context) (*Out, error) { return fetch[Out](ctx, s, r, nil) }
}

func (f *Command[In]) bind(s *Session, r route) {
	*f = func(ctx context.Context, in In) error {
		_, err := s.do(ctx, s.call(r, in), nil)
		return err
	}
}

// bind makes the fields with a tag call the route in it, also those of the fields that are
// subjects. A route is a method and a path, then "public" and "repeatable".
func (c *Session) bind(subject reflect.Value) {
	for field, value := range subject.Fields() {
		tag := strings.Fields(field.Tag.Get("call"))
		switch {
		case len(tag) > 0:
			r := route{method: tag[0], path: tag[1], public: slices.Contains(tag, "public")}
			r.repeatable = r.method == http.MethodGet || slices.Contains(tag, "repeatable")
			value.Addr().Interface().(interface{ bind(*Session, route) }).bind(c, r)
		case field.IsExported() && value.Kind() == reflect.Struct:
			c.bind(value)
		}
	}
}

// fetch makes a request whose answer is a T. The tags of in, a struct of package api or
// nil, say which fields travel in the path, the query and the header; the others are the
// body.
func fetch[T any](ctx context.Context, s *Session, r route, in any) (*T, error) {
	return perform[T](ctx, s, s.call(r, in))
}

func perform[T any](ctx context.Context, s *Session, k call) (*T, error) {
	out := new(T)
	if _, err := s.do(ctx, k, out); err != nil {
		return nil, err
	}
	return out, nil
}

// branded is perform for a T that has a member whose name is the server's brand.
func branded[T any](ctx context.Context, s *Session, k call) (*T, error) {
	body, err := perform[json.RawMessage](ctx, s, k)
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := json.Unmarshal(api.Rebrand(*body, s.brand, api.DefaultBrand), out); err != nil {
		return nil, fmt.Errorf("%s %s: read answer: %w", k.method, k.path, err)
	}
	return out, nil
}

// call returns the call of a route with the fields of in.
func (c *Session) call(r route, in any) call {
	k := call{route: r, query: url.Values{}, header: http.Header{}}
	switch value := reflect.ValueOf(in); {
	case in == nil:
	case value.Kind() != reflect.Struct:
		before, rest, _ := strings.Cut(k.path, "{")
		_, after, _ := strings.Cut(rest, "}")
		k.path = before + url.PathEscape(fmt.Sprint(in)) + after
	case c.fill(&k, value):
		k.in = in
	}
	return k
}

// fill puts the fields of a request into the path, the query and the header. Zero values
// are left out unless they are required. An idempotency key is generated, so that a retry
// after a lost answer does nothing twice. A list is not read in pages, so its Paging is left
// out. It reports whether fields are left for the body.
func (c *Session) fill(k *call, in reflect.Value) (body bool) {
	for field, value := range in.Fields() {
		path, query, header := field.Tag.Get("path"), field.Tag.Get("query"), field.Tag.Get("header")
		switch {
		case field.Type == reflect.TypeFor[api.Paging]():
		case field.Anonymous:
			body = c.fill(k, value) || body
		case path != "":
			k.path = strings.Replace(k.path, "{"+path+"}", url.PathEscape(fmt.Sprint(value.Interface())), 1)
		case header == "Idempotency-Key" && value.IsZero():
			k.header.Set(header, randomKey())
		case query == "" && header == "":
			body = true
		case value.IsZero() && field.Tag.Get("required") == "":
		case query != "" && field.Tag.Get("split") != "":
			k.query.Set(query, strings.Join(texts(value), ","))
		case query != "":
			k.query[query] = texts(value)
		default:
			k.header[http.CanonicalHeaderKey(c.ownHeader(header))] = texts(value)
		}
	}
	return body
}

// texts returns a value as it is written in an address or a header; a slice has several.
func texts(value reflect.Value) (all []string) {
	switch value.Kind() {
	case reflect.Pointer:
		return texts(value.Elem())
	case reflect.Slice:
		for i := range value.Len() {
			all = append(all, texts(value.Index(i))...)
		}
		return all
	default:
		return []string{fmt.Sprint(value.Interface())}
	}
}

// All returns the rows of all pages of a list, from the cursor of in on:
//
//	for m, err := range client.All(ctx, c.Messages.Inbox, api.Inbox{ID: agent}) {
//
// It ends after the first error.
func All[In, Row any](ctx context.Context, list func(context.Context, In) (*api.Page[Row], error), in In) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		in := in // each range begins anew
		for {
			page, err := list(ctx, in)
			if err != nil {
				var none Row
				yield(none, err)
				return
			}
			for _, row := range page.Items {
				if !yield(row, nil) {
					return
				}
			}
			// A transcript's cursor never ends, so it alone does not decide.
			if !page.HasMore || page.NextCursor == nil {
				return
			}
			reflect.ValueOf(&in).Elem().FieldByName("Cursor").Set(reflect.ValueOf(page.NextCursor))
		}
	}
}
