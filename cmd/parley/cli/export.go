package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"parley/client"
	"parley/cmd/parley/profile"
	"parley/cmd/parley/program"
)

type ExportCmd struct {
	profile.Flags
	File string `arg:"" help:"File to write, which must not exist yet; - for standard output."`
}

// partialExport is the suffix of an export that is not complete.
const partialExport = ".partial"

// Run writes the export beside the file and gives it its name only when number and digest
// of its records are those of the server.
func (c *ExportCmd) Run(ctx context.Context, std *program.Streams, from *client.Session) error {
	if c.File == "-" {
		_, err := export(ctx, from, std.Exact())
		return err
	}
	if _, err := os.Lstat(c.File); err == nil {
		return program.ExitError{Code: program.ExitUsage, Err: errors.New(c.File + " exists already")}
	}
	file, err := os.OpenFile(c.File+partialExport, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	made, err := export(ctx, from, file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), c.File)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return std.Show(made, "exported %d records, %d bytes, to %s\nsha256 %s", made.Records, made.Bytes, c.File, made.SHA256)
}

// export writes the export of the client's organization.
func export(ctx context.Context, from *client.Session, to io.Writer) (*client.Exported, error) {
	org, err := from.Org.Get(ctx)
	if err != nil {
		return nil, err
	}
	buffered := bufio.NewWriterSize(to, 1<<20)
	made, err := from.Org.Export(ctx, org.ID, buffered)
	return made, errors.Join(err, buffered.Flush())
}
