// Package credential holds the commands that manage the credentials of the profile's organization.
package credential
