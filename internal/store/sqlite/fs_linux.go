package sqlite

import (
	"golang.org/x/sys/unix"

	"github.com/counterfoil/counterfoil"
)

// checkFileSystem refuses file systems whose locks or flushes can't be relied on: those that lie on other machines, and
// those of which nobody can tell.
func checkFileSystem(dir string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return fail(counterfoil.CodeUnavailable, "the file system of the database can't be looked at", err)
	}
	if name := remote(int64(s.Type)); name != "" { //nolint:unconvert // the field's type differs between architectures
		return fail(counterfoil.CodeUnavailable, "the database is on "+name+"; it needs a local disk", nil)
	}
	return nil
}

// remote names a file system that is refused, "" for one that is not.
func remote(magic int64) string {
	switch uint32(magic) { //nolint:gosec // magic numbers have 32 bits, in fields of several widths and signs
	case unix.NFS_SUPER_MAGIC:
		return "NFS"
	case unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC:
		return "an SMB share"
	case unix.V9FS_MAGIC:
		return "a 9P share"
	case unix.FUSE_SUPER_MAGIC:
		return "a FUSE file system"
	case unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CODA_SUPER_MAGIC, unix.NCP_SUPER_MAGIC, lustre:
		return "a network file system"
	default:
		return ""
	}
}

// lustre is the magic number of Lustre, which the kernel's own headers lack.
const lustre = 0x0bd00bd0
