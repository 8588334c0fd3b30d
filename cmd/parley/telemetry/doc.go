// Package telemetry shows the operator what a server does: Prometheus metrics,
// OpenTelemetry traces and the access log. The server hands it numbers, answers, entries
// and deliveries; no package below knows of it.
package telemetry
