package show_test

import (
	"testing"

	"github.com/counterfoil/counterfoil/internal/console/show"
)

// The last letter of each table tells whether its two halves are of the same length.
func TestLatin_tables_line_up(t *testing.T) {
	t.Parallel()
	for r, want := range map[rune]rune{'Α': 'A', 'ϱ': 'p', 'А': 'A', 'б': '6', 'ь': 'b', 'Օ': 'O', 'Ꮪ': 'S', 'ⲭ': 'x', 'a': 0, 'д': 0, '世': 0} {
		if got := show.Latin(r); got != want {
			t.Errorf("%q is drawn like %q, want %q", r, got, want)
		}
	}
}
