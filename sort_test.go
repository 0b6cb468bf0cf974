package counterfoil_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/counterfoil/counterfoil"
)

// object writes an object with these names in this order, each with its place in the order of code units as its value, and
// the canonical object beside it.
func objectOf(t *testing.T, names []string) (in, canon string) {
	t.Helper()
	sorted := slices.Clone(names)
	slices.SortFunc(sorted, func(a, b string) int { return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b))) })
	write := func(names []string) string {
		var b strings.Builder
		for i, name := range names {
			var quoted strings.Builder
			e := json.NewEncoder(&quoted)
			e.SetEscapeHTML(false)
			noError(t, e.Encode(name))
			canonical := strings.NewReplacer("\n", "", `\u2028`, "\u2028", `\u2029`, "\u2029").Replace(quoted.String())
			fmt.Fprintf(&b, "%c%s:%d", "{,"[min(i, 1)], canonical, len(name))
		}
		return b.String() + "}"
	}
	return write(names), write(sorted)
}

// Names are sorted by windows and by radix; the order is that of their UTF-16 code units, whatever they are made of.
func TestCanonicalize_sortsByCodeUnits(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	alphabets := [][]rune{
		[]rune("ab"), []rune("a"), []rune("0123456789abcdef"), {0, 'a'}, {0, 1, 0x1F}, {'"', '\\', '\n', '/'}, {0xD7FF, 0xE000, 0xFFFD, 0xFFFF, 0x10000, 0x10FFFF},
		{'z', 'é', '€', 0xFB33, 0x1F600}, {0x7F, 0x80, 0x7FF, 0x800}, {0xEE00, 0xEF00, 0xF000, 0xFE00, 0xFFEE}, {0x1F600, 0x1F601},
	}
	for range 40 {
		alphabet, prefix := alphabets[r.IntN(len(alphabets))], ""
		n, longest, seen := 1+r.IntN([]int{4, 40, 400, 2000}[r.IntN(4)]), 1+r.IntN(30), map[string]bool{}
		var names []string
		for range n {
			name := []rune(prefix)
			for range r.IntN(longest + 1) {
				name = append(name, alphabet[r.IntN(len(alphabet))])
			}
			if r.IntN(20) == 0 { // what follows is alike
				prefix = string(name[:min(len(name), 60)])
			}
			if s := string(name); !seen[s] {
				seen[s], names = true, append(names, s)
			}
		}
		in, want := objectOf(t, names)
		got, err := counterfoil.Canonicalize([]byte(in))
		noError(t, err)
		if string(got) != want {
			t.Fatalf("%.200s\nbecame %.200s\nwant   %.200s", in, got, want)
		}
		if counterfoil.IsCanonical([]byte(in)) != (in == want) {
			t.Fatalf("the short cut errs about %.200s", in)
		}
		// One name twice, anywhere.
		twice := slices.Insert(slices.Clone(names), r.IntN(len(names)+1), names[r.IntN(len(names))])
		in, _ = objectOf(t, twice)
		_, err = counterfoil.Canonicalize([]byte(in))
		wantCode(t, err, counterfoil.CodeInvalidInput)
		if !strings.Contains(err.Error(), "twice") {
			t.Fatalf("%.200s: %v", in, err)
		}
	}
}
