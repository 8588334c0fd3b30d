package actorstest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"parley/client/parley"
)

// Line is one line of a story: a verb and its arguments.
type Line struct {
	t    judge
	Verb string
	args map[string]string
	read map[string]bool
}

// Has reports whether the line contains the word.
func (l *Line) Has(word string) bool {
	l.read[word] = true
	_, ok := l.args[word]
	return ok
}

// Text returns the value of an argument, "" if the line lacks it.
func (l *Line) Text(key string) string {
	l.read[key] = true
	return l.args[key]
}

// Optional returns the value of an argument, nil if the line lacks it.
func (l *Line) Optional(key string) *string {
	if !l.Has(key) {
		return nil
	}
	text := l.Text(key)
	return &text
}

// Flag returns the value of a boolean argument, nil if the line lacks it.
func (l *Line) Flag(key string) *bool {
	if !l.Has(key) {
		return nil
	}
	yes, err := strconv.ParseBool(l.Text(key))
	if err != nil {
		l.t.Fatal(err)
	}
	return &yes
}

// Number returns the value of an integer argument, nil if the line lacks it.
func (l *Line) Number(key string) *int {
	if !l.Has(key) {
		return nil
	}
	n, err := strconv.Atoi(l.Text(key))
	if err != nil {
		l.t.Fatal(err)
	}
	return &n
}

// ID returns the id that belongs to the argument's value.
func (l *Line) ID(key string) [16]byte { return Named(l.Text(key)) }

// Tell runs the stories of a file and compares their output with it. Each `story`
// starts from a new aggregate. Each of its lines is a command, which parse interprets;
// the output shows its outcome. Two verbs are built in: `wait 10m`, and `show`, which
// prints what show returns.
func Tell[S State, C any, E Event](
	t *testing.T, path string, r Rules[S, C, E],
	parse func(*Line, *Life[S, C, E]) C, show func(*Life[S, C, E]) string,
) {
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != "story" {
			t.Fatalf("%s: expected a story, not %q", d.Pos, d.Cmd)
		}
		life, out := r.Begin(), strings.Builder{}
		for text := range strings.Lines(d.Input) {
			text = strings.TrimSpace(text)
			fmt.Fprintf(&out, "%-58s -> %s\n", text, play(t, text, life, parse, show))
		}
		return out.String()
	})
}

func play[S State, C any, E Event](
	t *testing.T, text string, life *Life[S, C, E],
	parse func(*Line, *Life[S, C, E]) C, show func(*Life[S, C, E]) string,
) string {
	line := read(t, text)
	switch line.Verb {
	case "wait":
		for pause := range line.args {
			d, err := time.ParseDuration(pause)
			if err != nil {
				t.Fatal(err)
			}
			life.Now = life.Now.Add(d)
		}
		return life.Now.Sub(Epoch).String() + " have passed"
	case "show":
		return show(life)
	}
	events, err := life.Do(t, parse(line, life))
	for key := range line.args {
		if !line.read[key] {
			t.Fatalf("%s: unused argument %q", text, key)
		}
	}
	return Outcome(events, err)
}

func read(t *testing.T, text string) *Line {
	verb, args, err := datadriven.ParseLine(text)
	if err != nil {
		t.Fatal(err)
	}
	line := &Line{t: t, Verb: verb, args: map[string]string{}, read: map[string]bool{}}
	for _, a := range args {
		line.args[a.Key] = strings.Join(a.Vals, ", ")
	}
	return line
}

// Outcome renders the outcome of a command: the events' names, the refusal with its
// extra members, or both.
func Outcome[E Event](events []E, err error) string {
	words := make([]string, 0, len(events)+1)
	for _, e := range events {
		words = append(words, name(e))
	}
	switch refusal := (*parley.Refusal)(nil); {
	case errors.As(err, &refusal):
		words = append(words, "refused: "+refusal.Code+extras(refusal))
	case err != nil:
		words = append(words, err.Error())
	case len(words) == 0:
		return "fine, nothing changes"
	}
	return strings.Join(words, ", ")
}

func extras(r *parley.Refusal) string {
	facts := make([]string, 0, len(r.Extra))
	for _, key := range slices.Sorted(maps.Keys(r.Extra)) {
		facts = append(facts, fmt.Sprintf("%s=%v", key, r.Extra[key]))
	}
	if len(facts) == 0 {
		return ""
	}
	return " (" + strings.Join(facts, ", ") + ")"
}
