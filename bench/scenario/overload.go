package scenario

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"parley/bench/load"
	"parley/bench/result"
	"parley/bench/scenario/host"
	"parley/bench/wire"
)

const (
	// overloadPatience bounds the time until an answer. A server that sheds load in time
	// never needs it.
	overloadPatience = 15 * time.Second
	// overloadClients is the number of clients in the closed loop, which finds capacity.
	overloadClients = 256
	// refusedPause is how long a client of the closed loop pauses after a refusal; an
	// immediate retry would not be a closed loop.
	refusedPause = 20 * time.Millisecond
	// properRefusal is the reason that load.Run counts proper refusals by.
	properRefusal = "refused with Retry-After"
)

// Names of the figures and parts of a run of Overload. docs/benchmarks.md says what they mean.
const (
	FigureIntended = "intended_per_second"
	FigureOffered  = "offered_per_second"
	FigureRefused  = "refused_per_second"
	FigurePeak     = "resident_peak_bytes"
	PartRefused    = "refused, from the real sending"
	PartLag        = "generator's delay"
)

// overload is Overload. It sends messages over many connections. In the open loop, an arrival
// whose connection waits for an answer is not sent, so that the intended rate is not mistaken for
// the offered one. In the closed loop each of at most overloadClients sends again as soon as it
// has an answer.
//
// A proper refusal, 429 or 503 with a whole number of seconds in Retry-After, is not a
// failure: refusals are what this scenario examines. Every other answer except 201 is a
// failure.
type overload struct{ host *host.Host }

// Run implements Scenario.
func (o *overload) Run(ctx context.Context, r *host.Round) error {
	h, plan := o.host, r.Plan
	plan.Clients = r.Bench.Limit(h.Params.Connections, "connections")
	if plan.Rate == 0 {
		plan.Clients = min(plan.Clients, overloadClients)
	}
	plan.SkipBusy = true
	plan.Patience = plan.WarmUp + plan.Duration + overloadPatience // connections may break all the time
	if err := h.FreshTokens(ctx); err != nil {
		return err
	}
	r.Result.Clients = plan.Clients
	window, meter := r.Bench.Begin(ctx), r.Bench.Meter()
	meter.ForgetPeak() // otherwise it would be the peak of all runs so far
	m, err := load.Run(ctx, plan, o.dial(plan.Rate == 0), window)
	if m == nil {
		return err
	}
	fillOverload(r.Result, plan, m)
	if peak := meter.Peak(); peak > 0 {
		r.Result.Figures[FigurePeak] = float64(peak)
	}
	return err
}

// fillOverload moves proper refusals from the failures to the figures. All counts are of what was
// due in the window, so they are divided by its length, not by the time of the last answer.
func fillOverload(run *result.Run, plan load.Plan, m *load.Measurement) {
	refused := m.Reasons[properRefusal]
	delete(m.Reasons, properRefusal)
	m.Failures -= refused
	m.Seconds = min(m.Seconds, plan.Duration.Seconds())
	m.Fill(run)
	offered := float64(m.Operations+m.Failures+refused) / m.Seconds
	run.Figures = map[string]float64{
		FigureIntended: cmp.Or(plan.Rate, offered), FigureOffered: offered, FigureRefused: float64(refused) / m.Seconds,
	}
}

func (o *overload) dial(closed bool) load.Dial {
	h := o.host
	return h.Clients(func(c *host.Client, parts *load.Parts) error {
		c.Conn.SetPatience(overloadPatience)
		to := h.Deployment.Recipients[c.Choice.IntN(len(h.Deployment.Recipients))]
		request, sent := c.Request("/messages", h.Deployment.Senders[0], to, c.Key), time.Now()
		parts.Note(PartLag, sent.Sub(parts.Intended()))
		answer, err := c.Exchange(request, c.Key)
		switch {
		case err != nil:
			return err
		case answer.Status != 429 && answer.Status != 503:
			_, err = c.Accept(answer, c.Key, to)
			return err
		}
		parts.Note(PartRefused, time.Since(sent))
		if closed {
			time.Sleep(refusedPause)
		}
		return refused(c, answer)
	})
}

// refused returns the error of a refusal. A proper one has had no effect and says when to retry.
func refused(c *host.Client, answer wire.Answer) error {
	err, known := host.Refusal(answer)
	if !known {
		c.Log.Lost(c.Key)
		return err
	}
	if seconds, err := strconv.Atoi(answer.Header("Retry-After")); err != nil || seconds < 1 {
		return load.Refused{Reason: fmt.Sprintf("status %d without a whole number of seconds in Retry-After", answer.Status)}
	}
	return load.Refused{Reason: properRefusal}
}
