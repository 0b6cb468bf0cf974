//go:build !unix

package pgtest

// A cluster is none on this system: its tests are skipped.
type cluster struct {
	parent, dir string
	ended       chan struct{}
}

func (*cluster) create([]string) error { return errMissing }
func (*cluster) start([]string) error  { return errMissing }
func (*cluster) crash() error          { return errMissing }
func (*cluster) remove()               {}
