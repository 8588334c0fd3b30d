package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"reflect"
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

func get(path string) route    { return route{method: http.MethodGet, path: path, repeatable: true} }
func post(path string) route   { return route{method: http.MethodPost, path: path} }
func put(path string) route    { return route{method: http.MethodPut, path: path} }
func patch(path string) route  { return route{method: http.MethodPatch, path: path} }
func remove(path string) route { return route{method: http.MethodDelete, path: path} }

func (r route) forAnyone() route {
	r.public = true
	return r
}

func (r route) idempotent() route {
	r.repeatable = true
	return r
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

// array is fetch for an answer that is an array.
func array[T any](ctx context.Context, s *Session, r route, in any) ([]T, error) {
	out, err := fetch[[]T](ctx, s, r, in)
	if err != nil {
		return nil, err
	}
	return *out, nil
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

// exec makes a request whose answer has no body.
func (s *Session) exec(ctx context.Context, r route, in any) error {
	_, err := s.do(ctx, s.call(r, in), nil)
	return err
}

// call returns the call of a route with the fields of in.
func (s *Session) call(r route, in any) call {
	k := call{route: r, query: url.Values{}, header: http.Header{}}
	if in != nil && s.fill(&k, reflect.ValueOf(in)) {
		k.in = in
	}
	return k
}

// fill puts the fields of a request into the path, the query and the header. Zero values
// are left out unless they are required; an idempotency key is generated, so that a retry after a lost answer does
// nothing twice. It reports whether fields are left for the body.
func (s *Session) fill(k *call, in reflect.Value) (body bool) {
	for field, value := range in.Fields() {
		path, query, header := field.Tag.Get("path"), field.Tag.Get("query"), field.Tag.Get("header")
		switch {
		case field.Anonymous:
			body = s.fill(k, value) || body
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
			k.header[http.CanonicalHeaderKey(s.ownHeader(header))] = texts(value)
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
