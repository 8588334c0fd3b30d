// Package telemetry shows the operator what a server does: Prometheus metrics,
// OpenTelemetry traces and the access log. The server passes it numbers, answers, entries
// and deliveries; no lower package imports it.
package telemetry
