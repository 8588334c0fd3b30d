package durability

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"parley/cmd/parley/blackbox/kit"
	"parley/cmd/parley/history"
)

// The model of a conversation's status as a register: operations and answers. A reply
// opens a conversation in `submitted`; any other reply leaves the status as it is.
type (
	statusRequest struct {
		kind string // move, reply, look
		to   string // for a move
	}
	statusAnswer struct {
		outcome history.Outcome
		current string // the status that a look or an error showed
	}
)

// statusModel is the status of a conversation as the specification defines it.
// An operation with unknown outcome may or may not have happened. // spec: Conversation
// status
var statusModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{history.Submitted} },
	Step: func(state, input, output any) []any {
		now, asked, told := state.(string), input.(statusRequest), output.(statusAnswer)
		next, done := after(now, asked)
		switch told.outcome {
		case history.Unknown:
			if done && next != now {
				return []any{now, next}
			}
			return []any{now}
		case history.Refused:
			if done || told.current != "" && told.current != now {
				return nil
			}
			return []any{now}
		}
		if !done || asked.kind == "look" && told.current != now {
			return nil
		}
		return []any{next}
	},
}).ToModel()

// after returns the next status, and whether the operation is allowed.
func after(now string, asked statusRequest) (string, bool) {
	switch asked.kind {
	case "look":
		return now, true
	case "reply":
		if now == history.Submitted {
			return "open", true
		}
		return now, !history.Terminal(now)
	}
	return asked.to, history.Allowed(now, asked.to)
}

// The model of an inbox as a log: each key is appended once, however often it is sent,
// and reads return the whole log.
type (
	logRequest struct{ append string } // "" is a read
	logAnswer  struct {
		unknown bool
		keys    string // the keys read, each followed by a space
	}
)

// logModel is a log whose final content is last. An append that contradicts last fails at
// once, which prunes the search.
func logModel(last string) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return "" },
		Step: func(state, input, output any) (bool, any) {
			now, asked := state.(string), input.(logRequest)
			if asked.append == "" {
				return output.(logAnswer).keys == now, now
			}
			next := now + asked.append + " "
			return strings.HasPrefix(last, next), next
		},
	}
}

// linearLog checks appends and reads. The read that began last must come after all
// answered operations.
func linearLog(ops []porcupine.Operation) porcupine.CheckResult {
	last := lastReading(ops)
	return linear(logModel(last.Output.(logAnswer).keys), oneAppendEach(ops, last))
}

func lastReading(ops []porcupine.Operation) porcupine.Operation {
	var last porcupine.Operation
	for _, o := range ops {
		if (o.Input == logRequest{}) && o.Call >= last.Call {
			last = o
		}
	}
	return last
}

// oneAppendEach merges all attempts with the same key into one operation: it happens
// after the first attempt began and before the first is acknowledged. An operation whose
// answer did not wait for its effect happens before the last read. One with unknown
// outcome that no read shows is dropped.
func oneAppendEach(ops []porcupine.Operation, last porcupine.Operation) []porcupine.Operation {
	var out []porcupine.Operation
	at := map[string]int{}
	for _, o := range ops {
		key := o.Input.(logRequest).append
		if o.Output.(logAnswer).unknown {
			o.Return = never
		}
		if i, again := at[key]; again && key != "" {
			out[i].Call, out[i].Return = min(out[i].Call, o.Call), min(out[i].Return, o.Return)
			continue
		}
		at[key] = len(out)
		out = append(out, o)
	}
	for i, o := range out {
		if o.Input.(logRequest).append != "" && o.Return != never && o.Return-o.Call > int64(kit.SettleWait) {
			out[i].Return = max(o.Return, last.Call-1)
		}
	}
	return slices.DeleteFunc(out, func(o porcupine.Operation) bool {
		key := o.Input.(logRequest).append
		return key != "" && o.Return == never && !strings.Contains(" "+last.Output.(logAnswer).keys, " "+key+" ")
	})
}

func linearStatus(ops []porcupine.Operation) porcupine.CheckResult { return linear(statusModel, ops) }

// linear reports whether a history has an order in which each answer is correct.
func linear(m porcupine.Model, ops []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(m, ops, 20*time.Second)
}

const never = math.MaxInt64

// op makes an operation of a request and its answer. One with unknown outcome may take
// effect until the server that received it is dead.
func op(client int, span history.Span, input, output any, death time.Duration, unknown bool) porcupine.Operation {
	o := porcupine.Operation{ClientId: client, Input: input, Output: output, Call: int64(span.Asked), Return: int64(span.Answered)}
	if unknown {
		o.Return = int64(death)
	}
	return o
}

// altered plants a fault in a history.
func altered(ops []porcupine.Operation, where func(porcupine.Operation) bool, plant func(*porcupine.Operation)) []porcupine.Operation {
	out := slices.Clone(ops)
	for i := range out {
		if where(out[i]) {
			plant(&out[i])
			return out
		}
	}
	return nil
}

// shown lists a history in the order of the requests.
func shown(ops []porcupine.Operation) string {
	ops = slices.Clone(ops)
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var out strings.Builder
	for _, o := range ops {
		until := time.Duration(o.Return).String()
		if o.Return == never {
			until = "never"
		}
		fmt.Fprintf(&out, "%12v %12s client %d: %+v -> %+v\n", time.Duration(o.Call), until, o.ClientId, o.Input, o.Output)
	}
	return out.String()
}

// String shows the length of a read and its last keys.
func (l logAnswer) String() string {
	keys := strings.Fields(l.keys)
	return fmt.Sprintf("unknown %v, %d keys, at last %v", l.unknown, len(keys), keys[max(0, len(keys)-12):])
}

// TestLinearizabilityIsJudged gives the models short correct histories, and each of them
// with one fault.
func TestLinearizabilityIsJudged(t *testing.T) {
	at := func(from, to int) history.Span {
		return history.Span{Asked: time.Duration(from), Answered: time.Duration(to)}
	}
	move := func(span history.Span, to string, told statusAnswer) porcupine.Operation {
		return op(0, span, statusRequest{"move", to}, told, never, told.outcome == history.Unknown)
	}
	look := func(span history.Span, shows string) porcupine.Operation {
		return op(1, span, statusRequest{kind: "look"}, statusAnswer{history.Acked, shows}, never, false)
	}
	reply := func(span history.Span, outcome history.Outcome) porcupine.Operation {
		return op(2, span, statusRequest{kind: "reply"}, statusAnswer{outcome: outcome}, never, outcome == history.Unknown)
	}
	done, lost := statusAnswer{outcome: history.Acked}, statusAnswer{outcome: history.Unknown}
	refusedIn := func(status string) statusAnswer { return statusAnswer{history.Refused, status} }
	send := func(span history.Span, key string, unknown bool) porcupine.Operation {
		return op(0, span, logRequest{key}, logAnswer{unknown: unknown}, never, unknown)
	}
	list := func(span history.Span, keys string) porcupine.Operation {
		return op(1, span, logRequest{}, logAnswer{keys: keys}, never, false)
	}
	dead := func(o porcupine.Operation, at int64) porcupine.Operation { o.Return = at; return o }
	for _, c := range []struct {
		name  string
		judge func([]porcupine.Operation) porcupine.CheckResult
		right bool
		ops   []porcupine.Operation
	}{
		{"a path", linearStatus, true, []porcupine.Operation{reply(at(1, 2), history.Acked), move(at(3, 4), "paused", done), look(at(5, 6), "paused"), move(at(7, 8), "completed", done), move(at(9, 10), "failed", refusedIn("completed"))}},
		{"two winners", linearStatus, false, []porcupine.Operation{reply(at(1, 2), history.Acked), move(at(3, 9), "completed", done), move(at(4, 8), "failed", done)}},
		{"one of two winners", linearStatus, true, []porcupine.Operation{reply(at(1, 2), history.Acked), move(at(3, 9), "completed", refusedIn("failed")), move(at(4, 8), "failed", done)}},
		{"a stale look", linearStatus, false, []porcupine.Operation{reply(at(1, 2), history.Acked), look(at(3, 4), "submitted")}},
		{"a look meanwhile", linearStatus, true, []porcupine.Operation{reply(at(1, 4), history.Acked), look(at(2, 3), "submitted")}},
		{"a move that the table does not have", linearStatus, false, []porcupine.Operation{move(at(1, 2), "paused", done)}},
		{"a refusal without a reason", linearStatus, false, []porcupine.Operation{move(at(1, 2), "failed", refusedIn("submitted"))}},
		{"unknown, and it happened", linearStatus, true, []porcupine.Operation{move(at(1, 2), "failed", lost), look(at(3, 4), "submitted"), look(at(5, 6), "failed")}},
		{"unknown, and it did not", linearStatus, true, []porcupine.Operation{move(at(1, 2), "failed", lost), move(at(3, 4), "canceled", done)}},
		{"unknown, and it came and went", linearStatus, false, []porcupine.Operation{move(at(1, 2), "failed", lost), look(at(3, 4), "failed"), look(at(5, 6), "submitted")}},
		{"unknown, and it happened after the server died", linearStatus, false, []porcupine.Operation{dead(move(at(1, 2), "failed", lost), 2), look(at(3, 4), "submitted"), look(at(5, 6), "failed")}},
		{"a reply after the end", linearStatus, false, []porcupine.Operation{move(at(1, 2), "failed", done), reply(at(3, 4), history.Acked)}},
		{"a log", linearLog, true, []porcupine.Operation{send(at(1, 2), "a", false), send(at(3, 6), "b", false), list(at(4, 5), "a "), send(at(7, 8), "b", false), list(at(9, 9), "a b ")}},
		{"a lost append", linearLog, false, []porcupine.Operation{send(at(1, 2), "a", false), send(at(3, 4), "b", false), list(at(5, 6), "b ")}},
		{"a stale reading", linearLog, false, []porcupine.Operation{send(at(1, 2), "a", false), list(at(3, 4), "")}},
		{"another order", linearLog, false, []porcupine.Operation{send(at(1, 2), "a", false), send(at(3, 4), "b", false), list(at(5, 6), "b a ")}},
		{"two orders", linearLog, false, []porcupine.Operation{send(at(1, 9), "a", false), send(at(1, 9), "b", false), list(at(2, 3), "a "), list(at(4, 5), "b a ")}},
		{"one key twice", linearLog, false, []porcupine.Operation{send(at(1, 2), "a", false), send(at(3, 4), "a", false), list(at(5, 6), "a a ")}},
		{"unknown, and sent again", linearLog, true, []porcupine.Operation{send(at(1, 2), "a", true), send(at(3, 4), "a", false), list(at(5, 6), "a ")}},
	} {
		if got := c.judge(c.ops); (got == porcupine.Ok) != c.right || got == porcupine.Unknown {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
