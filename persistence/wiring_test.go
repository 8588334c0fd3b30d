package persistence

import (
	"time"

	"parley"
)

func ignoreTray(parley.Stream) {}

func ignoreTimer(parley.Stream, time.Time) {}
