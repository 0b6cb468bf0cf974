package hooks_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/hooks"
	"github.com/counterfoil/counterfoil/internal/reach"
)

func TestCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, secret := w.create(acme, handler("a", ""))
	if secret != "" || len(h.ID) != len("hook_")+12 || h.System || h.Version != 1 || !h.Changed.Equal(w.clock.Now()) || h.Fail != hooks.FailClosed || h.Timeout != 50*time.Millisecond {
		t.Errorf("%+v, %q", h, secret)
	}
	defaults := hooks.Params{Name: "b", Phase: hooks.PostCall, Handler: "log"}
	b, _ := w.create(acme, defaults)
	c, secret := w.create(acme, hooks.Params{Name: "c", Phase: hooks.PostCall, URL: w.url, Fail: hooks.FailOpen})
	if b.Timeout != 200*time.Millisecond || b.Fail != hooks.FailClosed || c.Timeout != 2*time.Second || c.Fail != hooks.FailOpen || !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("%+v, %+v", b, c)
	}
	for _, want := range []hooks.Hook{h, b, c} {
		got, err := w.start().Get(t.Context(), acme, want.ID)
		must(t, err)
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	row, err := w.store.Hook(t.Context(), acme, c.ID)
	must(t, err)
	if all := append(row.Body, row.Secret...); bytes.Contains(all, []byte(secret[6:])) || len(row.Secret) == 0 || strings.Contains(w.log.String(), secret) {
		t.Error("the secret is stored or logged in clear")
	}
}

// Only what is compiled in can be named: nothing that could be found, loaded or started.
func TestCreate_rejects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	change := func(f func(p *hooks.Params)) hooks.Params {
		p := handler("a", "")
		f(&p)
		return p
	}
	call := func(url string) hooks.Params { return hooks.Params{Name: "a", Phase: hooks.PreCall, URL: url} }
	for name, p := range map[string]hooks.Params{
		"nothing":              {},
		"no name":              change(func(p *hooks.Params) { p.Name = "" }),
		"a long name":          change(func(p *hooks.Params) { p.Name = strings.Repeat("a", 101) }),
		"a name of lines":      change(func(p *hooks.Params) { p.Name = "a\nb" }),
		"a hidden name":        change(func(p *hooks.Params) { p.Name = "a\u202eb" }),
		"a long description":   change(func(p *hooks.Params) { p.Description = strings.Repeat("a", 1001) }),
		"no phase":             change(func(p *hooks.Params) { p.Phase = "" }),
		"another phase":        change(func(p *hooks.Params) { p.Phase = "Pre-Call" }),
		"low priority":         change(func(p *hooks.Params) { p.Priority = 1001 }),
		"negative priority":    change(func(p *hooks.Params) { p.Priority = -1 }),
		"another fail mode":    change(func(p *hooks.Params) { p.Fail = "ajar" }),
		"a long timeout":       change(func(p *hooks.Params) { p.Timeout = 5001 * time.Millisecond }),
		"a negative timeout":   change(func(p *hooks.Params) { p.Timeout = -1 }),
		"less than a tick":     change(func(p *hooks.Params) { p.Timeout = time.Microsecond }),
		"both":                 change(func(p *hooks.Params) { p.URL = w.url }),
		"a dotted name":        change(func(p *hooks.Params) { p.Handler = "os.abort" }),
		"another letter case":  change(func(p *hooks.Params) { p.Handler = "Do" }),
		"a file":               change(func(p *hooks.Params) { p.Handler = "./hooks/pre-call--x.sh" }),
		"a handler's refusal":  change(func(p *hooks.Params) { p.Config = map[string]string{"bad": "x"} }),
		"no handler made":      change(func(p *hooks.Params) { p.Handler = "nil" }),
		"a level that is none": change(func(p *hooks.Params) { p.Handler, p.Config = "log", map[string]string{"level": "loud"} }),
		"much configuration":   change(func(p *hooks.Params) { p.Config["a"] = strings.Repeat("a", 1025) }),
		"a payload unasked":    change(func(p *hooks.Params) { p.Payload = true }),
		"plain HTTP":           call(strings.Replace(w.url, "https", "http", 1)),
		"another port":         call("https://example.com/"),
		"another host":         call("https://evil.test/"),
		"an address":           call("https://127.0.0.1/"),
		"user info":            call("https://a@example.com/"),
		"a file's URL":         call("file:///etc/passwd"),
		"a callback with config": {
			Name: "a", Phase: hooks.PreCall, URL: w.url, Config: map[string]string{"a": "b"},
		},
	} {
		if h, secret, err := w.hooks.Create(t.Context(), ada, acme, p); !errors.Is(err, counterfoil.CodeInvalidInput) || secret != "" || h.ID != "" {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	for _, tenant := range []string{"", "nobody"} {
		if _, _, err := w.hooks.Create(t.Context(), ada, tenant, handler("a", "")); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("tenant %q: %v", tenant, err)
		}
	}
	if all, err := w.hooks.List(t.Context(), acme); err != nil || len(all) != 0 {
		t.Errorf("%d hooks, %v", len(all), err)
	}
	// Without a list of hosts no tenant has callbacks.
	w.o.CallbackHosts = reach.DomainAllowlist{}
	if _, _, err := w.start().Create(t.Context(), ada, acme, call(w.url)); !errors.Is(err, counterfoil.CodeInvalidInput) {
		t.Errorf("a callback to a host that nobody listed: %v", err)
	}
}

func TestCreate_bound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range hooks.MaxPerPhase {
		w.create(acme, handler(fmt.Sprint(i), ""))
	}
	if _, _, err := w.hooks.Create(t.Context(), ada, acme, handler("more", "")); !errors.Is(err, hooks.ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	elsewhere := handler("elsewhere", "")
	elsewhere.Phase = hooks.PostCall
	w.create(acme, elsewhere)
	w.create(globex, handler("a", ""))
}

func TestChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, _ := w.create(acme, handler("a", "refuse"))
	w.clock.Move(time.Minute)
	p := handler("b", "")
	p.Priority = 7
	got, err := w.hooks.Change(t.Context(), ada, acme, h.ID, 1, p)
	if err != nil || got.Version != 2 || got.Name != "b" || !got.Changed.Equal(w.clock.Now()) {
		t.Fatalf("%+v, %v", got, err)
	}
	if again, err := w.hooks.Get(t.Context(), acme, h.ID); err != nil || cmp.Diff(got, again) != "" {
		t.Errorf("%v %s", err, cmp.Diff(got, again))
	}
	if _, err := w.hooks.Run(t.Context(), event(hooks.PreCall)); err != nil || w.took() != "b" {
		t.Errorf("after the change: %v", err)
	}
	moved, called, broken := p, hooks.Params{Name: "a", Phase: hooks.PreCall, URL: w.url}, p
	moved.Phase, broken.Handler = hooks.PostCall, "os.abort"
	for name, c := range map[string]struct {
		tenant, id string
		version    int64
		p          hooks.Params
		want       error
	}{
		"an old version":     {acme, h.ID, 1, p, hooks.ErrChanged},
		"another's":          {globex, h.ID, 2, p, hooks.ErrNotFound},
		"one that isn't":     {acme, "hook_000000000000", 2, p, hooks.ErrNotFound},
		"another phase":      {acme, h.ID, 2, moved, counterfoil.CodeInvalidInput},
		"another kind":       {acme, h.ID, 2, called, counterfoil.CodeInvalidInput},
		"an unknown handler": {acme, h.ID, 2, broken, counterfoil.CodeInvalidInput},
	} {
		if _, err := w.hooks.Change(t.Context(), ada, c.tenant, c.id, c.version, c.p); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.hooks.Delete(t.Context(), ada, globex, h.ID); !errors.Is(err, hooks.ErrNotFound) {
		t.Errorf("another's, removed: %v", err)
	}
	must(t, w.hooks.Delete(t.Context(), ada, acme, h.ID))
	if _, err := w.hooks.Get(t.Context(), acme, h.ID); !errors.Is(err, hooks.ErrNotFound) {
		t.Errorf("after the removal: %v", err)
	}
	if results, err := w.hooks.Run(t.Context(), event(hooks.PreCall)); err != nil || len(results) != 0 {
		t.Errorf("it runs after its removal: %v", err)
	}
}

// Tenants see the hooks of the system, run them, and can do nothing about them.
func TestSystem(t *testing.T) {
	t.Parallel()
	guard := handler("guard", "")
	w := newWorld(t, hooks.SystemHook{Params: guard})
	secret, err := hooks.ParseSecret("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	must(t, err)
	w.o.System = append(w.o.System, hooks.SystemHook{Params: hooks.Params{Name: "outside", Phase: hooks.PostCall, URL: w.url + "/secret-path"}, Secret: secret})
	h := w.start()
	all, err := h.List(t.Context(), globex)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d hooks, %v", len(all), err)
	}
	for _, x := range all {
		if !x.System || x.URL != "" || x.Config != nil {
			t.Errorf("a tenant is told %+v", x)
		}
		p := x.Params
		p.Disabled, p.Handler = true, "do"
		for name, err := range map[string]error{
			"change": second(h.Change(t.Context(), ada, globex, x.ID, 1, p)), "delete": h.Delete(t.Context(), ada, globex, x.ID),
		} {
			if !errors.Is(err, hooks.ErrReadOnly) || !errors.Is(err, counterfoil.CodePolicyDenied) {
				t.Errorf("%s %s: %v", name, x.ID, err)
			}
		}
		if _, _, err := h.Rotate(t.Context(), ada, globex, x.ID, 1); !errors.Is(err, hooks.ErrReadOnly) {
			t.Errorf("rotate %s: %v", x.ID, err)
		}
		if got, err := h.Get(t.Context(), acme, x.ID); err != nil || cmp.Diff(x, got) != "" {
			t.Errorf("get %s: %v", x.ID, err)
		}
	}
	if err := h.Delete(t.Context(), ada, globex, "system/other"); !errors.Is(err, hooks.ErrNotFound) {
		t.Errorf("one that isn't there: %v", err)
	}
	if _, err := h.Run(t.Context(), event(hooks.PreCall)); err != nil || w.took() != "guard" {
		t.Errorf("it ran no more: %v", err)
	}
	if _, err := h.Run(t.Context(), event(hooks.PostCall)); err != nil || len(w.calls()) != 1 {
		t.Errorf("the system's callback: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestNew_rejects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	full := make([]hooks.SystemHook, hooks.MaxPerPhase+1)
	for i := range full {
		full[i] = hooks.SystemHook{Params: handler(fmt.Sprint(i), "")}
	}
	unknown, broken := handler("a", ""), handler("a", "")
	unknown.Handler, broken.Config = "audit.disable", map[string]string{"bad": "x"}
	for name, change := range map[string]func(o *hooks.Options){
		"an unknown handler": func(o *hooks.Options) { o.System = []hooks.SystemHook{{Params: unknown}} },
		"its configuration":  func(o *hooks.Options) { o.System = []hooks.SystemHook{{Params: broken}} },
		"no definition":      func(o *hooks.Options) { o.System = []hooks.SystemHook{{}} },
		"two of a name": func(o *hooks.Options) {
			o.System = []hooks.SystemHook{{Params: handler("a", "")}, {Params: handler("a", "")}}
		},
		"too many": func(o *hooks.Options) { o.System = full },
		"no secret": func(o *hooks.Options) {
			o.System = []hooks.SystemHook{{Params: hooks.Params{Name: "a", Phase: hooks.PreCall, URL: w.url}}}
		},
		"no store":      func(o *hooks.Options) { o.Store = nil },
		"no sealer":     func(o *hooks.Options) { o.Sealer = nil },
		"no lag":        func(o *hooks.Options) { o.Lag = 0 },
		"no clock":      func(o *hooks.Options) { o.Now = nil },
		"no randomness": func(o *hooks.Options) { o.Rand = nil },
		"no log":        func(o *hooks.Options) { o.Log = nil },
	} {
		o := w.o
		change(&o)
		if h, err := hooks.New(o); err == nil || h != nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// What was stored and can't run any more fails, closed unless it may fail open; it is never skipped.
func TestStored_broken(t *testing.T) {
	t.Parallel()
	for _, fail := range []hooks.FailMode{hooks.FailClosed, hooks.FailOpen} {
		w := newWorld(t)
		p := handler("a", "")
		p.Fail = fail
		w.create(acme, p)
		w.o.Handlers = nil
		results, err := w.start().Run(t.Context(), event(hooks.PreCall))
		if errors.Is(err, counterfoil.CodeUnavailable) != (fail == hooks.FailClosed) || len(results) != 1 || results[0].Err == nil {
			t.Errorf("%s, the handler is gone: %v", fail, err)
		}
	}
	w := newWorld(t)
	p := hooks.Params{Name: "c", Phase: hooks.PreCall, URL: w.url, Fail: hooks.FailOpen}
	a, _ := w.create(acme, p)
	b, _ := w.create(globex, p)
	row, err := w.store.Hook(t.Context(), acme, a.ID)
	must(t, err)
	other, err := w.store.Hook(t.Context(), globex, b.ID)
	must(t, err)
	for name, change := range map[string]func(r *hooks.Row){
		"another's secret": func(r *hooks.Row) { r.Secret = other.Secret },
		"no secret":        func(r *hooks.Row) { r.Secret = nil },
		"a damaged body":   func(r *hooks.Row) { r.Body = []byte(`{"name":"c"`) },
		"an unknown name":  func(r *hooks.Row) { r.Body = bytes.Replace(r.Body, []byte(`"fail"`), []byte(`"fall"`), 1) },
		"a repeated name":  func(r *hooks.Row) { r.Body = bytes.Replace(r.Body, []byte(`{`), []byte(`{"fail":"open",`), 1) },
	} {
		bad := row
		change(&bad)
		e, err := counterfoil.NewEvent(counterfoil.PhaseGoverned, w.o.Names, counterfoil.EventParams{Tenant: acme, Audience: w.o.Audience, ExecutionID: "x", Code: "x"})
		must(t, err)
		must(t, w.store.ChangeHook(t.Context(), bad, e))
		row.Version++
		if _, err := w.start().Run(t.Context(), event(hooks.PreCall)); !errors.Is(err, counterfoil.CodeUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if all, err := w.start().List(t.Context(), acme); err != nil || len(all) != 1 || all[0].ID != a.ID {
			t.Errorf("%s: it can't be seen: %v", name, err)
		}
	}
	if n := len(w.calls()); n != 0 {
		t.Errorf("the callback was asked %d times", n)
	}
	must(t, w.start().Delete(t.Context(), ada, acme, a.ID))
}

func TestTry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := handler("a", "refuse")
	p.Disabled = true
	h, _ := w.create(acme, p)
	r, err := w.hooks.Try(t.Context(), acme, h.ID, hooks.Event{Tenant: globex, Phase: hooks.PostCall, ID: "trial"})
	if err != nil || !r.Refused || r.Verdict.Notes["for"] != "acme pre-call" || r.Verdict.Reason != "not on Fridays" || r.Hook != h.ID {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := w.hooks.Try(t.Context(), globex, h.ID, hooks.Event{}); !errors.Is(err, hooks.ErrNotFound) {
		t.Errorf("another's: %v", err)
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(acme, hooks.Params{Name: "log", Phase: hooks.PreCall, Handler: "log", Config: map[string]string{"level": "warn"}})
	_, err := w.hooks.Run(t.Context(), event(hooks.PreCall))
	must(t, err)
	if got := w.log.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "tool=mail.send") || strings.Contains(got, "to\\\":") {
		t.Errorf("logged: %s", got)
	}
}

func TestSecret_prints(t *testing.T) {
	t.Parallel()
	const text = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	s, err := hooks.ParseSecret(text)
	must(t, err)
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", slog.Any("secret", s))
	if got := fmt.Sprintf("%v %+v %#v %s %x", s, s, s, s, s) + b.String(); strings.Contains(got, "MDEy") || strings.Contains(got, "3031") || !strings.Contains(got, "redacted") {
		t.Errorf("printed: %s", got)
	}
	for _, bad := range []string{"", "whsec_", text[6:], "whsec_MDEy", text[:len(text)-1], text + "=", strings.Replace(text, "MDEy", "MD-y", 1), text[:len(text)-2] + "Z="} {
		if s, err := hooks.ParseSecret(bad); !errors.Is(err, counterfoil.CodeInvalidInput) || !s.IsZero() {
			t.Errorf("%q is taken: %v", bad, err)
		}
	}
}
