package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/actors/wire"
	"parley/client/parley"
)

func crossed(t *testing.T, types *wire.Types, err error) error {
	t.Helper()
	decoded, failed := types.Error(types.AppendError(nil, err))
	if failed != nil {
		t.Fatalf("%v: %v", err, failed)
	}
	return decoded
}

// TestErrors checks what errors.Is finds in an error after it has crossed.
func TestErrors(t *testing.T) {
	types := newTypes()
	plain := errors.New("secret")
	all := []error{parley.ErrGone, parley.ErrInternal, parley.ErrOverloaded, errErased, errExists}
	for name, c := range map[string]struct {
		err  error
		want []error // of all
	}{
		"refusal":             {parley.ErrOverloaded, []error{parley.ErrOverloaded}},
		"wrapped refusal":     {fmt.Errorf("secret: %w", parley.ErrOverloaded), []error{parley.ErrOverloaded}},
		"same code":           {parley.ErrGone.Saying("secret?"), []error{parley.ErrGone}},
		"distinct":            {errErased, []error{parley.ErrGone, errErased}},
		"copy of distinct":    {errErased.Saying("x").With("y", 1), []error{parley.ErrGone, errErased}},
		"wrapped distinct":    {fmt.Errorf("secret: %w", errErased), []error{parley.ErrGone, errErased}},
		"registered":          {errExists, []error{errExists}},
		"wrapped registered":  {fmt.Errorf("secret: %w", errExists), []error{errExists}},
		"both":                {errors.Join(plain, parley.ErrOverloaded, errExists), []error{parley.ErrOverloaded, errExists}},
		"distinct as second":  {errors.Join(parley.ErrOverloaded, errErased), []error{parley.ErrGone, parley.ErrOverloaded, errErased}},
		"neither":             {plain, []error{parley.ErrInternal}},
		"neither and wrapped": {fmt.Errorf("secret: %w", plain), []error{parley.ErrInternal}},
	} {
		got := crossed(t, types, c.err)
		for _, target := range all {
			want := false
			for _, w := range c.want {
				want = want || w == target
			}
			if errors.Is(got, target) != want {
				t.Errorf("%s: errors.Is(%v, %v) is %v", name, got, target, !want)
			}
		}
		if strings.Contains(got.Error(), "secret:") || got.Error() == "secret" {
			t.Errorf("%s: %v shows the text of an error that is no refusal", name, got)
		}
		checkRoundTrip(t, types, got)
	}
	if got := crossed(t, types, nil); got != nil {
		t.Errorf("no error is decoded as %v", got)
	}
}

// A member of Extra that cannot cross is left out; its refusal is not.
func TestExtra(t *testing.T) {
	types, without := newTypes(), wire.NewTypes()
	for _, value := range []any{
		nil, "a", 7, uint64(7),
		[]string{},
		[]string{"a"},
		[]any{"body", 1},
		1500 * time.Millisecond,
		time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC),
		[]parley.AgentID{{15: 1}},
		inner{N: 1},
	} {
		got := &parley.Refusal{}
		if !errors.As(crossed(t, types, fmt.Errorf("x: %w", parley.ErrNotFound.ForOne().With("member", value))), &got) {
			t.Fatalf("%v: no refusal", value)
		}
		was, _ := json.Marshal(value)
		is, _ := json.Marshal(got.Extra["member"])
		if _, has := got.Extra["member"]; !has || string(is) != string(was) || !got.OfOne || got.Text != parley.ErrNotFound.Text {
			t.Errorf("%s is rendered as %s in %+v", was, is, got)
		}
	}
	refused := parley.ErrNotFound.With("a", 1).With("b", inner{})
	b := types.AppendError(nil, refused)
	decoded, failed := without.Error(b)
	for _, err := range []error{decoded, crossed(t, without, refused)} {
		got := &parley.Refusal{}
		if !errors.As(err, &got) || len(got.Extra) != 1 || got.Extra["a"] != 1 {
			t.Errorf("got %+v, %v, want one member", err, failed)
		}
	}
	b = types.AppendError(nil, errors.Join(errExists))
	if got, failed := without.Error(b); failed != nil || !errors.Is(got, parley.ErrInternal) {
		t.Errorf("an error of another version is decoded as %v, %v", got, failed)
	}
}

func TestRejectedErrors(t *testing.T) {
	types := newTypes()
	for name, err := range map[string]error{"plain refusal": parley.ErrGone, "exists": errors.New("another")} {
		if !panics(func() { types.AddError(name, err) }) {
			t.Errorf("%s: %v is accepted", name, err)
		}
	}
}
