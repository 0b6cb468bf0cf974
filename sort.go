package counterfoil

import (
	"cmp"
	"slices"
)

// A nameSorter sorts the members of one object by their names' UTF-16 code units. It looks at each byte of a name a few
// times at most, however much the names are alike: whoever writes the names can't make it slow.
type nameSorter struct {
	names   []byte
	members []member
	twice   []byte // the name that ends the sort
}

// A rank is what members are sorted by: a window of their names, as a number.
type rank struct {
	order uint64
	of    int32 // the member
}

// byte returns the order's byte i, from the last.
func (r rank) byte(i int) byte { return byte(r.order >> (8 * i)) } //nolint:gosec // one byte of it is meant

func (s *nameSorter) nameOf(r rank) []byte {
	m := s.members[r.of]
	return s.names[m.name.from:m.name.to]
}

// sort sorts members whose names have their first skip bytes in common. It reports whether all names differ. spare is as
// long as ranks.
func (s *nameSorter) sort(ranks, spare []rank, skip int) bool {
	shared := s.nameOf(ranks[0])[skip:]
	for _, r := range ranks[1:] {
		shared = shared[:commonPrefix(shared, s.nameOf(r)[skip:])]
	}
	skip += len(shared)
	for k := range ranks {
		ranks[k].order = orderOf(s.nameOf(ranks[k])[skip:])
	}
	sortRanks(ranks, spare)
	for from := 0; from < len(ranks); {
		order, to := ranks[from].order, from+1
		for to < len(ranks) && ranks[to].order == order {
			to++
		}
		if to-from > 1 {
			if endsInWindow(order) {
				s.twice = s.nameOf(ranks[from])
				return false
			}
			if !s.sort(ranks[from:to], spare[from:to], skip+window) {
				return false
			}
		}
		from = to
	}
	return true
}

// sortRanks sorts few ranks by comparing them, and many by radix.
func sortRanks(ranks, spare []rank) {
	if len(ranks) < 128 || !radixSort(ranks, spare) {
		slices.SortFunc(ranks, func(a, b rank) int { return cmp.Compare(a.order, b.order) })
	}
}

// radixSort sorts by each byte in turn, from the last. It declines what is sorted faster by comparing: ranks that are mostly
// alike in each byte.
func radixSort(ranks, spare []rank) bool {
	var counts [8][256]int32
	for _, r := range ranks {
		for i := range counts {
			counts[i][r.byte(i)]++
		}
	}
	alike := true
	for i := range counts {
		alike = alike && int(slices.Max(counts[i][:])) > len(ranks)/2
	}
	if alike {
		return false
	}
	from, to := ranks, spare
	for i := range counts {
		count := &counts[i]
		if int(count[from[0].byte(i)]) == len(from) {
			continue // this byte is the same everywhere
		}
		next := int32(0)
		for b, n := range count {
			count[b], next = next, next+n
		}
		for _, r := range from {
			at := &count[r.byte(i)]
			to[*at] = r
			*at++
		}
		from, to = to, from
	}
	copy(ranks, from) // from is ranks itself, or spare
	return true
}
