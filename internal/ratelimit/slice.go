package ratelimit

const (
	// sliceLife is how long a slice may be used, in nanoseconds.
	sliceLife = 500e6
	// noLife is how long a no is believed without asking again: another process may have given something back, or an
	// administrator may have changed something.
	noLife = 1e9
	// share bounds what a process takes beyond what it was asked for: this part of what is left.
	share = 16
	// growth is by how much a process takes more when the slice before was used up at once.
	growth  = 4
	maxWant = 1024
)

// A slice is what this process may use of a key without asking. Its entry's shard guards it.
type slice struct {
	rules rules
	left  int64
	// Of what was taken, the store counts what was asked for at the moment of taking, and the rest, which may be used later, at
	// the slice's end.
	prompt int64 // what is left of the first
	spare  int64 // all of the second
	used   int64 // of the second
	last   int64 // when of it was used last
	end    int64
	heard  bool  // it was not looked at since
	extra  int64 // used without asking, because there is no limit
	after  int64 // when the last of it was
	free   rules // that have no limit

	no    Decision // what the store said last, if it was a no
	until int64    // how long that is believed
	stock int64    // of the minute's limit, what is left beside the slice
	reset int64

	want    int64   // what to take at once if there is plenty
	waiting int64   // requests
	asking  *answer // nil when the store is not being asked
	asked   rules   // under which it is being asked
}

// An answer is what the store will say.
type answer struct {
	done chan struct{} // closed when it has been said
	err  error
}

// take uses one of the slice, or repeats the no that was heard last. False says that the store has to be asked.
func (c *slice) take(now int64, r *rules) (Decision, bool) {
	switch {
	case r.unlimited():
		if c.extra == 0 {
			c.free = *r
		}
		c.extra, c.after = c.extra+1, now
		return Decision{Allowed: true, Unlimited: true}, true
	case c.rules != *r:
		return Decision{}, false
	case c.left > 0 && c.runs(now):
		c.left--
		if c.prompt > 0 {
			c.prompt--
		} else {
			c.used, c.last = c.used+1, now
		}
		return Decision{Allowed: true, Limit: r.limit[minute], Remaining: max(0, c.stock+c.left), reset: c.reset}, true
	case now < c.until && now >= c.until-noLife && now < c.no.reset:
		return refused(c.no.Limit, c.no.reset, now), true
	default:
		return Decision{}, false
	}
}

// runs reports whether the slice has begun and not ended: the clock may have been set back.
func (c *slice) runs(now int64) bool { return now < c.end && now >= c.end-sliceLife }

// done reports whether nothing can be used of the slice any more and the store has to hear of it.
func (c *slice) done(now int64) bool {
	return c.extra > 0 || c.spare > 0 && (c.left == 0 || !c.runs(now))
}

// An errand is what the store is to be told and asked about a key, and its answer.
type errand struct {
	e *entry

	// What is told: the slice before, and what was used without one.
	before            rules
	spare, used, last int64
	end               int64
	free              rules
	extra, after      int64

	// What is asked, if anybody waits.
	rules         rules
	waiting, want int64

	// What is answered.
	taken, prompt int64
	no            Decision
	stock, reset  int64
	err           error
}

// errand takes what there is to tell and to ask out of the slice. From here on its rest is the store's, or lost.
func (c *slice) errand(e *entry, now int64) errand {
	x := errand{
		e: e, before: c.rules, spare: c.spare, used: c.used, last: c.last, end: c.end, free: c.free, extra: c.extra, after: c.after,
		rules: c.asked,
	}
	if c.heard && c.left == 0 {
		c.want = min(c.want*growth, maxWant)
	} else if c.heard {
		c.want = max(1, c.want/growth)
	}
	if now >= c.end+sliceLife {
		c.want = 1
	}
	if c.asking != nil {
		x.waiting, x.want = max(1, c.waiting), c.want
	}
	c.left, c.prompt, c.spare, c.used, c.heard, c.extra = 0, 0, 0, 0, false, 0
	return x
}

// serve does an errand at the store's state. It may be called again, with another.
func (x *errand) serve(st *state, now int64) {
	st.move(now)
	if x.spare > 0 {
		st.giveBack(now, x.end, x.spare, x.used, x.last, &x.before)
	}
	if x.extra > 0 {
		st.count(x.after, x.extra, &x.free)
	}
	if x.waiting == 0 {
		return
	}
	st.settle(now, &x.rules)
	x.taken, x.prompt, x.no = 0, 0, Decision{}
	room := st.room(now, &x.rules)
	if room == 0 {
		limit, until := st.blocked(now, &x.rules)
		x.no = refused(limit, until, now)
		return
	}
	x.prompt = min(room, x.waiting)
	x.taken = max(x.prompt, min(x.want, room/share))
	st.take(now, now, x.prompt, &x.rules)
	if spare := x.taken - x.prompt; spare > 0 {
		st.take(now, now+sliceLife, spare, &x.rules)
	}
	w := &st.windows[minute]
	x.stock, x.reset = max(0, x.rules.limit[minute]-w.total), w.empty(minute, now)
}

// hear puts the answer into the slice.
func (c *slice) hear(x *errand, now int64) {
	if x.err != nil {
		c.extra += x.extra // what has no limit can't be counted too often
		return
	}
	if x.waiting == 0 {
		return
	}
	c.rules, c.heard = x.rules, x.taken > 0
	c.left, c.prompt, c.spare = x.taken, x.prompt, x.taken-x.prompt
	c.end = now + sliceLife
	c.no, c.until = x.no, 0
	if x.taken == 0 {
		c.until = now + noLife
	}
	c.stock, c.reset = x.stock, x.reset
}
