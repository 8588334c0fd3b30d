// Package host runs actors: one mailbox and one loop for each active actor, whatever
// its kind.
//
//	decide -> evolve -> append -> (durable) -> release
//
// An actor decides a request against its state in memory, evolves the state at once,
// appends an entry to its journal and takes the next message. It never waits for the
// disk. Nothing leaves it before everything that it depends on is durable: answers,
// refusals and repeats are released when the journal acknowledges the entry.
//
// An actor is activated by its first message and passivated when it has been idle. The
// activation number in its entries lets the journal reject those of earlier
// activations.
package host
