//go:build !race

package keyring

const raceDetector = false
