// Package webhook holds the commands that manage webhooks and receive their deliveries.
package webhook
