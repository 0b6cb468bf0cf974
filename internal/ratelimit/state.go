package ratelimit

import (
	"encoding/binary"

	"github.com/counterfoil/counterfoil"
)

// A state is what is known of a key. The zero state is that of a key that nobody used. Instants are nanoseconds since 1970.
type state struct {
	windows [spans]window
	// full is when the bucket is full again, if nothing else is taken from it: the theoretical arrival time of GCRA.
	full int64
	// burst and perMinute are those of the bucket that full belongs to.
	burst, perMinute int64
}

// settle brings the state to an instant and to rules. Other rules than before start with a full bucket; what the windows
// hold stays.
func (st *state) settle(now int64, r *rules) {
	st.move(now)
	if r.burst != st.burst || r.perMinute != st.perMinute {
		st.full, st.burst, st.perMinute = 0, r.burst, r.perMinute
	}
	if r.burst > 0 {
		st.full = min(st.full, now+r.burst*r.interval()) // the clock may have been set back
	}
}

// move brings the windows to an instant.
func (st *state) move(now int64) {
	for s := range spans {
		if len(st.windows[s].parts) > 0 {
			st.windows[s].move(s, now)
		}
	}
}

// room returns how many may be had at once. The state has been brought to now.
func (st *state) room(now int64, r *rules) int64 {
	n := int64(maxCount)
	for s := range spans {
		if r.limit[s] > 0 {
			n = min(n, r.limit[s]-st.windows[s].total)
		}
	}
	if r.burst > 0 {
		t := r.interval()
		n = min(n, (r.burst*t-(max(st.full, now)-now))/t)
	}
	return max(n, 0)
}

// take counts n: from the bucket now, in the windows at an instant.
func (st *state) take(now, at, n int64, r *rules) {
	st.count(at, n, r)
	if r.burst > 0 {
		st.full = max(st.full, now) + n*r.interval()
	}
}

// count counts n in the windows.
func (st *state) count(at, n int64, r *rules) {
	for s := range spans {
		if r.counted[s] {
			st.windows[s].add(s, at, n)
		}
	}
}

// giveBack takes back n that were counted at an instant, the end of a slice. Those that were used count when the last was.
func (st *state) giveBack(now, end, n, used, last int64, r *rules) {
	for s := range spans {
		if !r.counted[s] {
			continue
		}
		st.windows[s].remove(s, end, n)
		if used > 0 {
			st.windows[s].add(s, last, used)
		}
	}
	// The bucket has filled meanwhile: late, it would get what it has already.
	if r.burst > 0 && r.burst == st.burst && r.perMinute == st.perMinute && now < end+sliceLife {
		st.full = max(0, st.full-(n-used)*r.interval())
	}
}

// blocked returns what keeps one more from being had, and until when: the one that does so the longest. A limit of 0 says
// that nothing does.
func (st *state) blocked(now int64, r *rules) (limit, until int64) {
	for s := range spans {
		if r.limit[s] == 0 || st.windows[s].total < r.limit[s] {
			continue
		}
		if t := st.windows[s].free(s, r.limit[s], now); t > until {
			limit, until = r.limit[s], t
		}
	}
	if r.burst > 0 {
		if t := max(st.full, now) + r.interval() - r.burst*r.interval(); t > now && t > until {
			limit, until = r.perMinute, t
		}
	}
	return limit, until
}

// allowed describes a request that was counted, by the minute.
func (st *state) allowed(now int64, r *rules) Decision {
	if r.unlimited() {
		return Decision{Allowed: true, Unlimited: true}
	}
	limit, w := r.limit[minute], &st.windows[minute]
	return Decision{Allowed: true, Limit: limit, Remaining: max(0, limit-w.total), reset: w.empty(minute, now)}
}

// until returns when the state says nothing any more.
func (st *state) until(now int64) int64 {
	t := max(st.full, now)
	for s := range spans {
		t = max(t, st.windows[s].empty(s, now))
	}
	return t
}

const (
	stateVersion = 1
	maxState     = 1 << 16 // bytes
)

// encode writes a state down.
func (st *state) encode() []byte {
	b := []byte{stateVersion}
	for _, n := range []int64{st.full, st.burst, st.perMinute} {
		b = binary.AppendVarint(b, n)
	}
	for s := range spans {
		w := &st.windows[s]
		b = binary.AppendUvarint(b, uint64(len(w.parts)))
		before := int64(0)
		for _, p := range w.parts {
			b = binary.AppendUvarint(b, uint64(p.number()-before)) //nolint:gosec // they rise
			b = binary.AppendUvarint(b, uint64(p.count()))         //nolint:gosec // not negative
			before = p.number()
		}
	}
	return b
}

// parseState reads a state that was written down. No bytes are the zero state. Anything but what encode writes is an error.
func parseState(b []byte) (state, error) {
	var st state
	if len(b) == 0 {
		return st, nil
	}
	d := decoder{b: b[1:], bad: b[0] != stateVersion || len(b) > maxState}
	st.full, st.burst, st.perMinute = d.signed(), d.signed(), d.signed()
	d.bad = d.bad || st.full < 0 || st.burst < 0 || st.perMinute < 0 || st.burst > maxCount || st.perMinute > maxCount
	for s := range spans {
		d.window(&st.windows[s])
	}
	if d.bad || len(d.b) > 0 {
		return state{}, &counterfoil.Error{Code: counterfoil.CodeIntegrityFailed, Msg: "the record of a rate can't be read"}
	}
	return st, nil
}

// A decoder reads numbers until one is bad.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) signed() int64 {
	v, n := binary.Varint(d.b)
	return decoded(d, v, n)
}

func (d *decoder) unsigned() uint64 {
	v, n := binary.Uvarint(d.b)
	return decoded(d, v, n)
}

func decoded[T int64 | uint64](d *decoder, v T, n int) T {
	// A number has one form: the shortest, whose last byte is not 0.
	if d.bad || n <= 0 || n > 1 && d.b[n-1] == 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) window(w *window) {
	n := d.unsigned()
	if n > uint64(len(d.b))/2 { // each part has two bytes at least
		d.bad = true
	}
	if d.bad || n == 0 {
		return
	}
	w.parts = make([]part, 0, n)
	before := int64(0)
	for i := range n {
		step, count := d.unsigned(), d.unsigned()
		if d.bad || step > uint64(maxNumber-before) || i > 0 && step == 0 || count == 0 || count > maxCount {
			d.bad = true
			return
		}
		before += int64(step) //nolint:gosec // bounded just now
		w.parts = append(w.parts, newPart(before, int64(count)))
		w.total += int64(count)
	}
}
