package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"time"
)

// sessionLife is how long a sign-in lasts.
const sessionLife = 12 * time.Hour

const tokenBytes = 32

// resume finds the session of a request. A request without one is no error; the route says whether it needs one.
func (c *Console) resume(x *exchange) error {
	cookies := x.r.CookiesNamed(c.cookie)
	if len(cookies) != 1 { // two: one of them was planted
		return nil
	}
	token, err := base64.RawURLEncoding.Strict().DecodeString(cookies[0].Value)
	if err != nil || len(token) != tokenBytes {
		return nil
	}
	hash := sha256.Sum256(token)
	ok, err := c.sessions.Has(x.r.Context(), hash, x.now)
	if err != nil {
		return unavailable(err)
	}
	if ok {
		x.token, x.session = token, hash
	}
	return nil
}

// csrf returns the token that every form of the session carries. It follows from the session's own token, so that it
// holds in whichever process the form arrives, and says nothing about it.
func (x *exchange) csrf() string {
	if x.token == nil {
		return ""
	}
	m := hmac.New(sha256.New, x.token)
	m.Write([]byte("counterfoil/console/csrf"))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

func (x *exchange) csrfMatches() bool {
	want := x.csrf()
	return want != "" && hmac.Equal([]byte(want), []byte(x.field("csrf")))
}

// loginPage shows a button and does nothing else: programs that look at links before people do must not use up the code.
func (c *Console) loginPage(x *exchange) error {
	code := x.r.URL.Query().Get("code")
	if code != "" && !isID(code) {
		return badCode()
	}
	return c.render(x, http.StatusOK, "login", frame{Title: "Sign in"}, code)
}

// login trades a code for a session.
func (c *Console) login(x *exchange) error {
	code := x.field("code")
	if !isID(code) {
		return badCode()
	}
	ok, err := c.service.Redeem(x.r.Context(), code)
	if err != nil {
		return unavailable(err)
	}
	if !ok {
		return badCode()
	}
	if x.token != nil {
		if err := c.end(x); err != nil {
			return err
		}
	}
	token := make([]byte, tokenBytes)
	if _, err := rand.Read(token); err != nil {
		return err
	}
	if err := c.sessions.Put(x.r.Context(), sha256.Sum256(token), x.now.Add(sessionLife)); err != nil {
		return unavailable(err)
	}
	c.setCookie(x, base64.RawURLEncoding.EncodeToString(token), int(sessionLife/time.Second))
	x.redirect("/")
	return nil
}

func (c *Console) logout(x *exchange) error {
	if err := c.end(x); err != nil {
		return err
	}
	c.setCookie(x, "", -1)
	x.redirect("/login")
	return nil
}

// lock forgets the session's unlocked key.
func (c *Console) lock(x *exchange) error {
	c.keys.forget(x.session)
	x.redirect("/")
	return nil
}

func (c *Console) end(x *exchange) error {
	c.keys.forget(x.session)
	if err := c.sessions.Delete(x.r.Context(), x.session); err != nil {
		return unavailable(err)
	}
	return nil
}

// setCookie has no Secure attribute, because there is no TLS on the loopback interface; for the same reason the name
// can't begin with __Host-. All else is as that prefix asks.
func (c *Console) setCookie(x *exchange, value string, age int) {
	//nolint:gosec // G124: see above
	http.SetCookie(x.w, &http.Cookie{Name: c.cookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode})
}
