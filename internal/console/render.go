package console

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// parsePages returns a template for each page: the frame, the shared parts and the page's own "main".
func parsePages() (map[string]*template.Template, error) {
	base, err := template.New("frame").ParseFS(templateFiles, "templates/frame.html", "templates/parts.html")
	if err != nil {
		return nil, err
	}
	pages := map[string]*template.Template{}
	for _, name := range []string{"home", "decided", "approval", "upstreams", "upstream", "receipts", "receipt", "login", "message"} {
		t, err := base.Clone()
		if err != nil {
			return nil, err
		}
		if pages[name], err = t.ParseFS(templateFiles, "templates/"+name+".html"); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

type asset struct {
	contentType string
	body        []byte
}

func loadStatic() (map[string]asset, error) {
	names, err := fs.Glob(staticFiles, "static/*")
	if err != nil {
		return nil, err
	}
	assets := map[string]asset{}
	for _, name := range names {
		body, err := staticFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		kind := ""
		switch path.Ext(name) { // the system's own table of types differs between machines
		case ".css":
			kind = "text/css; charset=utf-8"
		case ".js":
			kind = "text/javascript; charset=utf-8"
		case ".svg":
			kind = "image/svg+xml"
		}
		assets[path.Base(name)] = asset{kind, body}
	}
	return assets, nil
}

func (c *Console) staticFile(x *exchange) error {
	a, ok := c.static[x.id]
	if !ok {
		return ErrNotFound
	}
	x.send(http.StatusOK, a.contentType, a.body)
	return nil
}

// A frame is what surrounds each page. The caller sets Title and Nav.
type frame struct {
	Title string
	Nav   string // the entry of the menu that the page belongs to
	Live  bool   // the page looks for news

	SignedIn bool
	CSRF     string
	Unlocked *moment // until when the key is kept
	Body     any
}

// render answers with a page. The page is complete before its first byte is sent, so that no half page is ever shown.
func (c *Console) render(x *exchange, status int, page string, f frame, body any) error {
	f.SignedIn, f.CSRF, f.Body = x.token != nil, x.csrf(), body
	if f.SignedIn {
		if key, until := c.keys.look(x.session); key != nil {
			m := x.moment(until)
			f.Unlocked = &m
		}
	}
	var b bytes.Buffer
	if err := c.pages[page].ExecuteTemplate(&b, "frame", f); err != nil {
		return err
	}
	x.send(status, mime.FormatMediaType("text/html", map[string]string{"charset": "utf-8"}), b.Bytes())
	return nil
}

// A failure is an error with a page of its own.
type failure struct {
	status int
	title  string
	text   string
	href   string // one of our pages to go on from, "" for the start page
	err    error  // logged, never shown
}

func (f *failure) Error() string { return f.title + ": " + f.text }
func (f *failure) Unwrap() error { return f.err }

func signedOut() error {
	return &failure{status: http.StatusUnauthorized, title: "Signed out", text: "Run “counterfoil console” in a terminal and open the link that it prints."}
}

func badCode() error {
	return &failure{status: http.StatusForbidden, title: "The link is no longer good",
		text: "A sign-in link works once and for a short time. Run “counterfoil console” again for a new one."}
}

func unavailable(err error) error {
	return &failure{status: http.StatusServiceUnavailable, title: "Not available", text: "A part of Counterfoil does not answer. Nothing was decided. Try again.", err: err}
}

// message is the body of the page for a failure.
type message struct {
	Title, Text, Code string
	Href              string
}

// fail answers with the page for an error.
func (c *Console) fail(x *exchange, err error) {
	f := asFailure(x, err)
	code := ""
	if e, ok := errors.AsType[*counterfoil.Error](err); ok {
		code = string(e.Code)
	}
	if f.err != nil {
		c.log.LogAttrs(x.r.Context(), slog.LevelError, "console request failed", slog.Int("status", f.status), slog.Any("err", f.err))
	}
	if x.status != 0 {
		return // the answer has begun
	}
	m := message{Title: f.title, Text: f.text, Code: code, Href: f.href}
	if rerr := c.render(x, f.status, "message", frame{Title: f.title}, m); rerr != nil {
		c.log.LogAttrs(x.r.Context(), slog.LevelError, "console page failed", slog.Any("err", rerr))
		x.send(http.StatusInternalServerError, "text/plain; charset=utf-8", []byte("internal error\n"))
	}
}

// asFailure is the only map from errors to answers.
func asFailure(x *exchange, err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if errors.Is(err, ErrNotFound) {
		return &failure{status: http.StatusNotFound, title: "Not found", text: "There is no such page."}
	}
	if e, ok := errors.AsType[*Conflict](err); ok {
		return conflict(x, e)
	}
	if e, ok := errors.AsType[*counterfoil.Error](err); ok {
		if e.Code == counterfoil.CodeUnavailable {
			return &failure{status: http.StatusServiceUnavailable, title: "Not available", text: sentence(e.Msg), err: err}
		}
		return &failure{status: http.StatusUnprocessableEntity, title: "Refused", text: sentence(e.Msg), err: err}
	}
	return &failure{status: http.StatusInternalServerError, title: "Internal error",
		text: "Something went wrong on our side. Look at the state of the request before you decide again.", err: err}
}

// conflict is the answer for the loser of a race.
func conflict(x *exchange, e *Conflict) *failure {
	f := &failure{status: http.StatusConflict, title: "Already decided", text: "The request is no longer pending: its state is “" + string(e.State) +
		"”. Your decision changed nothing.", href: "/approvals/" + x.id}
	switch e.State {
	case gateway.Expired:
		f.title = "Expired"
	case gateway.Cancelled:
		f.title = "Cancelled"
	case gateway.Void:
		f.title = "Void"
	case "":
		f.title, f.text, f.href = "Changed meanwhile", "The tools are no longer those that were shown. Your decision changed nothing. Look again.", "/upstreams/"+x.id
	case gateway.Pending, gateway.Approved, gateway.Denied, gateway.Spent:
	}
	return f
}

// sentence makes a sentence of an error's text.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
