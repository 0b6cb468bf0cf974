package hooks_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/hooks"
)

func (w *world) callback(p hooks.Params) (hooks.Hook, string) {
	w.t.Helper()
	p.Name, p.URL = "outside", w.url+"/hook?token=of-the-url"
	if p.Phase == "" {
		p.Phase = hooks.PreCall
	}
	return w.create(acme, p)
}

// The receiver checks the signature with the library of Standard Webhooks, and gets no other credential.
func TestCallback_signed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.answer(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, `{"action":"pass","notes":{"ticket":"T-1"}}`)
	})
	h, secret := w.callback(hooks.Params{})
	for range 2 {
		results, err := w.hooks.Run(t.Context(), event(hooks.PreCall))
		if err != nil || results[0].Verdict.Notes["ticket"] != "T-1" {
			t.Fatalf("%+v, %v", results, err)
		}
	}
	all := w.calls()
	if len(all) != 2 || all[0].header.Get("Webhook-Id") == all[1].header.Get("Webhook-Id") || all[0].method != http.MethodPost {
		t.Fatalf("asked %d times", len(all))
	}
	got := all[0]
	receiver, err := standardwebhooks.NewWebhook(secret)
	must(t, err)
	must(t, receiver.VerifyIgnoringTimestamp(got.body, got.header))
	if err := receiver.VerifyIgnoringTimestamp(append(got.body, ' '), got.header); err == nil {
		t.Error("the signature isn't of the body")
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key"} {
		if got.header.Get(name) != "" {
			t.Errorf("%s went along", name)
		}
	}
	var body struct {
		Type      string         `json:"type"`
		Timestamp time.Time      `json:"timestamp"`
		Data      map[string]any `json:"data"`
	}
	must(t, json.Unmarshal(got.body, &body))
	want := map[string]any{"hook": h.ID, "tenant": acme, "id": "call-1", "principal": "agent:x", "tool": "mail.send"}
	if d := cmp.Diff(want, body.Data); d != "" || body.Type != "counterfoil.pre-call" || !body.Timestamp.Equal(w.clock.Now()) {
		t.Errorf("%s %s %s", body.Type, body.Timestamp, d)
	}
}

func TestCallback_payload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.callback(hooks.Params{Payload: true})
	e := event(hooks.PreCall)
	e.Path = "/a\xffb"
	_, err := w.hooks.Run(t.Context(), e)
	must(t, err)
	if body := w.calls()[0].body; !bytes.Contains(body, []byte(`"payload":{"to":"ada"}`)) || !bytes.Contains(body, []byte("/a\uFFFDb")) {
		t.Errorf("got %s", body)
	}
	e.Payload = []byte("{not JSON")
	if _, err := w.hooks.Run(t.Context(), e); !errors.Is(err, counterfoil.CodeUnavailable) || len(w.calls()) != 0 {
		t.Errorf("a payload that is no JSON: %v", err)
	}
}

func TestCallback_answers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.callback(hooks.Params{Timeout: 500 * time.Millisecond})
	w.callback(hooks.Params{Phase: hooks.PostCall, Timeout: 500 * time.Millisecond})
	for name, c := range map[string]struct {
		status int
		body   string
		before counterfoil.Code
		after  counterfoil.Code
	}{
		"pass":             {200, `{"action":"pass"}`, "", ""},
		"pass, created":    {201, ` {"action":"pass","reason":"fine"} `, "", ""},
		"refuse":           {200, `{"action":"refuse","reason":"a freeze"}`, counterfoil.CodePolicyDenied, counterfoil.CodePolicyDenied},
		"silence":          {204, "", counterfoil.CodeUnavailable, ""},
		"blank":            {200, " \n", counterfoil.CodeUnavailable, ""},
		"no action":        {200, `{}`, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
		"another action":   {200, `{"action":"PASS"}`, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
		"another name":     {200, `{"Action":"pass"}`, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
		"two actions":      {200, `{"action":"refuse","action":"pass"}`, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
		"more":             {200, `{"action":"pass","arguments":{"to":"eve"}}`, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
		"trailing":         {200, `{"action":"pass"}{}`, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
		"null":             {200, `null`, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
		"no JSON":          {200, `ok`, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
		"large":            {200, `{"action":"pass"` + strings.Repeat(" ", 17<<10) + `}`, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
		"a failing server": {500, `{"action":"pass"}`, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
		"not there":        {404, ``, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
		"gone elsewhere":   {307, `{"action":"pass"}`, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
		"seen elsewhere":   {303, `{"action":"pass"}`, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
		"a hidden reason":  {200, `{"action":"refuse","reason":"a\u202eb"}`, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
		"a hanging server": {0, ``, counterfoil.CodeUnavailable, counterfoil.CodeUnavailable},
	} {
		w.answer(func(rw http.ResponseWriter, r *http.Request) {
			if c.status == 0 {
				<-r.Context().Done()
				return
			}
			rw.Header().Set("Location", w.url+"/other")
			rw.WriteHeader(c.status)
			_, _ = io.WriteString(rw, c.body)
		})
		for p, want := range map[hooks.Phase]counterfoil.Code{hooks.PreCall: c.before, hooks.PostCall: c.after} {
			_, err := w.hooks.Run(t.Context(), event(p))
			if want == "" && err != nil || want != "" && !errors.Is(err, want) {
				t.Errorf("%s, %s: %v", name, p, err)
			}
			if n := len(w.calls()); n != 1 {
				t.Errorf("%s, %s: asked %d times", name, p, n)
			}
		}
	}
	if strings.Contains(w.log.String(), "of-the-url") {
		t.Error("the URL is logged")
	}
}

// A name on the list that resolves to an inner address, and a server that is not there.
func TestCallback_unreachable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, fail := range []hooks.FailMode{hooks.FailOpen, hooks.FailClosed} {
		w.create(acme, hooks.Params{Name: "inner", Phase: hooks.PreCall, URL: "https://inner.example.com/?token=of-the-url", Fail: fail})
	}
	results, err := w.hooks.Run(t.Context(), event(hooks.PreCall))
	refused, is := errors.AsType[*hooks.RefusedError](err)
	if !is || !refused.Failed || strings.Contains(err.Error(), "inner.example") || !errors.Is(results[0].Err, counterfoil.CodePolicyDenied) {
		t.Errorf("%+v, %v", results, err)
	}
	if strings.Contains(w.log.String(), "of-the-url") {
		t.Error("the URL is logged")
	}
}

func TestRotate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, old := w.callback(hooks.Params{})
	verified := func(run *hooks.Hooks, secrets ...string) (n int) {
		t.Helper()
		_, err := run.Run(t.Context(), event(hooks.PreCall))
		must(t, err)
		got := w.calls()[0]
		for _, s := range secrets {
			receiver, err := standardwebhooks.NewWebhook(s)
			must(t, err)
			if receiver.VerifyIgnoringTimestamp(got.body, got.header) == nil {
				n++
			}
		}
		return n
	}
	h, first, err := w.hooks.Rotate(t.Context(), ada, acme, h.ID, 1)
	if err != nil || h.Version != 2 || first == old || !h.Rotated.Equal(w.clock.Now()) {
		t.Fatalf("%+v, %v", h, err)
	}
	if n := verified(w.hooks, old, first); n != 2 {
		t.Errorf("%d secrets are good at first", n)
	}
	changed, err := w.hooks.Change(t.Context(), ada, acme, h.ID, 2, h.Params)
	if err != nil || !changed.Rotated.Equal(h.Rotated) || verified(w.start(), old, first) != 2 {
		t.Errorf("after a change: %+v, %v", changed, err)
	}
	w.clock.Move(24 * time.Hour)
	if n := verified(w.hooks, old); n != 0 {
		t.Error("the old secret is good for ever")
	}
	if n := verified(w.start(), first); n != 1 {
		t.Error("the new secret isn't good")
	}
	_, third, err := w.hooks.Rotate(t.Context(), ada, acme, h.ID, 3)
	must(t, err)
	if n := verified(w.hooks, first, third); n != 2 || verified(w.hooks, old) != 0 {
		t.Errorf("%d secrets are good after another rotation", n)
	}
	if _, _, err := w.hooks.Rotate(t.Context(), ada, acme, h.ID, 3); !errors.Is(err, hooks.ErrChanged) {
		t.Errorf("an old version: %v", err)
	}
	plain, _ := w.create(acme, handler("a", ""))
	if _, _, err := w.hooks.Rotate(t.Context(), ada, acme, plain.ID, 1); !errors.Is(err, counterfoil.CodeInvalidInput) {
		t.Errorf("a handler: %v", err)
	}
	if _, _, err := w.hooks.Rotate(t.Context(), ada, globex, h.ID, 4); !errors.Is(err, hooks.ErrNotFound) {
		t.Errorf("another's: %v", err)
	}
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"action":"pass"}`, `{"action":"refuse","reason":"x","notes":{"a":"b"}}`, ``, `null`, `{"action":1}`, `[]`, "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range hooks.Phases() {
			v, err := hooks.Answer(p, b)
			if err != nil {
				continue
			}
			if v.Action != hooks.Pass && v.Action != hooks.Refuse || len(v.Reason) > 200 || strings.ContainsAny(v.Reason, "\r\n\x00\x1b") || len(v.Notes) > 16 {
				t.Fatalf("%s: %+v", p, v)
			}
			if len(bytes.TrimSpace(b)) == 0 && (p == hooks.PreCall || p == hooks.PreRequest) {
				t.Fatalf("%s: silence passed", p)
			}
		}
	})
}

// A body in the store that is read and written again is the same from then on.
func FuzzRow(f *testing.F) {
	f.Add([]byte(`{"name":"a","priority":1,"handler":"x","config":{"a":"b"},"timeout_ms":200,"fail":"open","changed_ms":1}`))
	f.Add([]byte(`{"name":"a","priority":1,"url":"https://a.test","timeout_ms":200,"fail":"closed","changed_ms":1,"rotated_ms":9007199254740993}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		once, err := hooks.Reread(hooks.Row{Tenant: acme, ID: "hook_1", Phase: hooks.PreCall, Version: 1, Body: b})
		if err != nil {
			return
		}
		twice, err := hooks.Reread(hooks.Row{Tenant: acme, ID: "hook_1", Phase: hooks.PreCall, Version: 1, Body: once})
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s becomes %s, %v", once, twice, err)
		}
	})
}
