// Package history judges what clients of a messaging service were told. Test
// clients record into a History, at the same time, what they asked and what was
// answered: sends and replies with their keys, pages of inboxes, transcripts,
// event streams over many connections, moves of conversations. Check then holds
// all of it together and names every promise that was broken.
//
// The judge knows nothing of the service but its promises. It wants to be asked
// when all clients rest and everything was read once more: the newest whole
// reading of an inbox, a transcript and a stream is what the others are held
// against. What was acknowledged and not read again is a fault of its own, so
// that a test that looks away cannot pass.
package history
