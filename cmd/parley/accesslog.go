package main

import (
	"context"
	"log/slog"
	"time"

	"parley/http/httpserver"
)

// accessLog writes a line for each answer, where the operator wants that. A line
// names the route with the names of its parameters, never the path: poll tokens
// lie in paths. Answers that tell of a defect or of overload are warnings.
func accessLog(to *slog.Logger) func(httpserver.Answer) {
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

// everyone has several told of each answer, in order.
func everyone(told ...func(httpserver.Answer)) func(httpserver.Answer) {
	if len(told) == 1 {
		return told[0]
	}
	return func(a httpserver.Answer) {
		for _, tell := range told {
			tell(a)
		}
	}
}
