package actorstest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"parley/actors/encoding"
	"parley/client/parley"
)

// Oracle is a second implementation of an aggregate, written from the specification and
// as simple as possible. It runs beside the real one.
type Oracle[C any] interface {
	// Predict applies a command and returns its expected outcome.
	Predict(c C, now time.Time) Verdict
	// Visible returns everything that can be read of the aggregate. It must equal what
	// Trial.Look returns for the real one.
	Visible(now time.Time) any
}

// Verdict is the expected outcome of a command.
type Verdict struct {
	// Refusal is the refusal as the API words it, status first, for example
	// "409 conversation_closed (current_status=failed)"; "" if the command is accepted.
	Refusal string
	// Case names the rule that decided. Trial.Cases refers to it.
	Case string
}

// Accepted returns the verdict on an accepted command.
func Accepted(because string) Verdict { return Verdict{Case: because} }

// Refused returns the verdict on a command that is refused with the given answer.
func Refused(because, answer string) Verdict { return Verdict{Refusal: answer, Case: because} }

// Trial compares an aggregate with its oracle over random commands.
type Trial[S State, C any, E Event, O Oracle[C]] struct {
	Rules Rules[S, C, E]
	// Oracle returns a new oracle for a new life.
	Oracle func() O
	// Draw returns the next command, based on what the oracle knows.
	Draw func(*rapid.T, O, time.Time) C
	// Look returns everything that can be seen of the real aggregate.
	Look func(*Life[S, C, E]) any
	// Closer, if set, makes the comparisons that are too costly after each command. It
	// runs at the end of each life.
	Closer func(*Life[S, C, E], O) error
	// Pauses are the times that may pass before a command.
	Pauses []time.Duration
	// Cases lists all possible verdicts, for example "Reply: closed". A run fails if it
	// does not meet all of them, or meets another.
	Cases []string
	// Errors maps variable names to the errors that the aggregate declares. A run must
	// meet all of them too.
	Errors map[string]error
}

var commandsPerRun = flag.Int("oracle.commands", 50_000, "how many random commands each aggregate's oracle predicts")

// Run tries at least 50,000 commands (flag -oracle.commands), and twice as many if it has
// not met everything by then. It fails if the aggregate and the oracle disagree on a
// command, or if the run did not meet every case, error, command and event. With -short or
// under the race detector it begins with a tenth of the commands.
func (x Trial[S, C, E, O]) Run(t *testing.T) {
	t.Helper()
	met, wanted, most := newCensus(), *commandsPerRun, 2**commandsPerRun
	if testing.Short() || raceDetector {
		wanted /= 10
	}
	for {
		x.try(t, met, wanted)
		missing, summary := x.judge(t, met, wanted)
		if len(missing) > 0 && !t.Failed() && wanted < most {
			wanted = most
			continue
		}
		for _, complaint := range missing {
			t.Error(complaint)
		}
		t.Log(summary)
		return
	}
}

// Misses alters the trial so that a run no longer meets something it must meet, and
// fails if the census does not report it. It is the control of the census.
func (x Trial[S, C, E, O]) Misses(t *testing.T, complaint string, alter func(*Trial[S, C, E, O])) {
	t.Helper()
	alter(&x)
	var missing []string
	for tried := 2000; tried <= 128_000; tried *= 4 { // rare cases need more commands
		met := newCensus()
		x.try(t, met, tried)
		missing, _ = x.judge(t, met, tried)
		if slices.ContainsFunc(missing, func(m string) bool { return strings.Contains(m, complaint) }) {
			return
		}
	}
	t.Errorf("the census did not report %q: %q", complaint, missing)
}

// try runs lives until met has counted enough commands.
func (x Trial[S, C, E, O]) try(t *testing.T, met *census, enough int) {
	t.Helper()
	for rounds := 0; met.commands < enough && rounds < enough; rounds++ {
		rapid.Check(t, func(rt *rapid.T) {
			if found := caught(func(t judge) { x.life(rt, t, met) }); found != "" {
				rt.Fatal(found)
			}
		})
	}
}

// defectWithin is the number of commands within which a defect must be found.
const defectWithin = 100_000

// Finds plants defects in the rules, one at a time, and fails if a run does not find
// each of them. It is the control of Run.
func (x Trial[S, C, E, O]) Finds(t *testing.T, defects map[string]func(*Rules[S, C, E])) {
	t.Helper()
	for name, plant := range defects {
		t.Run(name, func(t *testing.T) {
			broken := x
			plant(&broken.Rules)
			met, found := newCensus(), ""
			for rounds := 0; found == "" && met.commands < defectWithin && rounds < defectWithin; rounds++ {
				rapid.Check(t, func(rt *rapid.T) {
					if found == "" {
						found = caught(func(t judge) { broken.life(rt, t, met) })
					}
				})
			}
			if found == "" {
				t.Fatalf("%d commands did not find it", met.commands)
			}
			short, _, _ := strings.Cut(found, "\n")
			t.Logf("found at command %d: %.300s", met.commands, short)
		})
	}
}

// tried is an aggregate with its oracle, and copies of it that were restored later.
type tried[S State, C any, E Event, O Oracle[C]] struct {
	*Life[S, C, E]
	oracle O
	// copies are states restored from the snapshot after each event so far. Each has
	// applied only decoded events since. The first was built from decoded events alone.
	copies []S
}

func (x Trial[S, C, E, O]) life(rt *rapid.T, t judge, met *census) {
	life := &tried[S, C, E, O]{Life: x.Rules.Begin(), oracle: x.Oracle(), copies: []S{x.Rules.Zero()}}
	pauses := rapid.SampledFrom(x.Pauses)
	met.lives++
	rt.Repeat(map[string]func(*rapid.T){"turn": func(rt *rapid.T) {
		life.Now = life.Now.Add(pauses.Draw(rt, "pause"))
		met.commands++
		x.turn(t, life, x.Draw(rt, life.oracle, life.Now), met)
	}})
	x.look(t, life, nil, "the end")
	if x.Closer != nil {
		if err := x.Closer(life.Life, life.oracle); err != nil {
			t.Fatal(err)
		}
	}
}

// turn runs one command and compares the result and everything visible with the oracle.
func (x Trial[S, C, E, O]) turn(t judge, life *tried[S, C, E, O], c C, met *census) {
	t.Helper()
	predicted, before := life.oracle.Predict(c, life.Now), encode(t, life.State)
	events, err := x.Rules.Decide(life.State, c, life.Now)
	again, errAgain := x.Rules.Decide(life.State, c, life.Now)
	if !bytes.Equal(before, encode(t, life.State)) {
		t.Fatalf("Decide changed the state when given %#v", c)
	}
	answer := spell(err)
	if answer != spell(errAgain) || !x.same(t, events, again) {
		t.Fatalf("called twice with %#v, Decide returns %v, %v and %v, %v", c, events, err, again, errAgain)
	}
	if answer != predicted.Refusal {
		t.Fatalf("%#v at %v: got %q, the oracle predicts %q (%s)", c, life.Now, answer, predicted.Refusal, predicted.Case)
	}
	for _, e := range events {
		x.fold(t, life, e)
		met.events[x.Rules.Tag(e)]++
	}
	if news := !bytes.Equal(before, encode(t, life.State)); news != (len(events) > 0) {
		t.Fatalf("%#v: events %v, but state changed: %v", c, events, news)
	}
	if len(events) > 0 || met.commands%idleLooks == 0 {
		x.look(t, life, c, predicted.Case)
	}
	met.note(reflect.TypeOf(c).Name(), predicted.Case, err)
}

// idleLooks: after a command that did not change the stored state, every idleLooks-th
// one is compared anyway, because the passing of time alone can change what is visible.
const idleLooks = 4

func (x Trial[S, C, E, O]) look(t judge, life *tried[S, C, E, O], after any, because string) {
	t.Helper()
	if seen, expected := x.Look(life.Life), life.oracle.Visible(life.Now); !reflect.DeepEqual(seen, expected) {
		t.Fatalf("after %#v (%s) at %v, the oracle (-) and the aggregate (+) differ:\n%s", after, because, life.Now, cmp.Diff(expected, seen, inside))
	}
}

// fold applies an event to the live state as decided, and to every copy as decoded from
// its stored form.
func (x Trial[S, C, E, O]) fold(t judge, life *tried[S, C, E, O], e E) {
	t.Helper()
	data := encode(t, e)
	x.Rules.reread(t, e)
	x.Rules.Evolve(life.State, e)
	life.History = append(life.History, e)
	live := encode(t, life.State)
	for after, state := range life.copies {
		back, _ := x.Rules.New(x.Rules.Tag(e))
		if err := encoding.Unmarshal(data, back); err != nil {
			t.Fatal(err)
		}
		x.Rules.Evolve(state, back)
		if !bytes.Equal(live, encode(t, state)) {
			t.Fatalf("the snapshot after %d of %d events and the later events give %v, the live state is %v", after, len(life.History), state, life.State)
		}
	}
	life.copies = append(life.copies, x.Rules.thaw(t, life.State))
}

// same reports whether two lists of events have the same stored form.
func (x Trial[S, C, E, O]) same(t judge, a, b []E) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if x.Rules.Tag(a[i]) != x.Rules.Tag(b[i]) || !bytes.Equal(encode(t, a[i]), encode(t, b[i])) {
			return false
		}
	}
	return true
}

// statuses maps the reasons of refusals to HTTP status codes. // spec: Errors
var statuses = map[parley.Reason]int{
	parley.Invalid: 400, parley.Unprocessable: 422, parley.Unauthenticated: 401, parley.BadToken: 401,
	parley.Forbidden: 403, parley.BadSignature: 403, parley.NotFound: 404, parley.Conflict: 409, parley.Gone: 410,
	parley.RateLimited: 429, parley.Unavailable: 503,
}

// spell renders an error as the API does: status, code and extra members.
func spell(err error) string {
	switch refusal := (*parley.Refusal)(nil); {
	case err == nil:
		return ""
	case errors.As(err, &refusal):
		return fmt.Sprintf("%d %s%s", statuses[refusal.Reason], refusal.Code, extras(refusal))
	}
	return err.Error()
}

// inside makes cmp show differences in unexported fields.
var inside = cmp.Exporter(func(reflect.Type) bool { return true })

// fault is the value with which a thrower panics.
type fault string

// thrower is a test whose failures panic; caught recovers them.
type thrower struct{}

func (thrower) Helper()                      {}
func (thrower) Fatal(args ...any)            { panic(fault(fmt.Sprint(args...))) }
func (thrower) Fatalf(f string, args ...any) { panic(fault(fmt.Sprintf(f, args...))) }

// caught returns the failure of run, or "".
func caught(run func(judge)) (said string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fault:
			said = string(r)
		case runtime.Error: // rules with a planted fault may fail in any way
			said = r.Error()
		default:
			panic(r)
		}
	}()
	run(thrower{})
	return ""
}
