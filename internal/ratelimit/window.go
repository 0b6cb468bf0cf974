package ratelimit

// A span is one of the lengths that are looked at.
type span int

const (
	second span = iota
	minute
	hour
	day
	spans
)

// parts is how many parts a window has. It divides the length of each span, in nanoseconds.
const parts = 256

// length returns the span's length in nanoseconds.
func (s span) length() int64 {
	return [spans]int64{second: 1e9, minute: 60e9, hour: 3600e9, day: 86_400e9}[s]
}

// A window counts what happened in the last span, by its parts. Those in which nothing happened take no place.
type window struct {
	total int64
	parts []part // by their numbers, rising
}

// A part is a part's number, counted from 1970 in the upper 40 bits, and its count in the lower 24.
type part uint64

const (
	countBits = 24
	maxCount  = 1<<countBits - 1
)

func newPart(number, count int64) part { return part(number)<<countBits | part(min(count, maxCount)) } //nolint:gosec // numbers and counts are not negative

func (p part) number() int64 { return int64(p >> countBits) }
func (p part) count() int64  { return int64(p & maxCount) }

// maxNumber is the last part that has a number of its own: it is in the year 2106.
const maxNumber = 1<<(64-countBits) - 1

// number returns the part that an instant falls into. Instants before 1970 are in the first.
func (s span) number(at int64) int64 { return min(max(0, at)/(s.length()/parts), maxNumber) }

// move lets go of the parts that are wholly out of the window that ends now. Those of the future were written when the clock
// was ahead of what it says now: they become the present's, so that nothing comes back early and nothing stays for ever.
func (w *window) move(s span, now int64) {
	first := 0
	for first < len(w.parts) && w.end(s, first) <= now {
		w.total -= w.parts[first].count()
		first++
	}
	if first > 0 {
		w.parts = w.parts[:copy(w.parts, w.parts[first:])]
	}
	for last := s.number(now + ahead); len(w.parts) > 0 && w.parts[len(w.parts)-1].number() > last; {
		n := w.parts[len(w.parts)-1].count()
		w.parts = w.parts[:len(w.parts)-1]
		w.total -= n
		w.add(s, now+ahead, n)
	}
}

// ahead is how far in the future something may be counted, in nanoseconds: slices are counted at their end, by the clock of
// another process.
const ahead = 5e9

// end returns when the i-th part is out of the window.
func (w *window) end(s span, i int) int64 {
	return (w.parts[i].number()+1)*(s.length()/parts) + s.length()
}

// add counts n at an instant. It returns how many of them found a place: a part does not count for ever.
func (w *window) add(s span, at, n int64) {
	number := s.number(at)
	i := len(w.parts)
	for i > 0 && w.parts[i-1].number() > number {
		i--
	}
	if i > 0 && w.parts[i-1].number() == number {
		before := w.parts[i-1].count()
		w.parts[i-1] = newPart(number, before+n)
		w.total += w.parts[i-1].count() - before
		return
	}
	p := newPart(number, n)
	w.parts = append(w.parts, 0)
	copy(w.parts[i+1:], w.parts[i:])
	w.parts[i] = p
	w.total += p.count()
}

// remove takes up to n back that were counted at an instant.
func (w *window) remove(s span, at, n int64) {
	number := s.number(at)
	for i := len(w.parts) - 1; i >= 0; i-- {
		if w.parts[i].number() != number {
			continue
		}
		n = min(n, w.parts[i].count())
		w.total -= n
		if left := w.parts[i].count() - n; left > 0 {
			w.parts[i] = newPart(number, left)
		} else {
			w.parts = append(w.parts[:i], w.parts[i+1:]...)
		}
		return
	}
}

// free returns when the window has room for one more under the limit: now, or when enough parts are out.
func (w *window) free(s span, limit, now int64) int64 {
	left := w.total
	for i := 0; left >= limit && i < len(w.parts); i++ {
		left -= w.parts[i].count()
		now = w.end(s, i)
	}
	return now
}

// empty returns when all that is counted is out of the window, now if nothing is.
func (w *window) empty(s span, now int64) int64 {
	if len(w.parts) == 0 {
		return now
	}
	return w.end(s, len(w.parts)-1)
}
