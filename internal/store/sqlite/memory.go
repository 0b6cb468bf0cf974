package sqlite

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"maps"
	"os"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// A head is where a tenant's log stands. The zero head is that of an empty log.
type head struct {
	log      int64 // its number, 0 while there is none
	sequence int64 // of the newest event
	at       time.Time
	leaf     translog.Hash
	revoked  bool // anything was ever revoked in the tenant
}

// changes are what a transaction is about to make of the memory.
type changes struct {
	heads    map[string]head
	policies map[[sha256.Size]byte]bool
}

func newChanges() changes {
	return changes{heads: map[string]head{}, policies: map[[sha256.Size]byte]bool{}}
}

func (c changes) clone() changes { return changes{maps.Clone(c.heads), maps.Clone(c.policies)} }

// A memory is what the writer knows of the database. What it knows is true until anybody else commits. Beside that it keeps
// the largest log that it has seen of each tenant, for as long as the store is open: a smaller one is refused.
type memory struct {
	version int64 // SQLite's data_version, which any other connection's commit changes
	known   changes
	largest map[string]head
}

func newMemory() memory { return memory{known: newChanges(), largest: map[string]head{}} }

// maxKnown bounds how many policies are remembered as being there.
const maxKnown = 4096

// forget gives up what may no longer be true.
func (m *memory) forget() {
	m.version = 0
	m.known = newChanges()
}

// at is told the version at which a transaction begins.
func (m *memory) at(version int64) {
	if version != m.version {
		m.forget()
		m.version = version
	}
}

// keep takes over what was committed.
func (m *memory) keep(c changes) {
	maps.Copy(m.known.heads, c.heads)
	maps.Copy(m.largest, c.heads)
	if len(m.known.policies) > maxKnown {
		clear(m.known.policies)
	}
	maps.Copy(m.known.policies, c.policies)
}

// files are the database and its write-ahead log as they were when they were opened.
type files struct {
	path     string
	db, logs fs.FileInfo
}

// check refuses when another file stands where the database stood: what is written to the old one would be lost, and the
// new one may be older. A new connection has a new write-ahead log, but never a new database.
func (f *files) check(fresh bool) error {
	db, err := os.Stat(f.path)
	logs, walErr := os.Stat(f.path + "-wal")
	if err = errors.Join(err, walErr); err != nil {
		return fail(counterfoil.CodeIntegrityFailed, "the database was removed while it was open", err)
	}
	if f.db == nil {
		f.db = db
	}
	if fresh {
		f.logs = logs
	}
	if !os.SameFile(f.db, db) || !os.SameFile(f.logs, logs) {
		return fail(counterfoil.CodeIntegrityFailed, "the database was replaced while it was open; restart to go on with what is there", nil)
	}
	return nil
}
