// Package search finds public groups by words of their name, handle and description.
//
// Searching needs no authentication, so the work is bounded twice: [Slots] limits how
// many searches run at once, and a [Step] ends after a fixed amount of work and returns
// the [Position] at which the next request continues. [Query] ranks a group; it
// tolerates misspellings. The package reads no storage: the caller supplies the groups.
package search
