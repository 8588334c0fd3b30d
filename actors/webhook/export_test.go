package webhook

// deeds are what can happen to a job, in words.
var deeds = []string{
	"begun", "accepted", "declined", "declined at last", "gone", "lost", "lost at last", "unsent at first", "unsent again", "wanted",
}

// Moves are what can happen to a job of that status, and what it is then.
func (x Status) Moves() (moves []string) {
	for d := range deed(len(deeds)) {
		if to, ok := x.next(d); ok {
			moves = append(moves, deeds[d]+" -> "+to.String())
		}
	}
	return moves
}
