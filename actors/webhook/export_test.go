package webhook

// deeds lists in words what can happen to a job.
var deeds = []string{
	"begun", "accepted", "declined", "declined at last", "gone", "lost", "lost at last", "unsent at first", "unsent again", "wanted",
}

// Moves lists what can happen to a job of the status, and the status that follows.
func (x Status) Moves() (moves []string) {
	for d := range deed(len(deeds)) {
		if to, ok := x.next(d); ok {
			moves = append(moves, deeds[d]+" -> "+to.String())
		}
	}
	return moves
}
