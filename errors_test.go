package counterfoil_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
)

// The documentation has one section per code, in the order of the code, and each answers the three questions.
func TestCodes_areDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/errors.md")
	noError(t, err)
	_, part, found := strings.Cut(string(text), "\n## Codes of the boundary\n")
	if !found {
		t.Fatal("docs/errors.md has no section for the codes")
	}
	part, _, _ = strings.Cut(part, "\n## ")
	var documented []counterfoil.Code
	for _, section := range strings.Split(part, "\n### ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		documented = append(documented, counterfoil.Code(name))
		for _, question := range []string{"\n- Means: ", "\n- Spent: ", "\n- Do: "} {
			if strings.Count(body, question) != 1 {
				t.Errorf("%s does not answer %q once", name, question)
			}
		}
	}
	if d := cmp.Diff(counterfoil.Codes(), documented); d != "" {
		t.Errorf("docs/errors.md documents other codes (-code +document): %s", d)
	}
}

func TestCodes_listsEveryConstant(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("errors.go")
	noError(t, err)
	var declared []counterfoil.Code
	for _, m := range regexp.MustCompile(`(?m)^\tCode\w+\s+Code = "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
		declared = append(declared, counterfoil.Code(m[1]))
	}
	if d := cmp.Diff(declared, counterfoil.Codes()); d != "" || len(declared) < 17 {
		t.Errorf("Codes and the constants differ: %s", d)
	}
	sorted := slices.Sorted(slices.Values(counterfoil.Codes()))
	if len(slices.Compact(sorted)) != len(declared) {
		t.Error("a code stands twice")
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	cause := errors.New("dial tcp 10.0.0.7: secret")
	e := &counterfoil.Error{Code: counterfoil.CodeUnavailable, Path: "/a", Msg: "the signer failed", Err: cause}
	if got := e.Error(); got != "unavailable at /a: the signer failed" {
		t.Errorf("got %q", got)
	}
	wrapped := fmt.Errorf("settling: %w", e)
	if !errors.Is(wrapped, counterfoil.CodeUnavailable) || !errors.Is(wrapped, cause) || errors.Is(wrapped, counterfoil.CodeInternal) {
		t.Error("an error is not what it wraps")
	}
	if got := (&counterfoil.Error{Code: counterfoil.CodeClock, Msg: "x"}).Error(); got != "clock: x" {
		t.Errorf("got %q", got)
	}
	for _, c := range []struct {
		err  error
		want counterfoil.Code
	}{
		{nil, ""}, {wrapped, counterfoil.CodeUnavailable}, {counterfoil.CodeRevoked, counterfoil.CodeRevoked},
		{fmt.Errorf("x: %w", counterfoil.CodeRevoked), counterfoil.CodeRevoked}, {cause, counterfoil.CodeInternal},
		{context.Canceled, counterfoil.CodeInternal},
		{&counterfoil.Error{Code: counterfoil.CodeReceiptFailed, Err: counterfoil.CodeAlreadyUsed}, counterfoil.CodeReceiptFailed},
	} {
		if got := counterfoil.CodeOf(c.err); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}
