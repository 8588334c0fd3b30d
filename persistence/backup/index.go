package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/disk"
)

// snapshotName is the time format of snapshot names: names sort as instants do.
const snapshotName = "20060102T150405.000Z"

// indexFormat begins every index. Another number is another layout.
const indexFormat = "parley backup 1"

// File is one file of a snapshot.
type File struct {
	// Name is the path below the data directory at which a restore writes the file.
	Name string
	Size int64
	// Sum is the SHA-256 of its content, in hexadecimal digits.
	Sum string
}

// Snapshot is a store as it was at one instant, in a backup directory.
type Snapshot struct {
	// ID is the snapshot's name in its backup directory.
	ID    string
	Taken time.Time
	// Owner is the owner of the snapshot, empty if it has none.
	Owner string
	// Journals is the number of journals, Commits how many commits all of them had
	// made together.
	Journals int
	Commits  uint64
	// Copied is how many bytes this backup added to the backup directory.
	Copied int64
	// Keyring is the store's keyring when the snapshot was taken: a restore needs one
	// that has at least this. It is zero if the store had none.
	Keyring disk.KeyringState
	Files   []File
	// mac is the authenticator of the index, empty if it was written without a key.
	mac string
}

// Bytes is the size of what a restore writes.
func (s *Snapshot) Bytes() int64 {
	n := int64(0)
	for _, f := range s.Files {
		n += f.Size
	}
	return n
}

// HasMasterKey reports whether the snapshot holds the master key.
func (s *Snapshot) HasMasterKey() bool {
	return slices.ContainsFunc(s.Files, func(f File) bool { return f.Name == MasterKeyName })
}

// encode returns the index: lines that a person can read and sha256sum can check,
// the last of them the hash of the others.
func (s *Snapshot) encode() []byte {
	b := bytes.NewBuffer(s.body())
	if s.mac != "" {
		fmt.Fprintf(b, "mac %s\n", s.mac)
	}
	fmt.Fprintf(b, "end %s\n", sum(b.Bytes()))
	return b.Bytes()
}

// body returns the lines of the index that say what the snapshot is.
func (s *Snapshot) body() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\ntaken %s\njournals %d\ncommits %d\ncopied %d\n", indexFormat, s.Taken.Format(snapshotName), s.Journals, s.Commits, s.Copied)
	if s.Owner != "" {
		fmt.Fprintf(&b, "owner %s\n", s.Owner)
	}
	if s.Keyring.Known() {
		fmt.Fprintf(&b, "keyring %x", s.Keyring.Identity)
		for _, generation := range s.Keyring.Generations {
			fmt.Fprintf(&b, " %d", generation)
		}
		fmt.Fprintln(&b)
	}
	for _, f := range s.Files {
		fmt.Fprintf(&b, "file %s %d %s\n", f.Sum, f.Size, f.Name)
	}
	return b.Bytes()
}

// decodeSnapshot reads an index completely or not at all.
func decodeSnapshot(text []byte) (*Snapshot, error) {
	body, end, found := bytes.Cut(text, []byte("\nend "))
	body = text[:min(len(text), len(body)+1)]
	if !found || string(end) != sum(body)+"\n" {
		return nil, errors.New("its checksum does not match its lines")
	}
	s := &Snapshot{}
	lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	if lines[0] != indexFormat {
		return nil, fmt.Errorf("it begins with %q; this program reads %q", lines[0], indexFormat)
	}
	for _, line := range lines[1:] {
		if err := s.decodeLine(line); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
	}
	s.ID = s.Taken.Format(snapshotName)
	return s, nil
}

func (s *Snapshot) decodeLine(line string) (err error) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "taken":
		s.Taken, err = time.Parse(snapshotName, rest)
	case "owner":
		s.Owner = rest
	case "journals":
		_, err = fmt.Sscanf(rest, "%d", &s.Journals)
	case "commits":
		_, err = fmt.Sscanf(rest, "%d", &s.Commits)
	case "copied":
		_, err = fmt.Sscanf(rest, "%d", &s.Copied)
	case "mac":
		s.mac = rest
	case "keyring":
		s.Keyring, err = decodeKeyring(rest)
	case "file":
		var f File
		f.Sum, rest, _ = strings.Cut(rest, " ")
		size, name, _ := strings.Cut(rest, " ")
		f.Name = name
		if _, err = fmt.Sscanf(size, "%d", &f.Size); err == nil {
			err = f.check()
		}
		s.Files = append(s.Files, f)
	default:
		err = errors.New("the line is unknown")
	}
	return err
}

// decodeKeyring reads the identity of a keyring and the generations of its shards.
func decodeKeyring(text string) (state disk.KeyringState, err error) {
	words := strings.Fields(text)
	if len(words) != 1+len(state.Generations) || !isIdentity(words[0]) {
		return state, errors.New("not the state of a keyring")
	}
	raw, err := hex.DecodeString(words[0])
	copy(state.Identity[:], raw)
	for i, word := range words[1:] {
		if err == nil {
			state.Generations[i], err = strconv.ParseUint(word, 10, 64)
		}
	}
	return state, err
}

// engineFile matches the names of the engine's files in a checkpoint.
var engineFile = regexp.MustCompile(`^([0-9]{6,20}\.(sst|blob|log)|(MANIFEST|OPTIONS)-[0-9]{6,20}|marker\.[a-z-]+\.[0-9]{6,20}\.(MANIFEST-)?[0-9]{1,20})$`)

// check refuses names that no backup writes: a restore would put such a file into the data
// directory, where it may have a meaning, or out of it. It refuses sums that are not hashes, too.
func (f File) check() error {
	base, engine := strings.CutPrefix(f.Name, journalPrefix)
	if engine && !engineFile.MatchString(base) || !engine && f.Name != MasterKeyName {
		return errors.New("no backup has a file of this name")
	}
	if !isSum(f.Sum) || f.Size < 0 {
		return errors.New("neither a hash nor a size")
	}
	return nil
}

// isSum reports whether a text can be the name of a content.
func isSum(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == sha256.Size && strings.ToLower(text) == text
}

// isIdentity reports whether a text can be the name of a keyring.
func isIdentity(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == len(disk.KeyringState{}.Identity) && strings.ToLower(text) == text
}

func isSnapshotName(text string) bool {
	_, err := time.Parse(snapshotName, text)
	return err == nil
}

// snapshotNames returns the names of all snapshots of a backup directory, oldest
// first.
func snapshotNames(fsys vfs.FS, dir string) ([]string, error) {
	names, err := fsys.List(fsys.PathJoin(dir, indexFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a backup directory", dir)
	}
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, unfinished) })
	slices.Sort(names)
	return names, nil
}

// List returns the snapshots of a backup directory, oldest first, and an error for
// indexes that cannot be read. A nil fsys is the operating system's.
func List(fsys vfs.FS, dir string) ([]*Snapshot, error) {
	fsys = orDefault(fsys)
	names, err := snapshotNames(fsys, dir)
	var all []*Snapshot
	for _, name := range names {
		s, broken := readSnapshot(fsys, dir, name)
		if broken != nil {
			err = errors.Join(err, broken)
			continue
		}
		all = append(all, s)
	}
	return all, err
}

// At returns the path of the backup directory that dir is, or of which dir is the
// folder of contents, indexes or keyrings; "" if it is neither. A folder that was copied
// alone counts, and so does a backup directory without a snapshot. A directory with
// journals is a data directory, whatever else is in it. A nil fsys is the operating
// system's.
func At(fsys vfs.FS, dir string) string {
	fsys = orDefault(fsys)
	names, _ := fsys.List(dir) // a directory that does not exist or cannot be read is no backup
	holds := func(folder string, ours func(string) bool) bool {
		names, _ := fsys.List(fsys.PathJoin(dir, folder))
		return slices.ContainsFunc(names, func(name string) bool { return ours(strings.TrimSuffix(name, unfinished)) })
	}
	has := func(folder string) bool {
		info, err := fsys.Stat(fsys.PathJoin(dir, folder))
		return err == nil && info.IsDir()
	}
	switch {
	case slices.Contains(names, strings.TrimSuffix(journalPrefix, "/")):
		return ""
	case has(contentFolder) && has(indexFolder), holds(contentFolder, isSum), holds(indexFolder, isSnapshotName):
		return dir
	case holds("", isSum), holds("", isSnapshotName), holds("", isIdentity):
		return fsys.PathDir(fsys.PathJoin(dir, ".")) // without a slash at the end
	}
	return ""
}

// RestoreCutShort reports whether dir was left by a restore that did not finish. A
// nil fsys is the operating system's.
func RestoreCutShort(fsys vfs.FS, dir string) bool {
	info, err := orDefault(fsys).Stat(orDefault(fsys).PathJoin(dir, restoring))
	return err == nil && info.IsDir()
}

func orDefault(fsys vfs.FS) vfs.FS {
	if fsys == nil {
		return vfs.Default
	}
	return fsys
}

// readSnapshot reads one index.
func readSnapshot(fsys vfs.FS, dir, name string) (*Snapshot, error) {
	path := fsys.PathJoin(dir, indexFolder, name)
	text, err := readFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the backup directory %s has no snapshot %s", dir, name)
	}
	if errors.Is(err, disk.ErrNotRegular) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, err
	}
	s, err := decodeSnapshot(text)
	if err == nil && s.ID != name {
		err = fmt.Errorf("it is the index of %s", s.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	return s, nil
}

func readFile(fsys vfs.FS, path string) ([]byte, error) {
	f, err := disk.OpenRegular(fsys, path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, indexBytesMax+1))
	if err == nil && len(text) > indexBytesMax {
		err = fmt.Errorf("%s has more than %d bytes", path, indexBytesMax)
	}
	return text, errors.Join(err, f.Close())
}

// indexBytesMax is more than the index of a million files takes.
const indexBytesMax = 256 << 20

// chooseSnapshot returns the snapshot of a name, or the newest if name is empty.
func chooseSnapshot(fsys vfs.FS, dir, name string) (*Snapshot, error) {
	if name == "" {
		names, err := snapshotNames(fsys, dir)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("the backup directory %s has no snapshot", dir)
		}
		name = names[len(names)-1]
	}
	return readSnapshot(fsys, dir, name)
}
