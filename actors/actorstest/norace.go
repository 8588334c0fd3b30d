//go:build !race

package actorstest

const raceDetector = false
