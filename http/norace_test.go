//go:build !race

package http

const raceDetector = false
