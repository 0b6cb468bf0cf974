package ratelimit

import (
	"net/http"
	"strconv"
	"time"
)

// A Decision says whether a request may go on. The zero Decision is no.
type Decision struct {
	Allowed   bool
	Unlimited bool  // there is no limit to tell of
	Limit     int64 // what a minute may hold; for a no, the limit that bit
	Remaining int64 // of Limit; 0 for a no
	// RetryAfter is how long a caller has to wait for a yes, if nobody else uses the key meanwhile. 0 for a yes.
	RetryAfter time.Duration

	reset int64
}

// Reset returns when the limit is whole again, or for a no, when there will be a yes. It is zero for an unlimited one.
func (d Decision) Reset() time.Time {
	if d.reset == 0 {
		return time.Time{}
	}
	return time.Unix(0, d.reset).UTC()
}

// RetryAfterSeconds is RetryAfter in whole seconds, rounded up, at least 1: waiting so long is enough.
func (d Decision) RetryAfterSeconds() int64 {
	return max(1, int64((d.RetryAfter+time.Second-1)/time.Second))
}

// SetHeaders tells the caller: X-RateLimit-Limit, -Remaining and -Reset (seconds since 1970, rounded up), and Retry-After with
// a no.
func (d Decision) SetHeaders(h http.Header) {
	limit, remaining, reset := "unlimited", "unlimited", "0"
	if !d.Unlimited {
		limit, remaining = strconv.FormatInt(d.Limit, 10), strconv.FormatInt(d.Remaining, 10)
		reset = strconv.FormatInt((d.reset+1e9-1)/1e9, 10)
	}
	// In their canonical spelling, with one allocation for all.
	values := [...]string{limit, remaining, reset, ""}
	list := values[:]
	h["X-Ratelimit-Limit"], h["X-Ratelimit-Remaining"], h["X-Ratelimit-Reset"] = list[0:1:1], list[1:2:2], list[2:3:3]
	if !d.Allowed {
		list[3] = strconv.FormatInt(d.RetryAfterSeconds(), 10)
		h["Retry-After"] = list[3:4:4]
	}
}

// refused is the no of a limit that bites until an instant.
func refused(limit, until, now int64) Decision {
	return Decision{Limit: limit, RetryAfter: time.Duration(max(1, until-now)), reset: until}
}
