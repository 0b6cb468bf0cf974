package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever would leave something open, or mean something else than was meant, is refused before anything is served.
func TestServeConfig(t *testing.T) {
	t.Parallel()
	const good = "url: https://gate.example.com\nlisten: 127.0.0.1:7374\n"
	for name, c := range map[string]struct{ text, want string }{
		"the least":                 {good, ""},
		"on loopback in the clear":  {"url: http://localhost:7374\n", ""},
		"behind a proxy":            {"url: https://gate.example.com\nlisten: 0.0.0.0:80\ntlsTerminated: true\n", ""},
		"a program":                 {good + "upstreams: [{name: a, command: [x], env: {A: b}, tenants: ['*']}]", ""},
		"a url with a secret":       {good + "upstreams: [{name: a, url: 'https://x.example.com/mcp', headers: {Authorization: 'Bearer {{secret:k}}'}, tenants: [acme]}]", ""},
		"no url":                    {"listen: 127.0.0.1:7374\n", "url must be"},
		"a url with a path":         {"url: https://gate.example.com/\n", "url must be"},
		"a url with a name in it":   {"url: https://a@gate.example.com\n", "url must be"},
		"in the clear":              {"url: http://gate.example.com\n", "https://"},
		"open in the clear":         {"url: https://gate.example.com\nlisten: 0.0.0.0:80\n", "not a loopback address"},
		"open by a name":            {"url: https://gate.example.com\nlisten: 'gate.example.com:80'\n", "not a loopback address"},
		"everywhere":                {"url: https://gate.example.com\nlisten: ':80'\n", "not a loopback address"},
		"half a pair":               {good + "tls: {certificate: /a}", "tls needs"},
		"TLS twice":                 {good + "tls: {certificate: /a, key: /b}\ntlsTerminated: true", "contradict"},
		"an unknown field":          {good + "upstream: []", "unknown"},
		"a field twice":             {good + good, "already"},
		"no such tier":              {good + "tier: gold", "tier must be"},
		"a range that is none":      {good + "private: [10.0.0.1/8]", "no range"},
		"everybody's word":          {good + "trustedProxies: [0.0.0.0/0]", "trustedProxies"},
		"an upstream without a way": {good + "upstreams: [{name: a, tenants: [acme]}]", "either a command or a url"},
		"an upstream with two":      {good + "upstreams: [{name: a, command: [x], url: 'https://x', tenants: [acme]}]", "either a command or a url"},
		"a name with a dot":         {good + "upstreams: [{name: a.b, command: [x], tenants: [acme]}]", "its name"},
		"a name that is a number":   {good + "upstreams: [{name: 1a, command: [x], tenants: [acme]}]", "its name"},
		"one name twice":            {good + "upstreams: [{name: a, command: [x], tenants: []}, {name: a, command: [z], tenants: []}]", "two upstreams"},
		"a secret for all":          {good + "upstreams: [{name: a, command: [x], env: {A: '{{secret:k}}'}, tenants: ['*']}]", "exactly one tenant"},
		"a secret for two":          {good + "upstreams: [{name: a, command: [x], env: {A: '{{secret:k}}'}, tenants: [a, b]}]", "exactly one tenant"},
		"a secret for nobody":       {good + "upstreams: [{name: a, command: [x], env: {A: '{{secret:k}}'}}]", "exactly one tenant"},
		"a URL with a password":     {good + "upstreams: [{name: a, url: 'https://a:b@x.example.com', tenants: [acme]}]", "its url"},
		"headers of a program":      {good + "upstreams: [{name: a, command: [x], headers: {A: b}, tenants: [acme]}]", "headers belong"},
		"a directory of a URL":      {good + "upstreams: [{name: a, url: 'https://x', dir: /tmp, tenants: [acme]}]", "dir and env belong"},
		"an issuer without a life":  {good + "issuers: [{name: a, issuer: 'https://i'}]", "lifetime"},
		"callbacks to anything":     {good + "callbackHosts: ['http://x/y']", "callbackHosts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "serve.yaml")
			must(t, os.WriteFile(file, []byte(c.text), 0o600))
			_, err := (&app{}).readServeConfig(file, t.TempDir())
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}
