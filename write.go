package counterfoil

import (
	"strconv"
	"time"
)

// A writer builds canonical bytes directly. Its user names members in canonical order; every document it makes is read
// back by the strict parser in the tests, which refuses any other order.
type writer struct{ b []byte }

func (w *writer) comma() {
	if n := len(w.b); n > 0 {
		switch w.b[n-1] {
		case '{', '[', ':':
		default:
			w.b = append(w.b, ',')
		}
	}
}

func (w *writer) open(c byte) {
	w.comma()
	w.b = append(w.b, c)
}

func (w *writer) close(c byte) { w.b = append(w.b, c) }

func (w *writer) name(s string) {
	w.comma()
	w.b = appendString(w.b, s)
	w.b = append(w.b, ':')
}

func (w *writer) text(name, s string) {
	w.name(name)
	w.b = appendString(w.b, s)
}

// maybe writes the member only if s is not empty: an absent optional is absent, not null.
func (w *writer) maybe(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

func (w *writer) digest(name string, d Digest) {
	w.name(name)
	w.b = append(w.b, '"')
	w.b = d.append(w.b)
	w.b = append(w.b, '"')
}

func (w *writer) maybeDigest(name string, d Digest) {
	if !d.IsZero() {
		w.digest(name, d)
	}
}

func (w *writer) count(name string, n int64) {
	w.name(name)
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *writer) time(name string, t time.Time) {
	w.name(name)
	w.b = append(w.b, '"')
	w.b = t.UTC().AppendFormat(w.b, timeLayout)
	w.b = append(w.b, '"')
}

// truth writes the member only if it is true.
func (w *writer) truth(name string, v bool) {
	if v {
		w.name(name)
		w.b = append(w.b, "true"...)
	}
}

func (w *writer) list(name string, entries []string) {
	w.name(name)
	w.b = append(w.b, '[')
	for _, e := range entries {
		w.comma()
		w.b = appendString(w.b, e)
	}
	w.b = append(w.b, ']')
}

// raw writes bytes that are canonical already.
func (w *writer) raw(name string, canonical []byte) {
	w.name(name)
	w.b = append(w.b, canonical...)
}
