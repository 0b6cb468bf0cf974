//go:build !unix

package pgtest

// A cluster is none on this system: its tests are skipped.
type cluster struct{ dir string }

func (*cluster) create([]string) error { return errMissing }
func (*cluster) start([]string) error  { return errMissing }
func (*cluster) crash() error          { return errMissing }
func (*cluster) remove()               {}
