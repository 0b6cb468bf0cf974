package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// What the two programs say and exit with: testdata/script, a file a story.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(built.counterfoil)+string(os.PathListSeparator)+os.Getenv("PATH"))
			e.Setenv("COUNTERFOIL_STATE", filepath.Join(e.WorkDir, "state"))
			return nil
		},
	})
}
