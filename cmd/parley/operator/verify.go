package operator

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	actorsverify "parley/actors/verify"
	"parley/client/parley"
	"parley/cluster/identity"
	"parley/cmd/parley/datadir"
	"parley/cmd/parley/membership"
	"parley/cmd/parley/program"
	"parley/journal"
	"parley/journal/report"
	"parley/persistence"
	"parley/persistence/keyring"
	"parley/persistence/sealed"
	rowverify "parley/persistence/verify"
)

type VerifyCmd struct {
	Data     string `env:"PARLEY_DATA" default:"./parley-data" placeholder:"DIR" help:"Data directory, which no server may have open. The command changes nothing in it."`
	Diverged bool   `help:"List the ids of the messages that only this node has, because the other nodes of its cluster went on without it from an older copy of a directory."`
}

// verifyCache is the size of the block cache in bytes.
const verifyCache = 64 << 20

// verdict is the result of a verification, as --json prints it.
type verdict struct {
	Data    string         `json:"data"`
	Seconds float64        `json:"seconds"`
	Checks  []checkJSON    `json:"checks"`
	Faults  uint64         `json:"faults"`
	First   []report.Fault `json:"first"`
	// Unread says what could not be read completely, and why.
	Unread string `json:"unread,omitzero"`
}

type checkJSON struct {
	Name    string `json:"name"`
	Says    string `json:"says"`
	Checked uint64 `json:"checked"`
	Faults  uint64 `json:"faults"`
}

// faultsTold is how many faults are printed. All are counted.
const faultsTold = 20

// Run verifies a data directory that no server has open: the engine's files, every row,
// the meaning of the rows, and whether the master key opens them.
func (c *VerifyCmd) Run(std *program.Streams) error {
	if c.Diverged {
		return c.listDiverged(std)
	}
	began := time.Now()
	archive, err := c.open(std)
	if err != nil {
		return datadir.Advise(err, c.Data)
	}
	found := &report.Verification{Progress: readProgress(std)}
	unread := rowverify.Rows(archive, found)
	master, locked := verifyKey(c.Data, archive, found)
	keys, repairable, err := verifyKeyring(c.Data, master, archive, found)
	unread = errors.Join(unread, err, membership.VerifyLog(c.Data, archive, found), verifyContents(archive, keys, found))
	// clearLine clears the line that readProgress has written.
	clearLine(std)
	v := verdictOf(c.Data, found, unread)
	v.Seconds = time.Since(began).Round(time.Millisecond).Seconds()
	if err := errors.Join(archive.Close(), printVerdict(std, v)); err != nil {
		return err
	}
	switch {
	case locked && v.Faults == 1 && unread == nil:
		return program.ExitError{Code: program.ExitUnexpected, Err: fmt.Errorf("no server can start on %s until its master key is fixed, nor can contents be checked; everything else is in order", c.Data)}
	case v.Faults > 0 && v.Faults == v.faultsOf("quarantine") && unread == nil:
		return program.ExitError{Code: program.ExitUnexpected, Err: fmt.Errorf("%d stored effects in %s could not be decoded and were not applied; everything else is in order.\nList them with \"%s\", then drop them (see Quarantine in docs/operations.md)", v.Faults, c.Data, program.Typed("quarantine list --data "+c.Data))}
	case repairable && v.Faults > 0 && v.Faults == v.faultsOf("keyring") && unread == nil:
		return program.ExitError{Code: program.ExitUnexpected, Err: fmt.Errorf("%s in the keyring of %s; the next start of the server replaces damaged files with their other copies; everything else is in order", counted(v.Faults, "fault"), c.Data)}
	case v.Faults > 0 && identity.Exists(c.Data):
		return program.ExitError{Code: program.ExitUnexpected, Err: fmt.Errorf("%s in %s; keep a copy of the directory, then replace the node with \"%s\" (see Several nodes in docs/cluster.md)", counted(v.Faults, "fault"), c.Data, program.Typed("cluster replace"))}
	case v.Faults > 0:
		return program.ExitError{Code: program.ExitUnexpected, Err: fmt.Errorf("%s in %s; keep a copy of the directory, then restore the last backup with \"%s\"", counted(v.Faults, "fault"), c.Data, program.Typed("restore"))}
	case unread != nil:
		return program.ExitError{Code: program.ExitUnexpected, Err: fmt.Errorf("%s could not be read completely: %w", c.Data, unread)}
	}
	return nil
}

// divergenceJSON is what --diverged prints with --json.
type divergenceJSON struct {
	Diverged bool `json:"diverged"`
	*membership.OnlyHere
}

func (c *VerifyCmd) open(std *program.Streams) (*persistence.Archive, error) {
	dir, err := datadir.Journal(c.Data)
	if err != nil {
		return nil, err
	}
	return persistence.OpenArchive(dir, persistence.Options{
		Clock: time.Now, CacheBytes: verifyCache,
		Logger: slog.New(slog.NewTextHandler(std.Log(), &slog.HandlerOptions{Level: slog.LevelError})),
		Fatal:  func(err error) { os.Exit(std.Fail(err)) },
	})
}

// listDiverged prints what only this node has.
func (c *VerifyCmd) listDiverged(std *program.Streams) error {
	archive, err := c.open(std) // damaged tables do not matter, but no server may write to the log
	switch {
	case errors.Is(err, persistence.ErrInUse):
		return err
	case err == nil:
		defer func() { _ = archive.Close() }()
	}
	only, err := membership.Diverged(c.Data)
	switch {
	case err != nil:
		return datadir.Advise(err, c.Data)
	case std.JSON:
		return std.Value(divergenceJSON{only != nil, only})
	case only == nil:
		return std.Say("no server has found that %s has diverged from its cluster; a node finds that when it meets the others", c.Data)
	}
	for _, id := range only.Messages {
		err = errors.Join(err, std.Say("%s", id))
	}
	if only.LogBegins > only.Common+1 {
		std.Note("the log begins at entry %d, and the node has entries in common with the others up to %d: the list may lack messages in between", only.LogBegins, only.Common)
	}
	return err
}

// verifyKey checks the master key against the data sealed under it, and returns it and
// whether it found a fault. The key is not part of the archive of the data directory: it may be
// in the environment, and a backup may be without it.
func verifyKey(data string, v datadir.States, into *report.Verification) (datadir.MasterKey, bool) {
	check := into.Check("master-key", "the master key is there, for its owner alone, and opens the keys that sign access tokens")
	check.Checked++
	found, err := datadir.FindMasterKey(data)
	if err == nil {
		err = found.Fits(v)
	}
	if err != nil {
		check.Fault(found.Origin(), "%s", err.Error())
	}
	return found, err != nil
}

// verifyKeyring checks the files of the keyring, and that it has the key of every
// organization. If the master key does not open it, which verifyKey reports, the files are
// compared with their checksums only. repairable reports whether the next start of a server
// repairs everything that is wrong with the files. The report is nil if no key is known.
func verifyKeyring(data string, master datadir.MasterKey, archive *persistence.Archive, into *report.Verification) (opened *keyring.Report, repairable bool, err error) {
	files := into.Check("keyring", "every file of the keyring is sound, and as new as the durability witness says")
	keys := into.Check("org-keys", "the keyring has the key of every organization, or the instant at which it was destroyed")
	witnessed := archive.WitnessedKeyring()
	found, err := datadir.VerifyKeyring(data, master, witnessed)
	if errors.Is(err, persistence.ErrDamaged) {
		files.Checked++
		files.Fault(found.Dir, "%s", err.Error())
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	repairable = found.Report != nil
	if found.Report != nil {
		files.Checked += uint64(found.Files) + 1
		present := found.State
		for _, f := range found.Findings {
			files.Fault(filepath.Join(found.Dir, f.File), "%s", f.Reason)
			repairable = repairable && !f.Fatal && !f.Ignored
			if shard, err := strconv.ParseUint(f.File, 16, 8); f.Fatal && err == nil {
				present.Generations[shard] = witnessed.Generations[shard] // reported already: it is lost, not old
			}
		}
		if err := witnessed.Check(present); err != nil {
			repairable = false
			files.Fault(found.Dir, "%s", err.Error())
		}
	}
	if found.Unopened {
		return nil, false, nil
	}
	if opened = found.Report; opened == nil {
		opened = &keyring.Report{} // of a directory that never had an organization
	}
	if err := carryApplied(opened, data, archive); err != nil {
		return opened, repairable, err
	}
	return opened, repairable, archive.Table(journal.SlugTable, func(_, id []byte) bool {
		keys.Checked++
		if len(id) != len(parley.OrgID{}) || found.Report == nil || found.KeyState(parley.IDFromBytes[parley.OrgID](id)) == keyring.Unknown {
			keys.Fault(fmt.Sprintf("organization %x", id), "it has no key: its contents cannot be read")
		}
		return true
	})
}

// carryApplied adds the new keys that a node has in its log alone, if it crashed.
func carryApplied(keys *keyring.Report, data string, archive *persistence.Archive) error {
	at, err := archive.Position()
	if err != nil {
		return err
	}
	changes, err := membership.AppliedKeys(data, at)
	if err != nil {
		return err
	}
	return keys.Carry(changes)
}

// verifyContents opens all contents and compares everything that is stored with the
// events. Without keys it can do neither, which a fault of another check explains.
func verifyContents(archive *persistence.Archive, keys *keyring.Report, into *report.Verification) error {
	if keys == nil {
		return nil
	}
	opened := sealed.NewArchive(archive, datadir.Sealer(keys))
	erased, err := opened.Verify(into)
	if err != nil {
		return err
	}
	if erased > 0 {
		into.Check("erased-contents", "contents of erased organizations remain, which nobody can read; until they are removed, rows cannot be compared with events").Checked = erased
		return nil
	}
	return actorsverify.Run(actorsverify.ArchiveOf(opened), into)
}

// counted returns a number with its noun.
func counted(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func verdictOf(data string, from *report.Verification, unread error) *verdict {
	v := &verdict{Data: data, Faults: from.Faults(), First: from.First(faultsTold)}
	for _, c := range from.Checks() {
		v.Checks = append(v.Checks, checkJSON{Name: c.Name, Says: c.Says, Checked: c.Checked, Faults: c.Faults})
	}
	if v.First == nil {
		v.First = []report.Fault{}
	}
	if unread != nil {
		v.Unread = unread.Error()
	}
	return v
}

// faultsOf returns how many faults a check has found.
func (v *verdict) faultsOf(check string) (n uint64) {
	for _, c := range v.Checks {
		if c.Name == check {
			n += c.Faults
		}
	}
	return n
}

// printVerdict prints the checks, and the first faults.
func printVerdict(s *program.Streams, v *verdict) error {
	if s.JSON {
		return s.Value(v)
	}
	rows := [][]string{{"CHECK", "CHECKED", "FAULTS", "WHAT MUST HOLD"}}
	checked := uint64(0)
	for _, c := range v.Checks {
		checked += c.Checked
		rows = append(rows, []string{c.Name, strconv.FormatUint(c.Checked, 10), strconv.FormatUint(c.Faults, 10), c.Says})
	}
	err := s.Table(rows)
	for _, f := range v.First {
		err = errors.Join(err, s.Say("\n%s: %s\n  %s", f.Check, f.Where, f.Means))
	}
	if more := v.Faults - uint64(len(v.First)); more > 0 {
		err = errors.Join(err, s.Say("\nand %d more", more))
	}
	if v.Unread != "" {
		return errors.Join(err, s.Say("\nnot examined to the end: %s", v.Unread))
	}
	if v.Faults == 0 {
		err = errors.Join(err, s.Say("\n%s is in order: %d checks held %d times, in %.1f s", v.Data, len(v.Checks), checked, v.Seconds))
	}
	return err
}

// readProgress returns a function that shows what is being read in one terminal line,
// which it overwrites. It returns nil if standard error is not a terminal.
func readProgress(s *program.Streams) func(what string, rows uint64) {
	if !program.IsTerminal(s.RawErr) {
		return nil
	}
	var told time.Time
	return func(what string, rows uint64) {
		if now := time.Now(); now.Sub(told) >= 100*time.Millisecond {
			told = now
			_, _ = fmt.Fprintf(s.RawErr, "\r\033[Kreading %s, %d rows", what, rows)
		}
	}
}

// clearLine clears the line that readProgress has written.
func clearLine(s *program.Streams) {
	if program.IsTerminal(s.RawErr) {
		_, _ = fmt.Fprint(s.RawErr, "\r\033[K")
	}
}
