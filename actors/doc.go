// Package actors holds the actors of each aggregate and the methods that the HTTP layer
// calls.
//
// A Node has one type per resource: Agents, Orgs, Messages, Groups and Keys. Their
// methods gather what a rule needs to know, ask the actor that decides, and read what
// is stored. Package host runs the actors, package query reads, and package delivery
// records receipts and notifies webhooks.
package actors
