package upstream_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/upstream"
)

// How the revision of a server is found out.
func TestHTTP_eras(t *testing.T) {
	t.Parallel()
	modernError := func(number int, data string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":"m","data":%s}}`, number, data)
	}
	for name, row := range map[string]struct {
		status            int
		body              string
		initialize, fails bool
	}{
		"empty 400":        {400, ``, true, false},
		"404":              {404, `not found`, true, false},
		"405":              {405, ``, true, false},
		"method not found": {404, modernError(-32601, "null"), true, false},
		"unknown error":    {200, modernError(-32000, "null"), true, false},
		"only older":       {400, modernError(-32022, `{"supported":["2025-11-25"]}`), true, false},
		"contradiction":    {400, modernError(-32022, `{"supported":["2026-07-28"]}`), false, true},
		"mismatch":         {400, modernError(-32020, "null"), false, true},
		"500":              {500, ``, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newWeb(t, true)
			x.answer("server/discover", func(w http.ResponseWriter, _ *http.Request, s seen) {
				text(w, row.status, strings.Replace(row.body, `"id":null`, `"id":`+string(s.ID), 1))
			})
			c := connect(t, x.url, nil)
			_, err := c.Definitions(t.Context(), nil, false)
			if (err != nil) != row.fails || (len(x.all("initialize")) == 1) != row.initialize {
				t.Errorf("error %v, %d sessions", err, len(x.all("initialize")))
			}
			_, _ = c.Definitions(t.Context(), nil, true)
			if n := len(x.all("server/discover")); !row.fails && n != 1 {
				t.Errorf("it was asked %d times", n)
			}
		})
	}
	x := newWeb(t, false)
	x.answer("initialize", func(w http.ResponseWriter, _ *http.Request, s seen) {
		text(w, 200, result(s, `{"protocolVersion":"1999-01-01"}`))
	})
	if _, err := connect(t, x.url, nil).Definitions(t.Context(), nil, false); err == nil {
		t.Error("a revision that nobody knows was taken")
	}
	y := newWeb(t, false)
	y.answer("initialize", func(w http.ResponseWriter, _ *http.Request, s seen) {
		w.Header().Set("Mcp-Session-Id", "a b")
		text(w, 200, result(s, `{"protocolVersion":"2025-06-18"}`))
	})
	if _, err := connect(t, y.url, nil).Definitions(t.Context(), nil, false); err == nil {
		t.Error("a session's id with a blank was taken")
	}
}

// What came back is looked through before anybody has it.
func TestHTTP_scrub(t *testing.T) {
	t.Parallel()
	x := newWeb(t, true)
	x.answer("tools/call", func(w http.ResponseWriter, _ *http.Request, s seen) { text(w, 200, result(s, `{"echo":"SECRET"}`)) })
	withheld := false
	c := connect(t, x.url, func(o *upstream.HTTPOptions) {
		ready := o.Ready
		o.Ready = func(ctx context.Context) (upstream.Ready, error) {
			r, err := ready(ctx)
			r.Scrub = func(b []byte) []byte {
				if withheld {
					return nil
				}
				return []byte(strings.ReplaceAll(string(b), "SECRET", "***"))
			}
			return r, err
		}
	})
	if a, err := c.Send(t.Context(), toolCall(`{}`)); err != nil || string(a.Result) != `{"echo":"***"}` {
		t.Errorf("%s, %v", a.Result, err)
	}
	withheld = true
	if a, err := c.Send(t.Context(), toolCall(`{}`)); counterfoil.CodeOf(err) != counterfoil.CodeUnknownOutcome || a.Result != nil {
		t.Errorf("%s, %v", a.Result, err)
	}
}

func TestHTTPIdentity(t *testing.T) {
	t.Parallel()
	got, err := upstream.HTTPIdentity("https://Tools.example/mcp?x=1", []byte(`{"/headers/Authorization": "Bearer {{secret:a}}"}`))
	want := `{"headers":{"/headers/Authorization":"Bearer {{secret:a}}"},"transport":"http","url":"https://Tools.example/mcp?x=1"}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	for _, bad := range []string{"", "/mcp", "ftp://x/", "https://u:p@x/", "https://x/#f", "https:x", "https:///x", "http://x/\x7f"} {
		if got, err := upstream.HTTPIdentity(bad, nil); err == nil {
			t.Errorf("%q became %s", bad, got)
		}
	}
	if _, err := upstream.HTTPIdentity("https://x/", []byte(`{`)); err == nil {
		t.Error("headers that are no object were taken")
	}
}
