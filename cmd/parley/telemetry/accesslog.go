package telemetry

import (
	"context"
	"log/slog"
	"time"

	"parley/http/httpserver"
)

// AccessLog returns an observer that logs a line for each answer. A line contains the
// route with the names of its parameters, never the path, because paths contain poll
// tokens. Answers with status 500 or higher are warnings.
func AccessLog(to *slog.Logger) func(httpserver.Answer) {
	return func(a httpserver.Answer) {
		level := slog.LevelInfo
		if a.Status >= 500 {
			level = slog.LevelWarn
		}
		line := []slog.Attr{
			slog.String("request_id", a.RequestID), slog.String("method", methodOf(a.Route)), slog.String("route", a.Route.Label()),
			slog.Int("status", a.Status), slog.Float64("took_ms", float64(a.Took.Round(time.Microsecond))/float64(time.Millisecond)),
		}
		if a.Code != "" {
			line = append(line, slog.String("code", a.Code))
		}
		to.LogAttrs(context.Background(), level, "request", line...)
	}
}

// ObserveAll combines observers; they are called in order.
func ObserveAll(told ...func(httpserver.Answer)) func(httpserver.Answer) {
	if len(told) == 1 {
		return told[0]
	}
	return func(a httpserver.Answer) {
		for _, tell := range told {
			tell(a)
		}
	}
}
