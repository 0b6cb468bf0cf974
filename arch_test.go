package counterfoil_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// update makes the tests rewrite the committed files that they compare with: go test . -update
var update = flag.Bool("update", false, "rewrite the committed files that tests compare with")

const module = "github.com/counterfoil/counterfoil"

// everything, in a row of imports, allows all packages of ours but those for tests.
const everything = "*"

// imports says which packages of ours a package may import, by their paths in the module ("." is the root). It is the
// picture of docs/architecture.md: change both together. A package without a row fails. Tests may import what they like.
var imports = map[string][]string{
	".":                        {},
	"counterfoiltest":          {"."},
	"mcpexec":                  {"."},
	"redact":                   {"."},
	"scan":                     {},
	"internal/reach":           {"."},
	"internal/governance":      {".", "internal/reach"},
	"internal/vault":           {"."},
	"internal/filelock":        {},
	"internal/keystore":        {".", "internal/vault", "internal/filelock"},
	"internal/translog":        {".", "internal/filelock"},
	"internal/identity":        {"."},
	"internal/credential":      {".", "internal/identity"},
	"internal/hooks":           {".", "internal/reach"},
	"internal/idempotency":     {".", "internal/vault"},
	"internal/ratelimit":       {"."},
	"internal/tenancy":         {".", "internal/gateway", "internal/identity"},
	"internal/gateway":         {".", "scan", "internal/reach", "internal/governance", "internal/vault", "internal/translog"},
	"internal/store/sqlite":    {".", "internal/gateway", "internal/translog", "internal/identity", "internal/credential", "internal/hooks", "internal/idempotency", "internal/tenancy", "internal/ratelimit", "internal/vault", "internal/store/rowscan", "internal/filelock"},
	"internal/store/postgres":  {".", "internal/gateway", "internal/translog", "internal/identity", "internal/credential", "internal/hooks", "internal/idempotency", "internal/tenancy", "internal/ratelimit", "internal/vault", "internal/store/rowscan"},
	"internal/store/rowscan":   {"internal/credential", "internal/gateway", "internal/hooks", "internal/idempotency", "internal/identity", "internal/ratelimit", "internal/tenancy", "internal/vault"},
	"internal/store/pgtest":    {},
	"internal/store/storetest": {".", "internal/gateway", "internal/translog", "internal/identity", "internal/credential", "internal/hooks", "internal/idempotency", "internal/tenancy", "internal/ratelimit", "internal/vault"},
	"internal/jsonrpc":         {"."},
	"internal/upstream":        {".", "internal/jsonrpc", "internal/gateway"},
	"internal/mcpserver":       {".", "internal/jsonrpc", "internal/identity", "internal/upstream", "internal/gateway"},
	"internal/api":             {".", "scan", "redact", "internal/gateway", "internal/identity", "internal/credential", "internal/tenancy", "internal/ratelimit", "internal/hooks", "internal/idempotency", "internal/vault", "internal/translog"},
	"internal/console":         {".", "internal/gateway", "internal/console/show"},
	"internal/console/show":    {},
	"internal/sample":          {"internal/jsonrpc"},
	"cmd/counterfoil":          {everything},
	"cmd/counterfoil-verify":   {"."},
}

// foreign says which packages of others a package may import, by the beginning of their paths. A package without a row
// may import what depends.txt shows; one with a row promises to stay small.
var foreign = map[string][]string{
	".": {"github.com/go-json-experiment/json", "golang.org/x/text", "golang.org/x/mod/sumdb"},
}

// forTests are the packages that only tests import. They alone may import "testing" outside _test.go files.
var forTests = []string{"counterfoiltest", "internal/store/pgtest", "internal/store/storetest"}

type goPackage struct {
	ImportPath     string
	Dir            string
	Name           string
	GoFiles        []string
	CgoFiles       []string
	IgnoredGoFiles []string // those of other platforms count too

	path  string // in the module
	files map[string]*ast.File
}

// listPackages returns the module's packages with all their files but the tests parsed, whatever platform they are for.
func listPackages(t *testing.T) []*goPackage {
	t.Helper()
	// -e: a package that doesn't compile is the compiler's to report.
	dec := jsontext.NewDecoder(bytes.NewReader(goTool(t, "list", "-e", "-json=ImportPath,Dir,Name,GoFiles,CgoFiles,IgnoredGoFiles", "./...")))
	var all []*goPackage
	for {
		p := &goPackage{files: map[string]*ast.File{}}
		if err := json.UnmarshalDecode(dec, p); err == io.EOF { //nolint:errorlint // the decoder returns it bare at the end
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		p.path = strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if p.path == "" {
			p.path = "."
		}
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles) {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ImportsOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			p.files[name] = f
		}
		all = append(all, p)
	}
}

// goTool runs the go command for one fixed platform, so that its answer is the same on every machine.
func goTool(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		var stderr []byte
		if e, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output returns it bare
			stderr = e.Stderr
		}
		t.Fatalf("go %s: %v\n%s", args[0], err, stderr)
	}
	return out
}

func (p *goPackage) importPaths(t *testing.T) []string {
	t.Helper()
	paths := map[string]bool{}
	for _, f := range p.files {
		for _, spec := range f.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			paths[path] = true
		}
	}
	return slices.Sorted(maps.Keys(paths))
}

func TestImports(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t) {
		row, ok := imports[p.path]
		if !ok {
			t.Errorf("%s has no row in the map of imports: say what it may import, here and in docs/architecture.md", p.path)
		}
		for _, path := range p.importPaths(t) {
			if rule := forbids(p.path, row, path); rule != "" {
				t.Errorf("%s imports %s: %s", p.path, path, rule)
			}
		}
	}
}

// forbids returns the rule that path breaks when the package from imports it, "" for none.
func forbids(from string, row []string, path string) string {
	ours, isOurs := strings.CutPrefix(path+"/", module+"/")
	ours = strings.TrimSuffix(ours, "/")
	if ours == "" {
		ours = "."
	}
	switch {
	case isOurs && slices.Contains(forTests, ours):
		return "it is for tests alone"
	case isOurs && !slices.Contains(row, ours) && !slices.Contains(row, everything):
		return "the arrow isn't in the picture"
	case path == "testing" && !slices.Contains(forTests, from):
		return "testing belongs into _test.go files"
	}
	first, _, _ := strings.Cut(path, "/")
	allowed, limited := foreign[from]
	if isOurs || !limited || !strings.Contains(first, ".") {
		return ""
	}
	for _, prefix := range allowed {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return ""
		}
	}
	return "this package is to stay small"
}

func TestImports_forbids(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from, path string
		forbidden  bool
	}{
		{".", "crypto/ed25519", false},
		{".", "github.com/go-json-experiment/json/jsontext", false},
		{".", "golang.org/x/text/unicode/norm", false},
		{".", "golang.org/x/mod/sumdb/note", false},
		{".", "golang.org/x/net/idna", true},
		{".", "golang.org/x/net/html", true},
		{".", "github.com/go-json-experiment/jsonx", true},
		{".", "github.com/spf13/cobra", true},
		{".", module + "/scan", true},
		{"internal/gateway", module, false},
		{"internal/gateway", module + "/internal/reach", false},
		{"internal/gateway", module + "/internal/store/sqlite", true},
		{"internal/gateway", module + "x/internal/reach", false}, // another module
		{"internal/gateway", "testing", true},
		{"internal/store/storetest", "testing", false},
		{"cmd/counterfoil", module + "/internal/mcpserver", false},
		{"cmd/counterfoil", module + "/internal/store/storetest", true},
		{"cmd/counterfoil-verify", module + "/scan", true},
	} {
		if rule := forbids(tt.from, imports[tt.from], tt.path); (rule != "") != tt.forbidden {
			t.Errorf("%s imports %s: got rule %q, want forbidden: %v", tt.from, tt.path, rule, tt.forbidden)
		}
	}
}

func TestPackageComments(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t) {
		begin := "Package " + p.Name + " "
		if p.Name == "main" {
			begin = "Command " + filepath.Base(p.Dir) + " "
		}
		var with []string
		for _, name := range slices.Sorted(maps.Keys(p.files)) {
			doc := p.files[name].Doc
			if doc == nil || doc.Text() == "" { // a build constraint alone is no comment
				continue
			}
			with = append(with, name)
			if !strings.HasPrefix(doc.Text(), begin) {
				t.Errorf("%s/%s: the package comment doesn't begin with %q", p.path, name, begin)
			}
		}
		if len(with) != 1 {
			t.Errorf("%s has %d package comments %v, want one", p.path, len(with), with)
		}
	}
}

// TestDepends compares what each command links, of ours and of others, with the committed list beside it, so that a new
// dependency is a line in a review.
func TestDepends(t *testing.T) {
	t.Parallel()
	for _, p := range listPackages(t) {
		if p.Name != "main" {
			continue
		}
		got := string(goTool(t, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", p.ImportPath))
		lines := slices.Sorted(strings.Lines(got))
		got = strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l == "\n" }), "")
		file := filepath.Join(p.Dir, "depends.txt")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%s: no list of dependencies; write it with: go test -run TestDepends . -update (%v)", p.path, err)
			continue
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
			t.Errorf("%s links other packages than %s says; if that is meant: go test -run TestDepends . -update\n(-want +got)\n%s", p.path, file, diff)
		}
	}
}

// TestModulesHaveRecords checks that docs/adr gives a reason for every direct module of go.mod.
func TestModulesHaveRecords(t *testing.T) {
	t.Parallel()
	var records []byte
	files, err := filepath.Glob("docs/adr/0*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no decision records: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, b...)
	}
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(goTool(t, "mod", "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	for _, m := range mod.Require {
		if !m.Indirect && !bytes.Contains(records, []byte("`"+m.Path+"`")) {
			t.Errorf("no record in docs/adr names the module `%s`", m.Path)
		}
	}
}

// TestArchitecture checks that docs/architecture.md has a line for each package.
func TestArchitecture(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for path := range imports {
		if !bytes.Contains(text, []byte("\n| `"+path+"` ")) {
			t.Errorf("docs/architecture.md has no line for `%s`", path)
		}
	}
}
