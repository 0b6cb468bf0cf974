package vault

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/counterfoil/counterfoil"
)

// A Target is whose templates are filled, and for whom.
type Target struct {
	Tenant   string
	Upstream string // by its name in the configuration
	// URL is where headers go. It is nil for an upstream that is started.
	URL *url.URL
	// Grants are the operator's. Each secret at each place must be covered by one.
	Grants []Grant
}

// Used is a secret that was filled in, for the receipt.
type Used struct {
	Name    string
	Version int64
}

// Filled are an upstream's templates with the secrets in their places. It is for the transport alone: only [Filled.Reveal] and
// [Filled.Transport] give the texts away, whatever prints it gets "[redacted]".
type Filled struct {
	host  string                   // of headers
	texts func() map[string]string // as of a Value: nothing that prints it finds them
	used  []Used
	scrub *Scrubber
}

// Fill reads the secrets that the sheet names and puts them in their places. All of it or nothing: a place that no grant covers
// is CodePolicyDenied and no secret is read, a secret that the tenant doesn't have is ErrNotFound. Each secret is read once, so all its
// places get one version.
func (s *Secrets) Fill(ctx context.Context, sheet *Sheet, t Target) (*Filled, error) {
	if sheet == nil || t.Tenant == "" || t.Upstream == "" {
		return nil, fail(counterfoil.CodeInvalidInput, "templates are filled for a tenant and an upstream", nil)
	}
	f := &Filled{}
	if t.URL != nil && len(sheet.Refs()) > 0 {
		var err error
		if f.host, err = hostOf(t.URL); err != nil {
			return nil, err
		}
	}
	if err := permitted(sheet, t, f.host); err != nil {
		return nil, err
	}
	values := map[Ref]Value{}
	for _, ref := range sheet.Refs() {
		v, version, err := s.value(ctx, t.Tenant, ref.Name, ref.Version)
		if err != nil {
			return nil, err
		}
		values[ref] = v
		if u := (Used{ref.Name, version}); !slices.Contains(f.used, u) {
			f.used = append(f.used, u)
		}
	}
	f.put(sheet, values)
	return f, nil
}

func permitted(sheet *Sheet, t Target, host string) error {
	for _, field := range sheet.fields {
		for _, p := range field.parts {
			if p.ref.Name == "" {
				continue
			}
			if !slices.ContainsFunc(t.Grants, func(g Grant) bool { return g.covers(t.Tenant, t.Upstream, p.ref.Name, field.pointer, host) }) {
				return at(field.pointer, fail(counterfoil.CodePolicyDenied, "no grant allows this secret at this place of this upstream, for this host", nil))
			}
		}
	}
	return nil
}

func (f *Filled) put(sheet *Sheet, values map[Ref]Value) {
	f.scrub = newScrubber(sheet.Refs(), values, f.used)
	texts := make(map[string]string, len(sheet.fields))
	for _, field := range sheet.fields {
		var b strings.Builder
		for _, p := range field.parts {
			b.WriteString(p.literal)
			b.Write(values[p.ref].bytes())
		}
		texts[field.pointer] = b.String()
	}
	f.texts = func() map[string]string { return texts }
}

// Reveal returns the text at a pointer of the sheet, secrets and all. It is the one way out, and for the transport that hands
// the text to the upstream.
func (f *Filled) Reveal(pointer string) (text string, ok bool) {
	pointer, err := parsePointer(pointer)
	if f == nil || f.texts == nil || err != nil {
		return "", false
	}
	text, ok = f.texts()[pointer]
	return text, ok
}

// Used returns the secrets that were filled in, each with its version.
func (f *Filled) Used() []Used {
	if f == nil {
		return nil
	}
	return slices.Clone(f.used)
}

// Scrubber returns what finds the secrets in what the upstream says.
func (f *Filled) Scrubber() *Scrubber {
	if f == nil {
		return nil
	}
	return f.scrub
}

// Transport returns a transport that sends the filled headers with each request to the host that they were filled for, and refuses
// requests to any other, so that no redirect takes them along. The caller's request is not changed. Secrets that come back in
// the response's headers are replaced; its body is for [Scrubber] to look at.
func (f *Filled) Transport(base http.RoundTripper) http.RoundTripper { return transport{f, base} }

type transport struct {
	f    *Filled
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.admit(req); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	out := req.Clone(req.Context())
	if out.Header == nil {
		out.Header = http.Header{}
	}
	for pointer, text := range t.f.texts() {
		if name, ok := strings.CutPrefix(pointer, headers); ok {
			out.Header[name] = []string{text}
		}
	}
	res, err := t.base.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	for name, values := range res.Header {
		for i, v := range values {
			b, _ := t.f.scrub.Text([]byte(v))
			values[i] = string(b)
		}
		res.Header[name] = values
	}
	res.Request = req
	return res, nil
}

func (t transport) admit(req *http.Request) error {
	if t.f == nil || t.f.texts == nil || t.base == nil || req.URL == nil {
		return fail(counterfoil.CodeInternal, "there is no transport to send this by", nil)
	}
	if len(t.f.used) == 0 {
		return nil
	}
	host, err := hostOf(req.URL)
	if err != nil {
		return err
	}
	if host != t.f.host || req.Host != "" && !strings.EqualFold(req.Host, req.URL.Host) {
		return fail(counterfoil.CodePolicyDenied, "the secrets of this request are not for this host", nil)
	}
	return nil
}

// String returns "[redacted]".
func (f *Filled) String() string { return redacted }

// Format implements fmt.Formatter: every verb prints "[redacted]".
func (f *Filled) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(redacted)) }

// LogValue implements slog.LogValuer.
func (f *Filled) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON returns "[redacted]".
func (f *Filled) MarshalJSON() ([]byte, error) { return quoted(redacted) }
