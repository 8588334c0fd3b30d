// Package importing reads an organization's export and writes what it says into the journal
// of an empty data directory, as the events, rows and feeds that the original had. No actor
// takes part. // docs: compliance.md
package importing
