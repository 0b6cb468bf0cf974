package mcpserver_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/mcpserver"
)

// Whatever is sent, the answer is one of the protocol, and the gate is asked about nothing but what headers and body both
// say.
func FuzzHandler(f *testing.F) {
	f.Add("2026-07-28", "tools/call", "db.echo", "", echo(meta))
	f.Add("2026-07-28", "tools/call", "db.sql", "eu", sql(`{"region":"eu"}`))
	f.Add("2025-11-25", "tools/call", "db.echo", "", echo(meta))
	f.Add("2026-07-28", "resources/read", "db+a:b", "", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"db+a:b",`+meta+`}}`)
	f.Add("", "", "", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	f.Add("2026-07-28", "notifications/x", "", "", `{"jsonrpc":"2.0","method":"notifications/x"}`)
	f.Add("2026-07-28", "tools/call", "db.echo", "", strings.Replace(echo(meta), `"name"`, `"Name":"db.sql","name"`, 1))
	f.Fuzz(func(t *testing.T, version, method, name, region, body string) {
		var asked []gateway.Call
		g := &gate{do: func(_ context.Context, c gateway.Call) (gateway.Answer, error) {
			asked = append(asked, c)
			return gateway.Answer{Result: []byte(`{}`)}, nil
		}}
		p := &identity.Principal{Tenant: "acme", Subject: "bot", Kind: identity.KindAgent, Owner: "ann", Credential: "key-1", Scopes: scopes(t, "tools:read", "tools:execute")}
		h, err := mcpserver.NewHandler(mcpserver.HandlerOptions{
			Gate: g, Principal: func(context.Context) *identity.Principal { return p }, Hosts: []string{"gate.example"}, Now: time.Now, Rand: rand.Reader,
			Upstreams: func(context.Context, string) ([]mcpserver.Mount, error) { return stubs(), nil }, MaxBytes: 10_000,
		})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://gate.example/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		for k, v := range map[string]string{"Mcp-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name, "Mcp-Param-Region": region} {
			if v != "" {
				r.Header[k] = []string{v}
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if err := h.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		var m struct {
			Version string `json:"jsonrpc"`
			Result  json.RawMessage
			Error   *struct{ Code *int }
		}
		switch {
		case w.Code == http.StatusAccepted && w.Body.Len() == 0:
		case json.Unmarshal(w.Body.Bytes(), &m) != nil || m.Version != "2.0" || (m.Result == nil) == (m.Error == nil) || m.Error != nil && m.Error.Code == nil:
			t.Fatalf("status %d, body %s", w.Code, w.Body)
		case w.Code != http.StatusOK && m.Error == nil:
			t.Fatalf("status %d with a result", w.Code)
		}
		for _, c := range asked {
			if version != "2026-07-28" || method != c.Method || c.Tenant != "acme" || c.Principal != "agent:bot" {
				t.Fatalf("the gate was asked about %+v", c)
			}
			if c.Method == "tools/call" && name != "db."+c.Tool && !strings.HasPrefix(name, "=?base64?") {
				t.Fatalf("the header says %q, the call %q", name, c.Tool)
			}
			if w.Code != http.StatusOK {
				t.Fatalf("the gate was asked, and the client told %d", w.Code)
			}
		}
	})
}
