package governance

import (
	"math"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/counterfoil/counterfoil"
)

// Bounds on what validating one call's arguments may cost, worked out before it is done.
const (
	maxVisits  = 1_000_000   // schema applied to value: each may cost time and, when it fails, memory
	maxMatches = 200_000_000 // pattern instruction applied to byte
	maxPairs   = 20_000_000  // comparisons in search of duplicates
	maxInPlace = 64          // schemas nested on one and the same value, references included
)

// A cost bounds from above, for each depth of arguments, how often one value can meet a schema. References and
// alternatives multiply: without the bound a short schema keeps the validator busy for years.
type cost struct {
	visits  [counterfoil.MaxArgumentDepth + 1]float64
	matches [counterfoil.MaxArgumentDepth + 1]float64
	unique  bool
}

// affordable reports whether arguments so measured can be validated.
func (c *cost) affordable(s stats) bool {
	if s.depth >= len(c.visits) {
		return false
	}
	visits := c.visits[s.depth]
	return visits*float64(s.values) <= maxVisits && c.matches[s.depth]*float64(s.text) <= maxMatches &&
		(!c.unique || visits*float64(s.pairs) <= maxPairs)
}

// vertex is one schema and those it hands values on to.
type vertex struct {
	visits  float64 // what applying this schema alone costs, at least 1
	matches float64
	unique  bool
	inPlace []int            // schemas that it applies to the same value
	named   map[string][]int // schemas for one member or element
	any     []int            // schemas that may meet any member or element
	height  int              // longest way in place below it, once known
}

type graph struct {
	index    map[*jsonschema.Schema]int
	vertices []vertex
	why      string // why the schema can't be used
}

func newCost(root *jsonschema.Schema) (c *cost, why string) {
	g := &graph{index: map[*jsonschema.Schema]int{}}
	start := g.add(root)
	order := g.order()
	if g.why != "" {
		return nil, g.why
	}
	c = &cost{}
	n := len(g.vertices)
	visits, matches := make([]float64, n), make([]float64, n)
	here, childVisits, childMatches := make([][2]float64, n), make([]float64, n), make([]float64, n)
	for _, v := range order {
		x := &g.vertices[v]
		c.unique = c.unique || x.unique
		here[v] = [2]float64{x.visits, x.matches}
		for _, w := range x.inPlace {
			here[v][0] += here[w][0]
			here[v][1] += here[w][1]
		}
	}
	for depth := range c.visits {
		for _, v := range order { // those in place come first, so their share is there
			x := &g.vertices[v]
			childVisits[v], childMatches[v] = 0, 0
			if depth > 0 {
				childVisits[v], childMatches[v] = x.below(visits), x.below(matches)
			}
			for _, w := range x.inPlace {
				childVisits[v] += childVisits[w]
				childMatches[v] += childMatches[w]
			}
		}
		for v := range n {
			visits[v], matches[v] = max(here[v][0], childVisits[v]), max(here[v][1], childMatches[v])
		}
		c.visits[depth], c.matches[depth] = visits[start], matches[start]
	}
	return c, ""
}

// below bounds what one member or element meets through this schema itself.
func (x *vertex) below(of []float64) float64 {
	var most, wild float64
	for _, targets := range x.named {
		var sum float64
		for _, w := range targets {
			sum += of[w]
		}
		most = max(most, sum)
	}
	for _, w := range x.any {
		wild += of[w]
	}
	return min(most+wild, math.MaxFloat64)
}

// order returns the vertices so that those applied in place come before the one that applies them. A circle in place
// would never end; a long way makes every step on it slow.
func (g *graph) order() []int {
	order := make([]int, 0, len(g.vertices))
	state := make([]byte, len(g.vertices)) // 1 = on the way, 2 = done
	var visit func(v int)
	visit = func(v int) {
		state[v] = 1
		x := &g.vertices[v]
		for _, w := range x.inPlace {
			if state[w] == 1 {
				g.why = "its input schema refers to itself without end"
			}
			if state[w] == 0 && g.why == "" {
				visit(w)
			}
			x.height = max(x.height, g.vertices[w].height+1)
		}
		if x.height > maxInPlace {
			g.why = "its input schema is nested too deeply"
		}
		state[v] = 2
		order = append(order, v)
	}
	for v := range g.vertices {
		if state[v] == 0 && g.why == "" {
			visit(v)
		}
	}
	return order
}

func (g *graph) add(s *jsonschema.Schema) int {
	if v, ok := g.index[s]; ok {
		return v
	}
	v := len(g.vertices)
	g.index[s] = v
	g.vertices = append(g.vertices, vertex{})
	x := vertex{visits: 1, unique: s.UniqueItems, named: map[string][]int{}}
	x.visits += float64(len(s.Required))/8 + float64(len(s.DependentRequired))
	if s.Enum != nil {
		for _, e := range s.Enum.Values {
			x.visits += weight(e)
		}
	}
	if s.Const != nil {
		x.visits += weight(*s.Const)
	}
	if p, ok := s.Pattern.(*pattern); ok {
		x.matches += float64(p.size)
	}
	if s.Format != nil {
		x.matches += 16 // the built-in formats go over the text a few times; "regex" compiles at most 1 KiB
	}
	for re, sub := range s.PatternProperties {
		if p, ok := re.(*pattern); ok {
			x.matches += float64(p.size)
		}
		x.visits++
		x.any = append(x.any, g.add(sub))
	}
	x.inPlace = g.inPlace(s)
	g.children(s, &x)
	g.vertices[v] = x
	return v
}

// weight is what comparing with one value of an enumeration costs: numbers are compared as fractions, texts at once.
func weight(v any) float64 {
	switch v := v.(type) {
	case map[string]any:
		w := 0.25
		for _, e := range v {
			w += weight(e)
		}
		return w
	case []any:
		w := 0.25
		for _, e := range v {
			w += weight(e)
		}
		return w
	case string:
		return 1.0 / 16
	}
	return 1
}

// inPlace adds the schemas that s applies to the same value.
func (g *graph) inPlace(s *jsonschema.Schema) []int {
	var out []int
	add := func(subs ...*jsonschema.Schema) {
		for _, sub := range subs {
			if sub != nil {
				out = append(out, g.add(sub))
			}
		}
	}
	if r := s.RecursiveRef; r != nil {
		if r.RecursiveAnchor {
			g.why = "its input schema uses a dynamic reference, which isn't supported"
		}
		add(r)
	}
	if r := s.DynamicRef; r != nil {
		if r.Anchor != "" && r.Ref.DynamicAnchor == r.Anchor {
			g.why = "its input schema uses a dynamic reference, which isn't supported"
		}
		add(r.Ref)
	}
	add(s.Ref, s.Not, s.If, s.Then, s.Else)
	add(s.AllOf...)
	add(s.AnyOf...)
	add(s.OneOf...)
	for _, sub := range s.DependentSchemas {
		add(sub)
	}
	for _, dependency := range s.Dependencies {
		if sub, ok := dependency.(*jsonschema.Schema); ok {
			add(sub)
		}
	}
	return out
}

// children adds the schemas that s applies to members and elements.
func (g *graph) children(s *jsonschema.Schema, x *vertex) {
	wild := func(v any) {
		if sub, ok := v.(*jsonschema.Schema); ok && sub != nil {
			x.any = append(x.any, g.add(sub))
		}
	}
	at := func(name string, sub *jsonschema.Schema) { x.named[name] = append(x.named[name], g.add(sub)) }
	for name, sub := range s.Properties {
		at("."+name, sub)
	}
	for i, sub := range s.PrefixItems {
		at(strconv.Itoa(i), sub)
	}
	if items, ok := s.Items.([]*jsonschema.Schema); ok {
		for i, sub := range items {
			at(strconv.Itoa(i), sub)
		}
	}
	wild(s.Items)
	wild(s.AdditionalItems)
	wild(s.AdditionalProperties)
	wild(s.Items2020)
	wild(s.Contains)
	wild(s.PropertyNames)
	wild(s.UnevaluatedItems)
	wild(s.UnevaluatedProperties)
}
