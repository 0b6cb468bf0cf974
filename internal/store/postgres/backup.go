package postgres

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/counterfoil/counterfoil"
)

// Backup writes all that the store has, as of one moment, into a new file in pg_dump's own format, while others work on. It
// runs pg_dump from the PATH, which must not be older than the server. pg_restore --clean --if-exists brings it back.
func Backup(ctx context.Context, address, file string) error {
	args, env, err := dumpCommand(address)
	if err != nil {
		return err
	}
	program, err := exec.LookPath("pg_dump")
	if err != nil {
		return fail(counterfoil.CodeUnavailable, "pg_dump is not installed; it comes with PostgreSQL's client programs", nil)
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return fail(counterfoil.CodeInvalidInput, "the backup's file exists already", nil)
	}
	// Under another name until it is whole.
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*.part") // readable by the user alone
	if err != nil {
		return fail(counterfoil.CodeUnavailable, "the backup's file can't be made", nil)
	}
	defer os.Remove(f.Name())                         //nolint:errcheck // it has its own name by then, or is of no use
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // the operator's own address, without its secrets
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = f, io.Discard // what it says may repeat parts of the address
	err = cmd.Run()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		_ = f.Close()
		return fail(counterfoil.CodeUnavailable, "pg_dump failed with exit code "+strconv.Itoa(e.ExitCode())+"; run "+shown(args)+" to see why", nil)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fail(counterfoil.CodeUnavailable, "the backup could not be written", nil)
	}
	if err := os.Link(f.Name(), file); err != nil { // unlike a rename, it replaces nothing
		return fail(counterfoil.CodeUnavailable, "the backup can't be moved into its place", nil)
	}
	return nil
}

// dumpCommand makes pg_dump's arguments, in which there is no secret, and what goes into its environment.
func dumpCommand(address string) (args, env []string, err error) {
	cfg, schema, err := parseURL(address)
	if err != nil {
		return nil, nil, err
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, fail(counterfoil.CodeInvalidInput, "the database's address is not a postgres:// URL", nil)
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	kept := url.Values{}
	for name, values := range u.Query() {
		switch name {
		case "host", "port", "user", "dbname", "sslmode", "sslcert", "sslkey", "sslrootcert", "sslnegotiation", "target_session_attrs",
			"connect_timeout", "passfile", "service", "channel_binding", "krbsrvname":
			kept[name] = values
		case "sslpassword":
			return nil, nil, fail(counterfoil.CodeInvalidInput, "a backup can't be made with sslpassword in the address", nil)
		}
	}
	u.RawQuery, u.Fragment = kept.Encode(), ""
	args = []string{"--format=custom", "--no-owner", "--no-privileges", "--no-password", "--schema=" + schema, "--dbname=" + u.String()}
	if cfg.ConnConfig.Password != "" {
		env = append(env, "PGPASSWORD="+cfg.ConnConfig.Password)
	}
	return args, env, nil
}

// shown is the command as a person would type it.
func shown(args []string) string { return `"pg_dump ` + strings.Join(args, " ") + `"` }
