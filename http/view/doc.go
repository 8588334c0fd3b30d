// Package view renders what the service shows: messages, cards, agents, groups, webhooks. It gets
// everything that it shows as arguments, and looks nothing up.
package view
