package console

import (
	"errors"
	"mime"
	"net/http"
	"slices"
	"unicode/utf8"
)

// policy lets a page load our own files and send forms to us, and nothing else. There is no inline script or style.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// setHeaders sets what every answer carries, errors too.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	// Not no-referrer: with that, browsers send "Origin: null" with our own forms, and a null origin is refused here.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// admit refuses requests that were not meant for this address or come from another page. The loopback interface is no
// protection by itself: every web page can send requests there, and a name can be made to point there.
func (c *Console) admit(r *http.Request) error {
	if !slices.Contains(c.hosts[:], r.Host) || r.URL.IsAbs() {
		return &failure{status: http.StatusForbidden, title: "Wrong address", text: "This is not an address of the console."}
	}
	origins := r.Header.Values("Origin")
	if len(origins) > 1 || len(origins) == 1 && origins[0] != "http://"+r.Host || c.cross.Check(r) != nil {
		return &failure{status: http.StatusForbidden, title: "Not from here", text: "The console takes requests from its own pages only."}
	}
	return nil
}

// readForm reads the body of a POST: one small, plain, url-encoded form.
func (x *exchange) readForm() error {
	kind, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" || x.r.Header.Get("Content-Encoding") != "" {
		return &failure{status: http.StatusUnsupportedMediaType, title: "Not a form", text: "The console takes plain forms only."}
	}
	x.r.Body = http.MaxBytesReader(x.w, x.r.Body, maxBody)
	if err := x.r.ParseForm(); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return &failure{status: http.StatusRequestEntityTooLarge, title: "Too large", text: "The form is larger than 64 KiB."}
		}
		return badForm()
	}
	for _, values := range x.r.PostForm {
		if len(values) != 1 || !utf8.ValidString(values[0]) {
			return badForm()
		}
	}
	return nil
}

// field returns a field of the form, "" when it is absent. readForm saw that it is there once at most.
func (x *exchange) field(name string) string { return x.r.PostForm.Get(name) }

func badForm() error {
	return &failure{status: http.StatusBadRequest, title: "Not understood", text: "The form is damaged. Nothing was done."}
}
