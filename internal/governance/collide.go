package governance

import (
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// A mirror finds names that a person could take for one another.
type mirror struct {
	fold  cases.Caser
	looks *strings.Replacer
}

func newMirror() mirror {
	// Letters of other scripts that are drawn like Latin ones, and the classic pairs of digits and letters.
	const pairs = "аaеeоoрpсcуyхxіiјjѕsһhԁdԛqԝwԍgӏlвbкkмmнhтtьb" + // Cyrillic, as it looks in either case
		"АAВBЕEКKМMНHОOРPСCТTУYХXЅSІlЈJԌGӀlҺHԚQԜW" +
		"αaοoνvρpυuιiκkτtχxγyηn" + "ΑAΒBΕEΖZΗHΙlΚKΜMΝNΟOΡPΤTΥYΧX" + // Greek
		"ıiɑaɡgɩiʋvɪiƖlǀl" + "օoսuհhոnզqցgյjԱU" + // Latin beyond ASCII, Armenian
		"0O1lIl|l" + "‐-‑-‒-–-—-−-" + "ˍ_․.ꓸ.؞."
	var table []string
	for _, r := range pairs {
		table = append(table, string(r))
	}
	return mirror{fold: cases.Fold(), looks: strings.NewReplacer(table...)}
}

// keys returns two forms of a name. Two names that share either can be taken for one another: the first ignores case and
// compatibility forms, the second what letters look like as well.
func (m mirror) keys(name string) (folded, looks string) {
	n := norm.NFKC.String(name)
	return norm.NFKC.String(m.fold.String(n)), norm.NFKC.String(m.fold.String(m.looks.Replace(n)))
}

// collisions returns, for each name that can be taken for another, why. A name that is there twice collides with itself.
func collisions(names []string) map[string]string {
	m := newMirror()
	out, seen := map[string]string{}, map[string]bool{}
	byFold, byLooks := map[string]string{}, map[string]string{}
	report := func(name, other, why string) {
		if other != "" && other != name {
			out[name], out[other] = why, why
		}
	}
	for _, name := range names {
		if seen[name] {
			out[name] = "the server lists two tools of this name"
			continue
		}
		seen[name] = true
		folded, looks := m.keys(name)
		report(name, byLooks[looks], "another tool's name looks the same")
		report(name, byFold[folded], "another tool's name differs in case or spelling alone")
		byFold[folded], byLooks[looks] = name, name
	}
	return out
}
