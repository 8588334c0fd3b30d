// Package disk stands between the storage engine and the file system of one
// data directory. It adds what the engine lacks:
//
//   - RetryingFS waits for space and tries again where the engine would end the
//     process because its log or manifest could not be written;
//   - AheadFS writes the space beyond the end of a log before the log needs it;
//   - DirSyncFS and SyncDirectory keep directory entries from being lost;
//   - BlobFS checks what is read from the engine's blob files, which the engine
//     trusts, and fails the table of one that cannot be written;
//   - ReadOnlyFS lets a directory be inspected without changing it;
//   - Witness records, in a small file beside the engine's files, which commit
//     was acknowledged last and what the log and manifest files held then, so
//     that a truncated or damaged directory is refused instead of opened;
//   - Monitor watches the health of the disk: free space, stalled writes, files
//     found damaged. It says when new writes must be refused.
//
// The package knows files and commits. It knows nothing of journals, rows or
// entries.
package disk
