// Package admin is the operator's HTTP interface of a running server: backups,
// organizations, signing keys, profiles, metrics and readiness, with the guard in front
// of them and the JSON types of requests and answers.
package admin
