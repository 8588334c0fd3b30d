package telemetry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"parley/client/parley"
	"parley/cmd/parley/program"
)

// Tracing holds the settings for traces. Other settings, such as headers for the
// collector and the name of the service, are variables of OpenTelemetry.
type Tracing struct {
	OTLPEndpoint string `name:"otlp-endpoint" env:"PARLEY_OTLP_ENDPOINT" placeholder:"URL" help:"OTLP collector for traces, over HTTP, at /v1/traces below this address; default: OTEL_EXPORTER_OTLP_ENDPOINT, else none."`
	TraceShare   string `name:"trace-share" env:"PARLEY_TRACE_SHARE" placeholder:"SHARE" help:"Share of traces to send, 0 to 1, if the caller did not decide; default: OTEL_TRACES_SAMPLER, else all."`
}

const (
	// tracesPath is the path below a collector's address that accepts traces.
	tracesPath = "/v1/traces"
	// endpointVariable holds a collector's address; tracesEndpointVariable holds the full
	// address for traces, including tracesPath.
	endpointVariable       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesEndpointVariable = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	samplerVariable        = "OTEL_TRACES_SAMPLER"
	samplerArgVariable     = "OTEL_TRACES_SAMPLER_ARG"
	// flushWait bounds the time for sending the remaining traces during a drain.
	flushWait = 2 * time.Second
	// exportErrorsEvery is the minimum interval between logged export errors.
	exportErrorsEvery = time.Minute
)

func (t *Tracing) Validate() error {
	if t.OTLPEndpoint != "" && !parley.IsBaseURL(t.OTLPEndpoint) {
		// The value may hold a password, so the error does not quote it.
		return errors.New("--otlp-endpoint: not an http or https address such as http://127.0.0.1:4318, without user and query")
	}
	if _, err := parseShare(t.TraceShare); t.TraceShare != "" && err != nil {
		return fmt.Errorf("--trace-share: %w", err)
	}
	return nil
}

func parseShare(text string) (float64, error) {
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || !(share >= 0 && share <= 1) {
		return 0, fmt.Errorf("%q is not a number from 0 to 1", text)
	}
	return share, nil
}

// collector returns the address to pass to the exporter, which is empty if the exporter
// reads it from its own variables, and whether traces are wanted at all.
func (t *Tracing) collector(named bool) (address string, wanted bool) {
	switch {
	case t.OTLPEndpoint != "":
		return strings.TrimSuffix(t.OTLPEndpoint, "/") + tracesPath, true
	case named:
		return "", false // set to an empty value
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"), os.Getenv("OTEL_TRACES_EXPORTER") == "none":
		return "", false
	}
	return "", os.Getenv(endpointVariable) != "" || os.Getenv(tracesEndpointVariable) != ""
}

// sampling decides which traces are sent.
type sampling struct {
	// bound is the upper bound, exclusive, for the hash of a sampled trace's id.
	bound uint64
	all   bool
	// byCaller reports whether the caller's sampling decision for its trace applies.
	byCaller bool
}

func newSampling(share float64, byCaller bool) sampling {
	return sampling{bound: uint64(share * (1 << 63)), all: share >= 1, byCaller: byCaller}
}

// sampling returns the sampling of the configured share or, without one, of the variables
// of OpenTelemetry. An unknown sampler counts as none.
func (t *Tracing) sampling() sampling {
	if share, err := parseShare(t.TraceShare); err == nil {
		return newSampling(share, true)
	}
	share := 1.0
	sampler, byCaller := strings.CutPrefix(os.Getenv(samplerVariable), "parentbased_")
	switch sampler {
	case "", "always_on":
	case "always_off":
		share = 0
	case "traceidratio":
		if arg := os.Getenv(samplerArgVariable); arg != "" {
			var err error
			if share, err = parseShare(arg); err != nil {
				slog.Warn("all traces are sent: the share is not one", "variable", samplerArgVariable, "error", err)
				share = 1
			}
		}
	default:
		slog.Warn("all traces are sent: the sampler is not known", "variable", samplerVariable, "sampler", sampler)
		sampler = ""
	}
	return newSampling(share, byCaller || sampler == "")
}

// samples decides on a trace by its id alone, so that every server decides alike. It
// hashes the id: a ratio of the last bytes, as is usual, would not work, because those of
// a message's id are not random. A broadcast and its copies, which differ in the last
// four bytes, are sampled together.
func (s sampling) samples(id trace.TraceID) bool {
	if s.all {
		return true
	}
	x := binary.BigEndian.Uint64(id[:8]) ^ uint64(binary.BigEndian.Uint32(id[8:12]))*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return (x^x>>31)>>1 < s.bound
}

// Traces makes spans of answers, entries and deliveries after the fact; requests carry no
// tracing state. The id of a message is the id of its trace, so every server that knows
// the message knows the trace, also after a restart. All methods do nothing on a nil
// Traces.
type Traces struct {
	sampling
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	clock    parley.Clock
	// serverAttributes are the attributes of the server's address.
	serverAttributes []attribute.KeyValue
	recent           recent
	// isCopy reports whether a message is the copy of a broadcast, as the agents of a
	// slot see it.
	isCopy func(reader parley.Slot, id parley.MessageID) bool
}

// OpenTraces starts to send traces. It returns nil if the settings and the variables of
// OpenTelemetry name no collector. named reports whether the endpoint was set at all; an
// empty value switches traces off.
func OpenTraces(ctx context.Context, settings *Tracing, named bool) (*Traces, error) {
	address, wanted := settings.collector(named)
	if !wanted {
		return nil, nil
	}
	var options []otlptracehttp.Option
	if address != "" {
		options = append(options, otlptracehttp.WithEndpointURL(address))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "parley"), attribute.String("service.version", program.ThisBuild().Version),
	), resource.WithFromEnv())
	if err != nil {
		slog.Warn("some attributes of traces are not as the environment says", "error", err)
	}
	otel.SetErrorHandler(exportErrors(slog.Default(), time.Now))
	return newTraces(settings.sampling(), time.Now, sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)), nil
}

// newTraces returns Traces for the exporters in options. Spans are sampled before they
// are made, so the provider accepts all of them.
func newTraces(s sampling, clock parley.Clock, options ...sdktrace.TracerProviderOption) *Traces {
	options = append(options, sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithIDGenerator(idSource{}))
	t := &Traces{
		sampling: s, clock: clock, provider: sdktrace.NewTracerProvider(options...),
		recent: recent{most: recentMax, byID: map[parley.MessageID]*messageSpan{}},
		isCopy: func(parley.Slot, parley.MessageID) bool { return false },
	}
	t.tracer = t.provider.Tracer("parley")
	return t
}

// exportErrors logs why traces could not be sent, at most once a minute.
func exportErrors(to *slog.Logger, clock parley.Clock) otel.ErrorHandler {
	var mu sync.Mutex
	var quiet time.Time
	return otel.ErrorHandlerFunc(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if now := clock(); now.After(quiet) {
			quiet = now.Add(exportErrorsEvery)
			to.Warn("traces could not be sent", "error", err)
		}
	})
}

// Close sends the remaining spans, for up to 2 s.
func (t *Traces) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushWait)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		slog.Warn("the last traces could not be sent", "error", err)
	}
}

// chosenIDs are the ids of a span whose ids must not be random.
type chosenIDs struct {
	trace trace.TraceID
	span  trace.SpanID
}

type chosenKey struct{}

// idSource gives a span the ids that were chosen for it, else random ones.
type idSource struct{}

// NewIDs returns the ids of the first span of a trace.
func (s idSource) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if c, ok := ctx.Value(chosenKey{}).(chosenIDs); ok {
		return c.trace, c.span
	}
	return newTraceID(), newSpanID()
}

// NewSpanID returns the id of any other span.
func (idSource) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if c, ok := ctx.Value(chosenKey{}).(chosenIDs); ok {
		return c.span
	}
	return newSpanID()
}

func newTraceID() (id trace.TraceID) {
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], 1+rand.Uint64N(math.MaxUint64))
	return id
}

func newSpanID() (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], 1+rand.Uint64N(math.MaxUint64))
	return id
}
