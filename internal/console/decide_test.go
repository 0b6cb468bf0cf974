package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]gateway.State{"approve": gateway.Approved, "deny": gateway.Denied} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, ask("a-1", "write_file", "mutation", `{"path":"/tmp/x"}`))
			w := d.decide("a-1", form, passphrase)
			if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/approvals/a-1" {
				t.Fatalf("%d %s\n%s", w.Code, w.Header().Get("Location"), w.Body)
			}
			if d.state() != want {
				t.Errorf("the state is %s, want %s", d.state(), want)
			}
			page := d.page("/approvals/a-1")
			for _, part := range []string{"person:ada", "looks right"} {
				if !strings.Contains(page, part) {
					t.Errorf("the page does not show %q", part)
				}
			}
			if strings.Contains(page, "<textarea") {
				t.Error("a decided request can be decided")
			}
		})
	}
}

func TestDecide_the_loser_gets_409(t *testing.T) {
	t.Parallel()
	d := newDesk(t, ask("a-1", "write_file", "mutation", `{}`))
	// Another reviewer is faster, after our page and before our decision.
	d.service.race = func() {
		d.service.race = nil
		if err := d.service.Deny(context.Background(), "a-1", owner("person:bob"), ""); err != nil {
			t.Error(err)
		}
	}
	w := d.decide("a-1", "approve", passphrase)
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "“denied”") || !strings.Contains(w.Body.String(), `href="/approvals/a-1"`) {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
}

func TestDecide_late(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*desk, *gateway.Approval)
		want   string
	}{
		{"decided", func(_ *desk, a *gateway.Approval) { a.State = gateway.Approved }, "“approved”"},
		{"void", func(_ *desk, a *gateway.Approval) { a.State = gateway.Void }, "“void”"},
		{"cancelled", func(_ *desk, a *gateway.Approval) { a.State = gateway.Cancelled }, "“cancelled”"},
		{"expired but not swept", func(d *desk, _ *gateway.Approval) { d.sleep(13 * time.Minute) }, "“expired”"},
		{"another digest", func(_ *desk, a *gateway.Approval) { a.DryRunDigest = hash("other") }, "not the one that was shown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, ask("a-1", "write_file", "mutation", `{}`))
			v := d.form("/approvals/a-1", "/approvals/a-1/approve")
			v.Set("passphrase", passphrase)
			tt.change(d, &d.service.approvals[0])
			w := d.do(d.request(http.MethodPost, "/approvals/a-1/approve", v))
			if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%d\n%s", w.Code, w.Body)
			}
			if d.service.tried != 0 {
				t.Error("the passphrase was tried for nothing")
			}
		})
	}
}

func TestDecide_destructive_asks_each_time(t *testing.T) {
	t.Parallel()
	d := newDesk(t, ask("a-1", "write_file", "mutation", `{}`), ask("a-2", "write_file", "mutation", `{}`),
		ask("a-3", "delete_file", "destructive", `{}`), ask("a-4", "odd", "no-such-effect", `{}`))
	if w := d.decide("a-1", "approve", passphrase); w.Code != http.StatusSeeOther {
		t.Fatal(w.Code)
	}
	if page := d.page("/approvals/a-2"); strings.Contains(page, "passphrase") || !strings.Contains(page, "Key unlocked until") {
		t.Error("the unlocked key isn't used for a second write")
	}
	if w := d.decide("a-2", "approve", ""); w.Code != http.StatusSeeOther || d.service.tried != 1 {
		t.Fatal(w.Code, d.service.tried)
	}
	for _, id := range []string{"a-3", "a-4"} {
		for _, form := range []string{"approve", "deny"} {
			if w := d.decide(id, form, ""); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "Enter your passphrase") {
				t.Errorf("%s %s without a passphrase: %d", form, id, w.Code)
			}
		}
		if w := d.decide(id, "approve", passphrase); w.Code != http.StatusSeeOther {
			t.Errorf("approve %s: %d", id, w.Code)
		}
	}
	if d.service.tried != 3 {
		t.Errorf("%d passphrases were tried, want 3", d.service.tried)
	}
}

func TestDecide_a_destructive_decision_leaves_no_key(t *testing.T) {
	t.Parallel()
	d := newDesk(t, ask("a-1", "delete_file", "destructive", `{}`), ask("a-2", "write_file", "mutation", `{}`))
	if w := d.decide("a-1", "approve", passphrase); w.Code != http.StatusSeeOther {
		t.Fatal(w.Code)
	}
	if w := d.decide("a-2", "approve", ""); w.Code != http.StatusForbidden {
		t.Errorf("the key of a destructive decision was kept: %d", w.Code)
	}
}

func TestUnlock_expires(t *testing.T) {
	t.Parallel()
	var list []gateway.Approval
	for _, id := range []string{"a-1", "a-2", "a-3"} {
		a := ask(id, "write_file", "mutation", `{}`)
		a.ExpiresAt = start().Add(time.Hour)
		list = append(list, a)
	}
	d := newDesk(t, list...)
	if w := d.decide("a-1", "approve", passphrase); w.Code != http.StatusSeeOther {
		t.Fatal(w.Code)
	}
	d.sleep(15*time.Minute - time.Second)
	if w := d.decide("a-2", "approve", ""); w.Code != http.StatusSeeOther {
		t.Fatalf("the key was gone too early: %d", w.Code)
	}
	d.sleep(time.Second) // using it does not prolong it
	if w := d.decide("a-3", "approve", ""); w.Code != http.StatusForbidden {
		t.Fatalf("the key is kept beyond 15 minutes: %d", w.Code)
	}
}

// Nobody asks for anything any more, and still the key is forgotten.
func TestUnlock_is_forgotten_by_itself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := ask("a-1", "write_file", "mutation", `{}`)
		d := newDesk(t, a, ask("a-2", "write_file", "mutation", `{}`))
		if w := d.decide("a-1", "approve", passphrase); w.Code != http.StatusSeeOther {
			t.Fatal(w.Code)
		}
		time.Sleep(15*time.Minute + time.Second) // the desk's clock stands still: only the timer can have done it
		synctest.Wait()
		if w := d.decide("a-2", "approve", ""); w.Code != http.StatusForbidden {
			t.Errorf("the key is still held: %d", w.Code)
		}
	})
}

func TestUnlock_ends(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/lock", "/logout"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, ask("a-1", "write_file", "mutation", `{}`), ask("a-2", "write_file", "mutation", `{}`))
			if w := d.decide("a-1", "approve", passphrase); w.Code != http.StatusSeeOther {
				t.Fatal(w.Code)
			}
			v := d.form("/", path)
			cookie := d.cookie
			if w := d.do(d.request(http.MethodPost, path, v)); w.Code != http.StatusSeeOther {
				t.Fatal(w.Code)
			}
			if path == "/logout" {
				if w := d.get("/"); w.Code != http.StatusUnauthorized {
					t.Fatalf("the session lives on: %d", w.Code)
				}
				d.signIn("again")
			}
			if w := d.decide("a-2", "approve", ""); w.Code != http.StatusForbidden {
				t.Errorf("the key is still held: %d", w.Code)
			}
			if path == "/logout" && d.cookie == cookie {
				t.Error("the token was used twice")
			}
		})
	}
}

func TestUnlock_lockout(t *testing.T) {
	t.Parallel()
	d := newDesk(t, ask("a-1", "delete_file", "destructive", `{}`))
	var texts []string
	for range 5 {
		w := d.decide("a-1", "approve", "wrong-secret-9")
		if w.Code != http.StatusForbidden {
			t.Fatal(w.Code)
		}
		texts = append(texts, w.Body.String())
		if strings.Contains(w.Body.String(), "wrong-secret-9") {
			t.Fatal("the passphrase is sent back")
		}
	}
	w := d.decide("a-1", "approve", passphrase)
	if w.Code != http.StatusForbidden || d.service.tried != 5 {
		t.Fatalf("the sixth try was made: %d, %d tried", w.Code, d.service.tried)
	}
	if diff := cmp.Diff(texts[0], w.Body.String()); diff != "" {
		t.Errorf("the lockout can be told from a wrong passphrase: %s", diff)
	}
	if !strings.Contains(texts[0], "looks right") {
		t.Error("the reason is lost")
	}
	d.sleep(time.Minute)
	if w := d.decide("a-1", "approve", passphrase); w.Code != http.StatusSeeOther {
		t.Errorf("locked out for ever: %d", w.Code)
	}
}

// Guesses made all at once count one by one.
func TestUnlock_lockout_counts_guesses_made_at_once(t *testing.T) {
	t.Parallel()
	d := newDesk(t, ask("a-1", "delete_file", "destructive", `{}`))
	v := d.form("/approvals/a-1", "/approvals/a-1/approve")
	v.Set("passphrase", "wrong")
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() { d.do(d.request(http.MethodPost, "/approvals/a-1/approve", v)) })
	}
	wg.Wait()
	if d.service.tried != 5 {
		t.Errorf("%d were tried, want 5", d.service.tried)
	}
}

func TestDecide_refusals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		form   string
		change func(url.Values)
		code   int
		want   string
	}{
		{"reason too long", "deny", func(v url.Values) { v.Set("reason", strings.Repeat("é", 501)) }, 422, "longer than 500"},
		{"reason not UTF-8", "deny", func(v url.Values) { v.Set("reason", "\xff") }, 400, "damaged"},
		{"field twice", "approve", func(v url.Values) { v.Add("shown", v.Get("shown")) }, 400, "damaged"},
		{"no digest", "approve", func(v url.Values) { v.Del("shown") }, 409, "Look again"},
		{"passphrase too long", "approve", func(v url.Values) { v.Set("passphrase", strings.Repeat("x", 1025)) }, 403, "not accepted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, ask("a-1", "write_file", "mutation", `{}`))
			v := d.form("/approvals/a-1", "/approvals/a-1/"+tt.form)
			v.Set("passphrase", passphrase)
			tt.change(v)
			w := d.do(d.request(http.MethodPost, "/approvals/a-1/"+tt.form, v))
			if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%d\n%s", w.Code, w.Body)
			}
			if d.state() != gateway.Pending || d.service.tried != 0 {
				t.Error("it was decided, or the passphrase was tried")
			}
		})
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		code int
		want string
	}{
		{"unavailable", &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: "the store does not answer"}, 503, "The store does not answer."},
		{"refused", &counterfoil.Error{Code: counterfoil.CodeSelfApproval, Msg: "nobody approves their own"}, 422, "(self-approval)"},
		{"ours", context.DeadlineExceeded, 500, "Internal error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.service.err = tt.err
			w := d.get("/approvals/a-1")
			if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.want) || strings.Contains(w.Body.String(), "deadline") {
				t.Errorf("%d\n%s", w.Code, w.Body)
			}
		})
	}
}

// signIn redeems a code and keeps the cookie.
func (d *desk) signIn(code string) {
	d.t.Helper()
	d.service.codes[code] = true
	w := d.do(d.request(http.MethodPost, "/login", url.Values{"code": {code}}))
	for _, c := range w.Result().Cookies() {
		if c.Name == cookieName {
			d.cookie = c.Value
		}
	}
}
