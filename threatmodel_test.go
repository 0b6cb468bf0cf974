package counterfoil_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs/threat-model.md names tests that exist, every gate of the chain in its order, and every invariant.
func TestThreatModel(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("docs", "threat-model.md"))
	noError(t, err)
	tests := newTestIndex(t, testDirs(t)...)
	named := regexp.MustCompile("`(?:([a-z/]+)\\.)?((?:Test|Fuzz|Benchmark)[^`]*)`")
	section, invariants, gates := "", 0, []string{}
	for line := range strings.Lines(string(b)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
		}
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) != 3 || strings.HasPrefix(line, "| --- ") || strings.HasPrefix(cells[2], "tests ") {
			continue
		}
		found := named.FindAllStringSubmatch(cells[2], -1)
		if len(found) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, m := range found {
			dir := m[1]
			if dir == "" {
				dir = "."
			}
			if missing := tests.missing(dir, m[2]); missing != "" {
				t.Errorf("there is no test %s of %s (%s)", m[2], dir, missing)
			}
		}
		switch section {
		case "The gates":
			gates = append(gates, strings.Trim(cells[0], "| `"))
		case "The invariants":
			invariants++
			if want := "| INV-" + strconv.Itoa(invariants) + ":"; !strings.HasPrefix(line, want) {
				t.Errorf("%s should begin with %s", line, want)
			}
		}
	}
	if invariants != 9 {
		t.Errorf("%d invariants", invariants)
	}
	if d := cmp.Diff(gatesOf(t), gates); d != "" {
		t.Errorf("the gates (-chain +document): %s", d)
	}
}

// gatesOf returns the names of the gates as the chain lists them.
func gatesOf(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("internal", "gateway", "chain.go"), nil, parser.SkipObjectResolution)
	noError(t, err)
	var out []string
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "gates" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				name, err := strconv.Unquote(text.Value)
				noError(t, err)
				out = append(out, name)
			}
			return true
		})
	}
	if len(out) == 0 {
		t.Fatal("the chain has no gates")
	}
	return out
}
