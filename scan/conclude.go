package scan

import (
	"slices"
	"strings"
)

// conclude applies the rules to the words that were kept.
func (t *tokenizer) conclude() {
	rules := t.r.s.rules
	for f := range flavour(flavours) {
		hits := t.hits[f]
		if f == reversed {
			hits = turnRound(hits)
		}
		rules.match(hits, func(r *rule, first, last int) { t.found(r, hits, first, last, f) })
	}
}

// turnRound returns the hits in the order in which reversed words are read.
func turnRound(hits []hit) []hit {
	hits = slices.Clone(hits)
	slices.Reverse(hits)
	for i := range hits {
		hits[i].token = -hits[i].token
	}
	return hits
}

// found reports one match.
func (t *tokenizer) found(r *rule, hits []hit, first, last int, f flavour) {
	start, end := hits[first].start, hits[last].end
	if f == reversed {
		start, end = hits[last].start, hits[first].end
	}
	if r.names && !t.inName(start, end) {
		return
	}
	fd := Finding{Pattern: r.name, Family: r.family, Severity: r.severity}
	if f == plain && t.l.path == "" && fd.Severity >= SeverityMedium && (t.negated(r, hits, first) || t.mentioned(hits, first, last)) {
		fd.Severity = SeverityLow
	}
	t.r.report(t.l, fd, start, end, f.String())
}

// inName reports whether [start, end) lies within a member's name.
func (t *tokenizer) inName(start, end int) bool {
	if t.l.parent != nil {
		return false
	}
	lf := t.l.leaves[t.l.leafAt(start)]
	return lf.name && end <= lf.start+lf.size
}

// negated reports whether "not" or "never" stands right before the match: that forbids what the rule looks for. "Why not"
// doesn't.
func (t *tokenizer) negated(r *rule, hits []hit, first int) bool {
	if r.steps[0].any&sNot != 0 {
		return false
	}
	at := hits[first]
	for i := first - 1; i >= 0 && at.token-hits[i].token == 1; i-- {
		at = hits[i]
		if at.set&sNot != 0 {
			before := strings.TrimRight(t.s[max(0, at.start-8):at.start], " \t\r\n")
			return !strings.EqualFold(before[max(0, len(before)-3):], "why")
		}
		if r.steps[0].any&sYour == 0 || at.set&(sReveal|sGive) == 0 {
			return false
		}
	}
	return false
}

// mentioned reports whether the match is talked about rather than said: it stands in quotes, and words nearby call it
// an example, an attack, a phrase.
func (t *tokenizer) mentioned(hits []hit, first, last int) bool {
	if !quoted(t.s, hits[first].start, hits[last].end) {
		return false
	}
	const near = 12 // words
	for i := first - 1; i >= 0 && hits[first].token-hits[i].token <= near; i-- {
		if hits[i].set&sMention != 0 {
			return true
		}
	}
	for i := last + 1; i < len(hits) && hits[i].token-hits[last].token <= near; i++ {
		if hits[i].set&sMention != 0 {
			return true
		}
	}
	return false
}

// quotedMarker reports whether a marker stands between backticks or quotation marks of its own.
func (t *tokenizer) quotedMarker(start, end int) bool {
	if start == 0 || end >= len(t.s) {
		return false
	}
	open, shut := t.s[start-1], t.s[end]
	return open == shut && (open == '`' || open == '"' || open == '\'')
}

// quoted reports whether [start, end) stands between quotation marks with next to nothing beside it.
func quoted(s string, start, end int) bool {
	const lead, trail = 12, 24
	before, after := s[max(0, start-lead):start], s[end:min(len(s), end+trail)]
	for _, q := range [...][2]string{{`"`, `"`}, {"`", "`"}, {"'", "'"}, {"“", "”"}, {"‘", "’"}, {"«", "»"}, {"„", "“"}} {
		i := strings.LastIndex(before, q[0])
		if i < 0 || !strings.Contains(after, q[1]) {
			continue
		}
		if q[0] == "'" && i > 0 && alnum(before[i-1]) {
			continue // an apostrophe
		}
		return true
	}
	return false
}
