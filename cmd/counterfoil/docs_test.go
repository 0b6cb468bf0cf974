package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil/internal/translog"
)

// What the operations page tells people to type is there, and every finding of a verification is explained.
func TestOperations(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/operations.md")
	must(t, err)
	text := string(b)
	found := 0
	for _, m := range regexp.MustCompile("counterfoil ((?:[a-z-]+ ?)+)").FindAllStringSubmatch(text, -1) {
		words := strings.Fields(m[1])
		root := (&app{}).root()
		cmd, rest, err := root.Find(words)
		if err != nil || cmd == root {
			continue // the name in a sentence
		}
		found++
		if cmd.HasSubCommands() && len(rest) > 0 {
			t.Errorf("there is no command %q", m[0])
		}
	}
	if found < 20 {
		t.Errorf("%d commands", found)
	}
	for _, k := range []translog.Kind{
		translog.KindShortened, translog.KindHeadless, translog.KindGap, translog.KindReordered, translog.KindEdited, translog.KindMalformed,
		translog.KindTenant, translog.KindAudience, translog.KindTime, translog.KindPhase, translog.KindDropped, translog.KindRoot,
		translog.KindForked, translog.KindSignature, translog.KindRetiredKey, translog.KindTiles, translog.KindNoReference,
	} {
		if !strings.Contains(text, "`"+string(k)+"`") {
			t.Errorf("the finding %q is not explained", k)
		}
	}
}
