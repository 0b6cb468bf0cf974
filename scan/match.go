package scan

import "math/bits"

// A hit is one word that plays a role in some rule.
type hit struct {
	set        slots
	token      int // how many words stand before it
	start, end int // in the layer's text
}

// window bounds how many hits after its first a rule can reach: no rule's gaps add up to more.
const window = 64

// match calls found for every rule that matches hits, once per start, with the hits it began and ended at.
func (rs *ruleSet) match(hits []hit, found func(r *rule, first, last int)) {
	for i := range hits {
		for set := hits[i].set; set != 0; set &= set - 1 {
			b := bits.TrailingZeros64(uint64(set))
			for _, n := range rs.open[b] {
				r := &rs.rules[n]
				if bits.TrailingZeros64(uint64(r.steps[0].any&hits[i].set)) != b {
					continue // tried under an earlier role already
				}
				if last, ok := r.from(hits, i); ok {
					found(r, i, last)
				}
			}
		}
	}
}

// from reports whether r matches beginning at hit i, and where the shortest match ends. It keeps all ends of each step at
// once, as bits, so that no order of words makes it go back.
func (r *rule) from(hits []hit, i int) (int, bool) {
	ends := uint64(1)
	for _, st := range r.steps[1:] {
		var next uint64
		for e := ends; e != 0; e &= e - 1 {
			p := bits.TrailingZeros64(e)
			limit := hits[i+p].token + st.gap + 1
			for q := p + 1; q < window && i+q < len(hits) && hits[i+q].token <= limit; q++ {
				if hits[i+q].set&st.any != 0 {
					next |= 1 << q
				}
			}
		}
		if next == 0 {
			return 0, false
		}
		ends = next
	}
	return i + bits.TrailingZeros64(ends), true
}
