package api

import "github.com/counterfoil/counterfoil/internal/identity"

// A Line is a line of the table, for tests.
type Line struct {
	Method, Path string
	Scope, Or    identity.Scope
	Public       bool
}

// Table returns the table, for tests.
func Table() []Line {
	var list []Line
	for _, r := range table() {
		list = append(list, Line{r.method, r.path, r.scope, r.or, r.access != guarded})
	}
	return list
}

// HTTPCodes returns the codes that only HTTP has, with their statuses.
func HTTPCodes() map[string]int {
	m := map[string]int{}
	for _, c := range httpCodes() {
		m[string(c.code)] = c.status
	}
	return m
}

// Parse is parse, for tests.
func Parse(b []byte, v any) error { return parse(b, v) }

// StatusOf is what an error is answered with.
func StatusOf(err error) (int, string) {
	p := problemOf(err)
	return p.Status, string(p.Code)
}

// ReadQuery is readQuery, for tests.
func ReadQuery(raw string, names ...string) (int, error) {
	q, err := readQuery(raw, names)
	return len(q), err
}
