package console

import (
	"net/http"
	"strings"
)

// A route is one line of the console's surface.
type route struct {
	method  string // GET, which HEAD also goes by, or POST
	pattern string // {id} stands for one path segment
	open    bool   // reachable without a session
	handle  func(*Console, *exchange) error
}

// routes is the whole surface.
func routes() []route {
	const get, post = http.MethodGet, http.MethodPost
	return []route{
		{get, "/", false, (*Console).home},
		{get, "/decided", false, (*Console).decided},
		{get, "/approvals/{id}", false, (*Console).approval},
		{get, "/approvals/{id}/arguments", false, (*Console).arguments},
		{post, "/approvals/{id}/approve", false, (*Console).approve},
		{post, "/approvals/{id}/deny", false, (*Console).deny},
		{get, "/upstreams", false, (*Console).upstreams},
		{get, "/upstreams/{id}", false, (*Console).upstream},
		{post, "/upstreams/{id}/classify", false, (*Console).classify},
		{get, "/receipts", false, (*Console).receipts},
		{get, "/receipts/{id}", false, (*Console).receipt},
		{get, "/receipts/{id}/bundle.json", false, (*Console).bundle},
		{get, "/api/approvals", false, (*Console).apiApprovals},
		{post, "/lock", false, (*Console).lock},
		{post, "/logout", false, (*Console).logout},
		{get, "/login", true, (*Console).loginPage},
		{post, "/login", true, (*Console).login},
		{get, "/static/{id}", true, (*Console).staticFile},
	}
}

// find returns the route of a request. Paths are compared as they are: there is no cleaning and no redirect.
func (c *Console) find(x *exchange) (route, error) {
	method := x.r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var allow []string
	for _, rt := range c.routes {
		id, ok := match(rt.pattern, x.r.URL.Path)
		if !ok {
			continue
		}
		if rt.method == method {
			x.id = id
			return rt, nil
		}
		allow = append(allow, rt.method)
		if rt.method == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	if allow == nil && (method == http.MethodGet || method == http.MethodPost) {
		return route{}, ErrNotFound
	}
	if allow == nil {
		allow = []string{http.MethodGet, http.MethodHead, http.MethodPost}
	}
	x.w.Header().Set("Allow", strings.Join(allow, ", "))
	return route{}, &failure{status: http.StatusMethodNotAllowed, title: "Not possible", text: "This page can't be asked for in that way."}
}

// run lets a request that has a route meet the need for a session, and the form, before its handler.
func (c *Console) run(x *exchange, rt route) error {
	if x.token == nil && !rt.open {
		return signedOut()
	}
	if rt.method == http.MethodPost {
		if err := x.readForm(); err != nil {
			return err
		}
		if !rt.open && !x.csrfMatches() {
			return &failure{status: http.StatusForbidden, title: "Not from here", text: "The form is not from your session. Go back, load the page again, and repeat."}
		}
	}
	return rt.handle(c, x)
}

// match compares a path with a pattern and returns what {id} stands for.
func match(pattern, path string) (id string, ok bool) {
	before, after, wild := strings.Cut(pattern, "{id}")
	if !wild {
		return "", path == pattern
	}
	id, ok = strings.CutPrefix(path, before)
	if !ok {
		return "", false
	}
	id, ok = strings.CutSuffix(id, after)
	return id, ok && isID(id)
}

// isID reports whether s can be the id of something: 1 to 128 letters, digits and the signs - _ . : ~
func isID(s string) bool {
	if s == "" || len(s) > 128 || s == "." || s == ".." {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.:~", rune(c)) {
			return false
		}
	}
	return true
}
