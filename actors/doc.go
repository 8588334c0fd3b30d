// Package actors is the body that runs the rules: one mailbox per actor, one
// loop for all of them.
//
//	decide → evolve → append → (durable) → release
//
// An actor judges a command against its state in memory, folds the events at
// once, hands an entry to its journal and takes the next message. It never
// waits for the disk. Nothing leaves it before what it rests on is durable:
// answers, refusals and repeats are released by the journal's acker.
//
// Node is what the doors talk to. Its methods gather the facts a rule needs,
// ask the actor in whose mailbox the matter is decided, and read what is stored.
package actors
