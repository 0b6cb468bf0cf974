package gateway_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil/internal/gateway"
)

// docs/errors.md has a section for each reason, in the order of the numbers.
func TestReasons_documented(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/errors.md")
	must(t, err)
	_, doc, ok := strings.Cut(string(b), "## Reasons of the gateway")
	if !ok {
		t.Fatal("no section for the reasons")
	}
	for i, r := range gateway.Reasons() {
		heading := "### " + string(r) + "\n\n" + strconv.Itoa(7001+i) + ". "
		before, after, found := strings.Cut(doc, heading)
		if !found || strings.Contains(before, "### ") && i == 0 {
			t.Errorf("no section %q in its place", heading)
			continue
		}
		if r.Number() != 7001+i {
			t.Errorf("%s has number %d", r, r.Number())
		}
		doc = after
	}
	if strings.Contains(doc, "### ") {
		t.Error("a section for a reason that there is not")
	}
}
