package governance

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"golang.org/x/text/cases"

	"github.com/counterfoil/counterfoil"
)

// A Verdict is what rules say about a call. The zero Verdict denies.
type Verdict byte

// The verdicts.
const (
	Deny Verdict = iota
	Ask
	Allow
)

// String returns "deny", "ask" or "allow".
func (v Verdict) String() string {
	switch v {
	case Deny:
		return "deny"
	case Ask:
		return "ask"
	case Allow:
		return "allow"
	}
	return "deny"
}

// A Rule is one line of a person's configuration.
type Rule struct {
	Tool     string `json:"tool"`     // a tool's name, in which * stands for any run of characters
	Decision string `json:"decision"` // "deny", "ask" or "allow", spelled so
}

// Rules are a person's rules for one upstream: they name tools by name alone, so they must not be used for another.
// The zero Rules deny everything.
type Rules struct {
	rules  []compiledRule
	exact  map[string]int // the ruling rule for a name without a star, as written
	folded map[string]int // the ruling deny or ask rule for one, without regard to case
	globs  []int          // rules with a star, the strictest first
	doc    []byte

	// ruling remembers for a tool which rule speaks, -1 for none, so that many rules cost a call no more than one.
	// It stays small: calls are decided for tools that an upstream lists.
	ruling     sync.Map
	remembered atomic.Int32
}

type compiledRule struct {
	verdict Verdict
	pattern string // as written
	folded  string // without regard to case
	text    string // for people
}

// Bounds on a person's rules.
const (
	maxRules       = 4096
	maxRulePattern = 256
	maxRemembered  = 4096
)

// NewRules checks rules and puts them in force together: deny beats ask beats allow, whatever the order and however
// narrow the pattern. No rules are fine: then the defaults decide.
func NewRules(list []Rule) (*Rules, error) {
	if len(list) > maxRules {
		return nil, badRule(maxRules, "there are too many rules")
	}
	r := &Rules{rules: make([]compiledRule, 0, len(list)), exact: map[string]int{}, folded: map[string]int{}}
	for i, rule := range list {
		var v Verdict
		switch rule.Decision {
		case "deny":
			v = Deny
		case "ask":
			v = Ask
		case "allow":
			v = Allow
		default:
			return nil, badRule(i, `a decision is "deny", "ask" or "allow"`)
		}
		if len(rule.Tool) > maxRulePattern || !validName(rule.Tool) {
			return nil, badRule(i, "the tool's name or pattern isn't 1 to 128 visible characters")
		}
		r.rules = append(r.rules, compiledRule{
			verdict: v, pattern: rule.Tool, folded: fold(rule.Tool),
			text: "rule " + strconv.Itoa(i+1) + ": " + v.String() + " " + rule.Tool,
		})
		r.file(i)
	}
	slices.SortStableFunc(r.globs, func(a, b int) int { return int(r.rules[a].verdict) - int(r.rules[b].verdict) })
	doc, err := json.Marshal(struct {
		Rules   []Rule `json:"rules"`
		Version int    `json:"version"`
	}{Rules: list, Version: 1})
	if err != nil {
		return nil, internal("the rules can't be written", err)
	}
	if r.doc, err = counterfoil.Canonicalize(doc); err != nil {
		return nil, internal("the rules can't be written", err)
	}
	return r, nil
}

// file puts rule i where Decide looks for it.
func (r *Rules) file(i int) {
	x := &r.rules[i]
	if strings.Contains(x.pattern, "*") {
		r.globs = append(r.globs, i)
		return
	}
	if j, ok := r.exact[x.pattern]; !ok || r.stricter(i, j) {
		r.exact[x.pattern] = i
	}
	if x.verdict == Allow {
		return
	}
	if j, ok := r.folded[x.folded]; !ok || r.stricter(i, j) {
		r.folded[x.folded] = i
	}
}

// stricter reports whether rule i speaks before rule j: the stricter one, else the earlier one. j may be -1 for none.
func (r *Rules) stricter(i, j int) bool {
	if j < 0 || r.rules[i].verdict != r.rules[j].verdict {
		return j < 0 || r.rules[i].verdict < r.rules[j].verdict
	}
	return i < j
}

// fold returns the form of a name in which letters of either case are the same.
func fold(name string) string {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return cases.Fold().String(name)
		}
	}
	return strings.ToLower(name)
}

func badRule(i int, msg string) error {
	return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: "/rules/" + strconv.Itoa(i), Msg: msg}
}

// Document returns the rules in force as a canonical document, for [counterfoil.RulesDigest].
func (r *Rules) Document() []byte { return append([]byte(nil), r.doc...) }

// Decide returns the verdict on a call of tool with the given effect, and the rule it comes from in words. Without a
// rule reads are allowed and everything else asks. No rule allows a destructive call outright: it asks.
//
// Deny and ask rules ignore case, so that a rule against "delete_*" also holds against "Delete_all"; allow rules don't.
func (r *Rules) Decide(tool string, effect counterfoil.Effect) (verdict Verdict, rule string) {
	if r == nil || r.doc == nil {
		return Deny, "there are no rules in force"
	}
	found := r.find(tool)
	switch {
	case found < 0:
		return byDefault(effect.Class())
	case r.rules[found].verdict == Allow && effect.Class() == counterfoil.ClassDestructive:
		return Ask, r.rules[found].text + ", but destructive calls always ask"
	}
	return r.rules[found].verdict, r.rules[found].text
}

// find returns the index of the rule that speaks for a tool, or -1.
func (r *Rules) find(tool string) int {
	if v, ok := r.ruling.Load(tool); ok {
		if i, ok := v.(int); ok {
			return i
		}
	}
	found, folded := -1, fold(tool)
	if i, ok := r.exact[tool]; ok {
		found = i
	}
	if i, ok := r.folded[folded]; ok && r.stricter(i, found) {
		found = i
	}
	for _, i := range r.globs {
		x := &r.rules[i]
		if found >= 0 && x.verdict > r.rules[found].verdict {
			break
		}
		if r.stricter(i, found) && (glob(x.pattern, tool) || x.verdict != Allow && glob(x.folded, folded)) {
			found = i
			break
		}
	}
	if r.remembered.Load() < maxRemembered {
		if _, twice := r.ruling.LoadOrStore(tool, found); !twice {
			r.remembered.Add(1)
		}
	}
	return found
}

func byDefault(class counterfoil.Class) (verdict Verdict, rule string) {
	switch class {
	case counterfoil.ClassRead:
		return Allow, "default: allow reads"
	case counterfoil.ClassWrite:
		return Ask, "default: ask before writes"
	case counterfoil.ClassDestructive:
		return Ask, "default: ask before destructive calls"
	}
	return Deny, "the effect has no class"
}

// glob matches a whole name. Going back to the last star alone is enough.
func glob(pattern, name string) bool {
	star, from := -1, 0
	i, j := 0, 0
	for j < len(name) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, from = i, j
			i++
		case i < len(pattern) && pattern[i] == name[j]:
			i++
			j++
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}
