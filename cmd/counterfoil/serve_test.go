package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A served is a server with two tenants, each with the sample server behind it under a directory of its own.
type served struct {
	*fixture
	url    string
	config string
	keys   map[string]string // by tenant: of an agent that may do everything an agent may
	people map[string]string // by tenant: an access token of its administrator
	log    bytes.Buffer
}

// serving starts one.
func serving(t *testing.T, f *fixture) *served {
	t.Helper()
	s := &served{fixture: f, keys: map[string]string{}, people: map[string]string{}}
	f.run("setup", "--name", "ada", "--tenant", "acme", "--tenant", "other", "--replace", "--passphrase-file", f.passFile)
	port := strconv.Itoa(freePort(t))
	s.url = "http://127.0.0.1:" + port
	lines := []string{"listen: 127.0.0.1:" + port, "url: " + s.url, "tier: premium", "upstreams:"}
	for _, tenant := range []string{"acme", "other"} {
		f.run("tenant", "create", tenant)
		dir := filepath.Join(t.TempDir(), tenant)
		must(t, os.Mkdir(dir, 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "n.txt"), []byte("of "+tenant), 0o600))
		lines = append(lines, "- name: notes-"+tenant, fmt.Sprintf("  command: [%q, sample-server, %q]", built.counterfoil, dir), "  tenants: ["+tenant+"]")
		s.keys[tenant] = s.mint(tenant, "agent", "build", "tools:*", "approvals:read", "receipts:read")
		f.run("user", "create", "--tenant", tenant, "ada", "--scope", "admin", "--password-file", f.passFile)
	}
	s.config = filepath.Join(t.TempDir(), "serve.yaml")
	must(t, os.WriteFile(s.config, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return s
}

// mint makes an API key and returns it.
func (s *served) mint(tenant, kind, subject string, scopes ...string) string {
	s.t.Helper()
	args := []string{"key", "create", "--tenant", tenant, "--kind", kind, "--subject", subject, "--for", "1h", "--json"}
	for _, x := range scopes {
		args = append(args, "--scope", x)
	}
	var k struct{ Key string }
	must(s.t, json.Unmarshal([]byte(s.run(args...)), &k))
	return k.Key
}

// start runs the server until the test ends, or stop is called, which returns how it ended.
func (s *served) start() (stop func() error) {
	s.t.Helper()
	cmd := s.command("serve", "--config", s.config)
	cmd.Stderr = &s.log
	must(s.t, cmd.Start())
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		must(s.t, cmd.Process.Signal(syscall.SIGTERM))
		return cmd.Wait()
	}
	s.t.Cleanup(func() {
		_ = stop()
		if s.t.Failed() {
			s.t.Log(s.log.String())
		}
	})
	s.await("readiness", func() (string, bool) {
		r, err := http.Get(s.url + "/readyz")
		if err != nil {
			return "", false
		}
		defer r.Body.Close() //nolint:errcheck // read whole
		return "", r.StatusCode == http.StatusOK
	})
	for tenant := range s.keys {
		var g struct{ Access string }
		body := fmt.Sprintf(`{"tenant":%q,"user":"ada","password":%q}`, tenant, testPassphrase)
		must(s.t, json.Unmarshal([]byte(s.want(http.StatusOK, "", "POST", "/v1/auth/token", body)), &g))
		s.people[tenant] = g.Access
	}
	return stop
}

// ask sends one request and returns its status and its body.
func (s *served) ask(key, method, path, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	must(s.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if strings.HasPrefix(key, "cfk_") {
		req.Header.Set("X-API-Key", key)
	} else if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	r, err := http.DefaultClient.Do(req)
	must(s.t, err)
	defer r.Body.Close() //nolint:errcheck // read whole
	b, err := io.ReadAll(r.Body)
	must(s.t, err)
	return r.StatusCode, string(b)
}

func (s *served) want(status int, key, method, path, body string) string {
	s.t.Helper()
	got, answer := s.ask(key, method, path, body)
	if got != status {
		s.t.Fatalf("%s %s: %d, want %d: %s", method, path, got, status, answer)
	}
	return answer
}

type keyed struct{ key string }

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-API-Key", k.key)
	return http.DefaultTransport.RoundTrip(r)
}

// connect is the official SDK's client of a tenant.
func (s *served) client(ctx context.Context, key string) (*mcp.ClientSession, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	return c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", HTTPClient: &http.Client{Transport: keyed{key}}}, nil)
}

func TestServe(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(*testing.T, ...string) *fixture{"sqlite": setup, "postgres": onPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serving(t, make(t))
			stop := s.start()
			s.walk()
			if err := stop(); err != nil {
				t.Fatalf("the server ended with %v", err)
			}
			for _, secret := range []string{s.keys["acme"], s.people["acme"], testPassphrase, "what was written"} {
				if strings.Contains(s.log.String(), secret) {
					t.Fatalf("the log has %q", secret)
				}
			}
		})
	}
}

// walk is a day at the server: two tenants, of which neither sees the other.
func (s *served) walk() {
	t := s.t
	s.want(http.StatusUnauthorized, "", "GET", "/v1/tools", "")
	s.want(http.StatusUnauthorized, "cfk_"+strings.Repeat("A", 43), "GET", "/v1/tools", "")
	if _, err := s.client(t.Context(), "cfk_nobody"); err == nil {
		t.Fatal("the endpoint lets anybody in")
	}
	session, err := s.client(t.Context(), s.keys["acme"])
	must(t, err)
	defer session.Close() //nolint:errcheck // the server ends it too
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		must(t, err)
		names = append(names, tool.Name)
	}
	if !slices.Contains(names, "notes-acme.write_note") || slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "notes-other") }) {
		t.Fatalf("the tools are %v", names)
	}
	// The other tenant's tool is not there, over either door.
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "notes-other.read_note", Arguments: map[string]any{"path": "n.txt"}}); err == nil {
		t.Fatal("another tenant's tool was called")
	}
	s.want(http.StatusNotFound, s.keys["acme"], "POST", "/v1/tools/notes-other.read_note/call", `{"arguments":{"path":"n.txt"}}`)

	const args = `{"arguments":{"path":"w.txt","text":"what was written"}}`
	const call = "/v1/tools/notes-acme.write_note/call"
	var pending struct{ Approval string }
	must(t, json.Unmarshal([]byte(s.want(http.StatusAccepted, s.keys["acme"], "POST", call, args)), &pending))
	approval := "/v1/approvals/" + pending.Approval
	s.want(http.StatusNotFound, s.keys["other"], "GET", approval, "")
	s.want(http.StatusNotFound, s.people["other"], "POST", approval+"/approve", fmt.Sprintf(`{"passphrase":%q}`, testPassphrase))
	s.want(http.StatusForbidden, s.keys["acme"], "POST", approval+"/approve", fmt.Sprintf(`{"passphrase":%q}`, testPassphrase))
	if shown := s.want(http.StatusOK, s.people["acme"], "GET", approval, ""); !strings.Contains(shown, "what was written") {
		t.Fatalf("the approver is not shown the arguments: %s", shown)
	}
	s.want(http.StatusOK, s.people["acme"], "POST", approval+"/approve", fmt.Sprintf(`{"passphrase":%q}`, testPassphrase))
	var done struct{ Receipt string }
	must(t, json.Unmarshal([]byte(s.want(http.StatusOK, s.keys["acme"], "POST", call, args)), &done))
	s.want(http.StatusNotFound, s.keys["other"], "GET", "/v1/receipts/"+done.Receipt, "")
	bundle := s.want(http.StatusOK, s.keys["acme"], "GET", "/v1/receipts/"+done.Receipt+"/bundle", "")
	file := filepath.Join(t.TempDir(), "bundle.json")
	must(t, os.WriteFile(file, []byte(bundle), 0o600))
	keys := filepath.Join(t.TempDir(), "keys.json")
	must(t, os.WriteFile(keys, []byte(s.want(http.StatusOK, "", "GET", "/.well-known/counterfoil/keys.json", "")), 0o600))
	if out, msg, code := output(t, exec.CommandContext(t.Context(), built.verify, file, "--keys", keys, "--require-log")); code != 0 {
		t.Fatalf("the bundle does not verify: %s%s", out, msg)
	}

	// What is frozen stops at once, and only there.
	s.run("tenant", "freeze", "acme", "tool=write_note")
	s.await("the freeze", func() (string, bool) {
		status, _ := s.ask(s.keys["acme"], "POST", call, `{"arguments":{"path":"x.txt","text":"x"}}`)
		return "", status == http.StatusForbidden
	})
	s.want(http.StatusAccepted, s.keys["other"], "POST", "/v1/tools/notes-other.write_note/call", `{"arguments":{"path":"x.txt","text":"x"}}`)

	// A revoked key lets nobody in any more.
	id := s.run("key", "list", "--tenant", "acme", "--json")
	for line := range strings.Lines(id) {
		var k struct{ ID, Kind string }
		must(t, json.Unmarshal([]byte(line), &k))
		if k.Kind == "agent" {
			s.run("key", "revoke", "--tenant", "acme", k.ID)
		}
	}
	s.await("the end of the key", func() (string, bool) {
		status, _ := s.ask(s.keys["acme"], "GET", "/v1/tools", "")
		return "", status == http.StatusUnauthorized
	})
	s.want(http.StatusOK, s.keys["other"], "GET", "/v1/tools", "")
}
