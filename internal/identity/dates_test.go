package identity_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/store/storetest"
)

// dated returns the claims with other dates, each a JSON text, "" for none.
func dated(iat, nbf, exp string) string {
	var b strings.Builder
	for _, m := range [][2]string{{"iat", iat}, {"nbf", nbf}, {"exp", exp}} {
		if m[1] != "" {
			fmt.Fprintf(&b, `"%s":%s,`, m[0], m[1])
		}
	}
	return fmt.Sprintf(`{%s"iss":"%s","sub":"build","aud":"%s","jti":"t-1","tenant_id":"acme","kind":"agent","owner":"ada","scopes":[]}`,
		b.String(), issuer, audience)
}

// A date is a whole number of seconds in digits, or it is none.
func TestToken_dateForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	kid, sign := edKey(t, "one").ID(), edForger("one").sign
	at := storetest.Start().Unix()
	now := strconv.FormatInt(at, 10)
	if _, err := w.auth.Token(t.Context(), sign(t, header(kid), dated(now, now, strconv.FormatInt(at+60, 10)))); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	soon := strconv.FormatInt(at+60, 10)
	for _, form := range []string{
		`"` + soon + `"`, soon + `.5`, soon + `.0`, strconv.FormatInt(at-1, 10) + `.5`, `1.772366460e9`, `1772366460e0`, `1E9`, `1e30`, `1e400`,
		`-1`, `-0`, `0`, `null`, `[1]`, `[` + soon + `]`, `{}`, `true`, `""`, `9223372036854775807`, `18446744073709551616`, `18446744075481918076`, `253402300800`, `999999999999`,
		strings.Repeat("9", 400),
	} {
		for name, body := range map[string]string{
			"exp": dated(now, "", form), "iat": dated(form, "", soon), "nbf": dated(now, form, soon),
		} {
			p, err := w.auth.Token(t.Context(), sign(t, header(kid), body))
			if got := why(t, p, err); got != "date" {
				t.Errorf("%s %s: refused for %q", name, form, got)
			}
		}
	}
	for name, body := range map[string]string{"no exp": dated(now, "", ""), "no iat": dated("", "", soon)} {
		p, err := w.auth.Token(t.Context(), sign(t, header(kid), body))
		if got := why(t, p, err); got != "date" {
			t.Errorf("%s: refused for %q", name, got)
		}
	}
}

// The leeway widens each end once, in the right direction; a life has none. Cached answers end at the same moment.
func TestToken_times(t *testing.T) {
	t.Parallel()
	const hour = 3600
	for _, c := range []struct {
		name          string
		leeway        time.Duration
		iat, nbf, exp int64         // seconds after now; nbf 1<<40 is none
		move          time.Duration // the clock goes on by this before the token comes
		want          string        // "" is accepted
	}{
		{"ended 4 s ago", 5 * time.Second, -60, none, -4, 0, ""},
		{"ended 5 s ago", 5 * time.Second, -60, none, -5, 0, "expired"},
		{"ended 6 s ago", 5 * time.Second, -60, none, -6, 0, "expired"},
		{"begins in 4 s", 5 * time.Second, -60, 4, 60, 0, ""},
		{"begins in 5 s", 5 * time.Second, -60, 5, 60, 0, ""},
		{"begins in 6 s", 5 * time.Second, -60, 6, 60, 0, "not-yet"},
		{"issued in 4 s", 5 * time.Second, 4, none, 60, 0, ""},
		{"issued in 5 s", 5 * time.Second, 5, none, 60, 0, ""},
		{"issued in 6 s", 5 * time.Second, 6, none, 60, 0, "not-yet"},
		{"the most leeway", 5 * time.Minute, -600, none, -299, 0, ""},
		{"more than the most", 5 * time.Minute, -600, none, -300, 0, "expired"},
		{"exact: ends now", 0, -60, none, 0, 0, "expired"},
		{"exact: ends in 1 s", 0, -60, none, 1, 0, ""},
		{"exact: 1 ms before", 0, -60, none, 1, 999 * time.Millisecond, ""},
		{"exact: at the end", 0, -60, none, 1, time.Second, "expired"},
		{"exact: 1 ms behind", 0, -60, none, 1, 1001 * time.Millisecond, "expired"},
		{"exact: issued now", 0, 0, none, 60, 0, ""},
		{"exact: issued in 1 s", 0, 1, none, 60, 0, "not-yet"},
		{"exact: 1 ms early", 0, 1, none, 60, 999 * time.Millisecond, "not-yet"},
		{"exact: begins now", 0, -60, 0, 60, 0, ""},
		{"exact: begins in 1 s", 0, -60, 1, 60, 0, "not-yet"},
		{"begins before it was issued", 0, -60, -120, 60, 0, ""},
		{"ends as it is issued", 0, 0, none, 0, 0, "lifetime"},
		{"ends before it is issued", 5 * time.Minute, 10, none, 5, 0, "lifetime"},
		{"ends before it begins", 5 * time.Minute, 0, 20, 10, 0, "lifetime"},
		{"the longest life", 0, 0, none, hour, 0, ""},
		{"longer", 0, 0, none, hour + 1, 0, "lifetime"},
		{"longer, with leeway", 5 * time.Minute, -200, none, hour, 0, "lifetime"},
		{"for ever", 0, 0, none, 200_000_000_000, 0, "lifetime"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *identity.Options) { o.Rules.Leeway = c.leeway })
			second := func(n int64) string {
				if n == none {
					return ""
				}
				return strconv.FormatInt(storetest.Start().Unix()+n, 10)
			}
			text := edForger("one").sign(t, header(edKey(t, "one").ID()), dated(second(c.iat), second(c.nbf), second(c.exp)))
			before, _ := w.auth.Token(t.Context(), text) // it may be remembered
			w.clock.Move(c.move)
			p, err := w.auth.Token(t.Context(), text)
			if c.want == "" {
				if err != nil || !p.ExpiresAt.Equal(storetest.Start().Add(time.Duration(c.exp)*time.Second)) {
					t.Fatalf("%v, %v", p, err)
				}
				return
			}
			if got := why(t, p, err); got != c.want {
				t.Fatalf("refused for %q, before %v", got, before)
			}
		})
	}
}

const none = 1 << 40

// Rules that would let in more than they say are refused at the start.
func TestRules_refused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*identity.Rules){
		"negative leeway":   func(r *identity.Rules) { r.Leeway = -time.Millisecond },
		"too much leeway":   func(r *identity.Rules) { r.Leeway = 5*time.Minute + time.Millisecond },
		"ten years":         func(r *identity.Rules) { r.Leeway = 87600 * time.Hour },
		"no life":           func(r *identity.Rules) { r.Lifetime = 0 },
		"a long life":       func(r *identity.Rules) { r.Lifetime = 24*time.Hour + time.Second },
		"no issuer":         func(r *identity.Rules) { r.Issuer = "" },
		"no audience":       func(r *identity.Rules) { r.Audiences = nil },
		"an empty audience": func(r *identity.Rules) { r.Audiences = []string{audience, ""} },
	} {
		w := newWorld(t, nil)
		r := rules()
		change(&r)
		if _, err := identity.NewIssuer(identity.IssuerOptions{Rules: r, Keys: w.keys, Now: w.clock.Now, Rand: zeros{}}); err == nil {
			t.Errorf("%s: an issuer takes it", name)
		}
		o := identity.Options{
			Rules: r, Keys: w.keys, Store: w.store, Epoch: w.epoch, Remembered: 1, Names: storetest.Names(), Audience: "test", Now: w.clock.Now, Rand: zeros{},
		}
		if _, err := identity.New(o); err == nil {
			t.Errorf("%s: an authenticator takes it", name)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
