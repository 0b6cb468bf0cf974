package console

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil/internal/console/show"
)

// A diffLine is a line of the difference between two documents.
type diffLine struct {
	Sign string // "-" was, "+" is, " " is unchanged, "…" stands for unchanged lines that are left out
	Text []show.Segment
}

const (
	diffContext = 3
	// maxDiff bounds the work: beyond it, all old lines are shown as gone and all new ones as come.
	maxDiff = 4_000_000
)

// diff compares two JSON documents line by line, each member on a line of its own.
func diff(was, is []byte) []diffLine {
	a, b := lines(was), lines(is)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var signs []string
	for range head {
		signs = append(signs, " ")
	}
	signs = append(signs, edits(a[head:len(a)-tail], b[head:len(b)-tail])...)
	for range tail {
		signs = append(signs, " ")
	}
	return folded(signs, a, b)
}

func lines(doc []byte) []string {
	v := jsontext.Value(slices.Clone(doc))
	if err := v.Indent(jsontext.WithIndent("  ")); err != nil {
		return []string{string(doc)}
	}
	return strings.Split(string(v), "\n")
}

// edits returns the shortest way from a to b: "-" drops a line of a, "+" takes one of b, " " takes one that both have.
func edits(a, b []string) []string {
	var out []string
	if len(a)*len(b) > maxDiff {
		return append(slices.Repeat([]string{"-"}, len(a)), slices.Repeat([]string{"+"}, len(b))...)
	}
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	common := make([][]int32, len(a)+1)
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, " ")
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			out = append(out, "-")
			i++
		default:
			out = append(out, "+")
			j++
		}
	}
	return out
}

// folded turns signs into lines and leaves out what is unchanged and far from a change.
func folded(signs, a, b []string) []diffLine {
	var out []diffLine
	i, j, skipped := 0, 0, 0
	for at, sign := range signs {
		var text string
		switch sign {
		case "-":
			text, i = a[i], i+1
		case "+":
			text, j = b[j], j+1
		default:
			text, i, j = a[i], i+1, j+1
			if !slices.ContainsFunc(signs[max(0, at-diffContext):min(len(signs), at+diffContext+1)], func(s string) bool { return s != " " }) {
				skipped++
				continue
			}
		}
		if skipped > 0 {
			out = append(out, diffLine{"…", show.Text(count(skipped, "unchanged line"))})
			skipped = 0
		}
		out = append(out, diffLine{sign, show.JSON(text)})
	}
	if skipped > 0 {
		out = append(out, diffLine{"…", show.Text(count(skipped, "unchanged line"))})
	}
	return out
}
