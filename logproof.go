package counterfoil

import (
	"crypto/sha256"

	"golang.org/x/mod/sumdb/tlog"
)

// LeafHash returns the hash of a sealed event in its log's tree (RFC 6962, section 2.1).
func LeafHash(event []byte) [sha256.Size]byte { return tlog.RecordHash(event) }

// An Inclusion is a sealed event with the proof of its place in a log.
type Inclusion struct {
	Event []byte              // canonical
	Index int64               // of the leaf, from 0: one less than the event's sequence
	Path  [][sha256.Size]byte // the audit path of RFC 6962, section 2.1.1, from the leaf up
}

// Verify checks that the event is the leaf at the index of the checkpoint's tree. It fails with CodeIntegrityFailed; whether
// the checkpoint may be believed is another question (Checkpoint.Verify).
func (i *Inclusion) Verify(c *Checkpoint) error {
	if err := tlog.CheckRecord(hashes(i.Path), c.size, c.root, i.Index, LeafHash(i.Event)); err != nil {
		return failWith(CodeIntegrityFailed, "the log does not have this event at this place", err)
	}
	return nil
}

// CheckConsistency checks that the newer of two checkpoints of one log has all leaves of the older one, by the proof of RFC
// 6962, section 2.1.2. It fails with CodeIntegrityFailed: then the log was shortened or forked, or the proof is of something
// else.
func CheckConsistency(older, newer *Checkpoint, path [][sha256.Size]byte) error {
	if older.origin != newer.origin {
		return fail(CodeIntegrityFailed, "the checkpoints are of two logs")
	}
	if err := tlog.CheckTree(hashes(path), newer.size, newer.root, older.size, older.root); err != nil {
		return failWith(CodeIntegrityFailed, "the newer checkpoint does not have all leaves of the older one", err)
	}
	return nil
}

func hashes(path [][sha256.Size]byte) []tlog.Hash {
	out := make([]tlog.Hash, len(path))
	for i, h := range path {
		out[i] = h
	}
	return out
}
