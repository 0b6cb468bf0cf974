package ratelimit_test

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/counterfoil/counterfoil/internal/ratelimit"
)

var begin = time.Date(2026, 3, 1, 23, 59, 0, 0, time.UTC)

// A window is one limit of the model: an exact log.
type window struct {
	length time.Duration
	limit  int64
}

func windows(r ratelimit.Rules) []window {
	return []window{{time.Second, r.Second}, {time.Minute, r.Minute}, {time.Hour, r.Hour}, {24 * time.Hour, r.Day}}
}

// within counts what happened in the window that ends now.
func within(log []time.Time, now time.Time, length time.Duration) int64 {
	n := int64(0)
	for _, at := range log {
		if now.Sub(at) < length {
			n++
		}
	}
	return n
}

func drawRules(t *rapid.T) ratelimit.Rules {
	limit := rapid.Int64Range(0, 12)
	r := ratelimit.Rules{Second: limit.Draw(t, "second"), Minute: limit.Draw(t, "minute"), Hour: limit.Draw(t, "hour"), Day: limit.Draw(t, "day")}
	if rapid.Bool().Draw(t, "bucket") {
		r.Burst, r.PerMinute = rapid.Int64Range(1, 8).Draw(t, "burst"), rapid.Int64Range(1, 600).Draw(t, "perMinute")
	}
	return r
}

func drawStep(t *rapid.T) time.Duration {
	longest := rapid.SampledFrom([]time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second, 20 * time.Second, time.Minute, 20 * time.Minute, time.Hour, 10 * time.Hour}).Draw(t, "longest")
	return time.Duration(rapid.Int64Range(0, int64(longest)).Draw(t, "step"))
}

// check holds what happened against an exact log of the windows, and the bucket.
func check(t *rapid.T, r ratelimit.Rules, log []time.Time, now time.Time, tokens float64) {
	for _, w := range windows(r) {
		if n := within(log, now, w.length); w.limit > 0 && n > w.limit {
			t.Fatalf("%d in %v, of %d", n, w.length, w.limit)
		}
	}
	if r.Burst > 0 && tokens < -1e-6 {
		t.Fatalf("the bucket has %f", tokens)
	}
}

// Whatever comes whenever: no span of a window's length holds more than its limit, the bucket is never exceeded, what is
// refused would have been refused by an exact log that forgets one part of the window later, and waiting as long as was said
// is enough.
func TestState_model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := drawRules(t)
		now := begin
		var st ratelimit.State
		var log []time.Time
		tokens, filled := float64(r.Burst), now
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(drawStep(t))
			tokens, filled = min(float64(r.Burst), tokens+now.Sub(filled).Minutes()*float64(r.PerMinute)), now
			if rapid.IntRange(0, 9).Draw(t, "write down") == 0 {
				again, err := ratelimit.ParseState(st.Encode())
				if err != nil {
					t.Fatal(err)
				}
				st = *again
			}
			room := st.Room(now, r)
			ok, wait := st.Take(now, r)
			if ok != (room > 0) {
				t.Fatalf("taken: %v, with room for %d", ok, room)
			}
			if ok {
				log = append(log, now)
				tokens--
				check(t, r, log, now, tokens)
				continue
			}
			full := r.Burst > 0 && tokens < 1+1e-6
			for _, w := range windows(r) {
				full = full || w.limit > 0 && within(log, now, w.length+w.length/ratelimit.Parts) >= w.limit
			}
			if !full {
				t.Fatalf("refused without need at %v after %v", now, log)
			}
			before := st
			if again, err := ratelimit.ParseState(before.Encode()); err != nil {
				t.Fatal(err)
			} else if ok, _ := again.Take(now.Add(wait), r); !ok {
				t.Fatalf("refused after waiting %v", wait)
			}
			if rapid.Bool().Draw(t, "wait") { // to the very moment at which something comes back
				now = now.Add(wait)
				if ok, _ := st.Take(now, r); ok {
					tokens, filled = min(float64(r.Burst), tokens+now.Sub(filled).Minutes()*float64(r.PerMinute))-1, now
					log = append(log, now)
					check(t, r, log, now, tokens)
				}
			}
		}
	})
}

// Limits don't double at a border of wall-clock time, and come back piece by piece.
func TestState_border(t *testing.T) {
	t.Parallel()
	r := ratelimit.Rules{Minute: 10}
	for _, border := range []time.Time{begin.Add(time.Minute), begin.Add(61 * time.Second)} {
		var st ratelimit.State
		taken := 0
		for _, at := range []time.Duration{-100 * time.Millisecond, 100 * time.Millisecond} {
			for range 10 {
				if ok, _ := st.Take(border.Add(at), r); ok {
					taken++
				}
			}
		}
		if taken != 10 {
			t.Errorf("%d at a border", taken)
		}
	}
}

// Slices over replicas: whatever is lent, used, given back or lost, no span of a window's length ever holds more than its
// limit of uses.
func TestState_slices(t *testing.T) {
	t.Parallel()
	type lent struct {
		n, used   int64
		end, last time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		r := ratelimit.Rules{Second: rapid.Int64Range(0, 5).Draw(t, "second"), Minute: rapid.Int64Range(1, 20).Draw(t, "minute")}
		now := begin
		var st ratelimit.State
		var log []time.Time
		var open []lent
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(rapid.SampledFrom([]time.Duration{time.Millisecond, 200 * time.Millisecond, time.Second, 30 * time.Second}).Draw(t, "longest"))).Draw(t, "step")))
			i := rapid.IntRange(0, len(open)).Draw(t, "slice")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				if n, end := st.Lend(now, rapid.Int64Range(1, 6).Draw(t, "n"), r); n > 0 {
					open = append(open, lent{n: n, end: end})
				}
			case 1:
				if i < len(open) && open[i].used < open[i].n && now.Before(open[i].end) {
					open[i].used, open[i].last = open[i].used+1, now
					log = append(log, now)
				}
			case 2:
				if i < len(open) {
					st.GiveBack(now, open[i].end, open[i].n, open[i].used, open[i].last, r)
					open = append(open[:i], open[i+1:]...)
				}
			case 3:
				if i < len(open) { // a process is gone
					open = append(open[:i], open[i+1:]...)
				}
			}
			for _, w := range windows(r) {
				if n := within(log, now, w.length); w.limit > 0 && n > w.limit {
					t.Fatalf("%d in %v, of %d", n, w.length, w.limit)
				}
			}
		}
	})
}

// A clock that is set back gives nothing back, and denies nobody for longer than the longest window.
func TestState_clockBack(t *testing.T) {
	t.Parallel()
	r := ratelimit.Rules{Minute: 10, Burst: 5, PerMinute: 10}
	var st ratelimit.State
	for range 5 {
		if ok, _ := st.Take(begin, r); !ok {
			t.Fatal("refused")
		}
	}
	back := begin.AddDate(-1, 0, 0)
	ok, wait := st.Take(back, r)
	if ok || wait > 6*time.Second {
		t.Fatalf("%v, wait %v", ok, wait)
	}
	if room := st.Room(back.Add(50*time.Second), r); room != 5 {
		t.Fatalf("room for %d: the window forgot", room)
	}
	if room := st.Room(back.Add(66*time.Second), ratelimit.Rules{Minute: 10}); room != 10 {
		t.Fatalf("room for %d: the window does not forget", room)
	}
}

// Other rules start with a full bucket, and keep what the windows hold.
func TestState_otherRules(t *testing.T) {
	t.Parallel()
	var st ratelimit.State
	small, large := ratelimit.Rules{Minute: 10, Burst: 5, PerMinute: 10}, ratelimit.Rules{Minute: 200, Burst: 50, PerMinute: 200}
	for range 5 {
		st.Take(begin, small)
	}
	if room := st.Room(begin, large); room != 50 {
		t.Fatalf("room for %d", room)
	}
	for range 50 {
		st.Take(begin, large)
	}
	if room := st.Room(begin.Add(59*time.Second), small); room != 0 {
		t.Fatalf("room for %d after going back", room)
	}
}

// What isn't written by us is refused, and what is read is written the same.
func FuzzParseState(f *testing.F) {
	var st ratelimit.State
	f.Add(st.Encode())
	for i := range 20 {
		st.Take(begin.Add(time.Duration(i)*time.Second), ratelimit.Rules{Second: 3, Minute: 100, Hour: 100, Day: 100, Burst: 5, PerMinute: 10})
	}
	f.Add(st.Encode())
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		st, err := ratelimit.ParseState(b)
		if err != nil {
			return
		}
		if len(b) > 0 && !bytes.Equal(st.Encode(), b) {
			t.Fatalf("%x is read and written as %x", b, st.Encode())
		}
		st.Take(begin, ratelimit.Rules{Second: 1, Minute: 1, Hour: 1, Day: 1, Burst: 1, PerMinute: 1})
		if _, err := ratelimit.ParseState(st.Encode()); err != nil {
			t.Fatal(err)
		}
	})
}
