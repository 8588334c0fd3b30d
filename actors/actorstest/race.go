//go:build race

package actorstest

const raceDetector = true
