package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/identity"
	"github.com/counterfoil/counterfoil/internal/ratelimit"
	"github.com/counterfoil/counterfoil/internal/reach"
	"github.com/counterfoil/counterfoil/internal/vault"
)

// serveSettings is the file of serve: all that config.yaml may have, and what a server needs.
type serveSettings struct {
	settings

	// Listen is the address and port that requests come to.
	Listen string `json:"listen"`
	// URL is the address that clients know the server by, https://NAME or https://NAME:PORT. It is the audience of its tokens.
	URL string `json:"url"`
	// TLS is the certificate and its key. They are read again when they change. Without it nobody but this machine is listened
	// to, unless TLSTerminated says that a proxy in front ends TLS.
	TLS           *tlsFiles `json:"tls,omitzero"`
	TLSTerminated bool      `json:"tlsTerminated,omitzero"`
	// TrustedProxies are the ranges of proxies whose word on a client's address counts.
	TrustedProxies []string `json:"trustedProxies,omitzero"`
	// Metrics is where metrics are served, and to whom: an address and port of their own. "" is nowhere.
	Metrics string `json:"metrics,omitzero"`
	// Tier is the rate tier of tenants that have none: free, standard, premium or unlimited.
	Tier string `json:"tier,omitzero"`
	// Private are the private ranges that the server may connect to: of upstreams and issuers.
	Private []string `json:"private,omitzero"`
	// CallbackHosts are the hosts that tenants' hooks may call.
	CallbackHosts []string `json:"callbackHosts,omitzero"`
	// Upstreams are the tool servers behind the gate.
	Upstreams []upstreamSettings `json:"upstreams"`
	// Issuers are OpenID Connect issuers whose access tokens count.
	Issuers []issuerSettings `json:"issuers,omitzero"`
}

type tlsFiles struct {
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// An upstreamSettings is one tool server: a program that is started, or a URL.
type upstreamSettings struct {
	// Name begins the names of its tools: 1 to 32 of a-z, 0-9 and -, a letter first.
	Name string `json:"name"`
	// Command is the program with its arguments, Dir where it runs, Env what its environment has. Or URL is where it is, and
	// Headers what is sent to it. {{secret:NAME}} in a value stands for a secret of the tenant.
	Command []string          `json:"command,omitzero"`
	Dir     string            `json:"dir,omitzero"`
	Env     map[string]string `json:"env,omitzero"`
	URL     string            `json:"url,omitzero"`
	Headers map[string]string `json:"headers,omitzero"`
	// Tenants are those that have it. * stands for all; none has an upstream that names none.
	Tenants []string `json:"tenants"`
}

// An issuerSettings is an OpenID Connect issuer. See identity.OIDC.
type issuerSettings struct {
	Name        string              `json:"name"`
	Issuer      string              `json:"issuer"`
	Algorithm   string              `json:"algorithm"`
	Audiences   []string            `json:"audiences,omitzero"`
	Types       []string            `json:"types,omitzero"`
	Lifetime    string              `json:"lifetime"`
	Tenant      string              `json:"tenant,omitzero"`
	TenantClaim string              `json:"tenantClaim,omitzero"`
	Tenants     []string            `json:"tenants,omitzero"`
	Kind        string              `json:"kind,omitzero"`
	KindClaim   string              `json:"kindClaim,omitzero"`
	Kinds       map[string]string   `json:"kinds,omitzero"`
	Owner       string              `json:"owner,omitzero"`
	OwnerClaim  string              `json:"ownerClaim,omitzero"`
	ScopesClaim string              `json:"scopesClaim,omitzero"`
	Scopes      []string            `json:"scopes,omitzero"`
	GroupsClaim string              `json:"groupsClaim,omitzero"`
	GroupScopes map[string][]string `json:"groupScopes,omitzero"`
}

// serveConfig is serveSettings, checked.
type serveConfig struct {
	serveSettings
	config    config
	host      string // of the URL, with its port if it has one
	private   []netip.Prefix
	callbacks reach.DomainAllowlist
	mounts    []upstreamConfig
	issuers   []identity.OIDC
}

type upstreamConfig struct {
	upstreamSettings
	url   reach.URL    // zero for a program
	sheet *vault.Sheet // of the values that may have secrets
}

func defaultServe() serveSettings {
	return serveSettings{settings: defaultSettings(), Listen: "127.0.0.1:7374", Tier: string(ratelimit.TierStandard)}
}

// readServeConfig reads the file of serve and checks it whole.
func (a *app) readServeConfig(path, dir string) (*serveConfig, error) {
	set := defaultServe()
	if err := readSettings(path, &set); err != nil {
		return nil, badConfig(path, err)
	}
	if text := os.Getenv(storeVariable); text != "" {
		set.Store = text
	}
	if a.storeURL != "" {
		set.Store = a.storeURL
	}
	c, err := checkServe(set, dir)
	if err != nil {
		return nil, badConfig(path, err)
	}
	if c.config.place.secret() {
		if err := private(path); err != nil {
			return nil, badConfig(path, err)
		}
	}
	return c, nil
}

func checkServe(set serveSettings, dir string) (*serveConfig, error) {
	c := &serveConfig{serveSettings: set}
	var err error
	if c.config, err = checkConfig(set.settings, dir); err != nil {
		return nil, err
	}
	for _, check := range []func() error{c.checkAddress, c.checkRanges, c.checkUpstreams, c.checkIssuers} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	if _, err := ratelimit.ParseTier(set.Tier); err != nil {
		return nil, errors.New("tier must be free, standard, premium or unlimited")
	}
	return c, nil
}

// checkAddress refuses to be heard in the clear by other machines.
func (c *serveConfig) checkAddress() error {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("url must be the server's address, as https://gate.example.com")
	}
	c.host = u.Host
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return errors.New("listen must be an address and port, as 127.0.0.1:7374")
	}
	if c.TLS != nil && (!filepath.IsAbs(c.TLS.Certificate) || !filepath.IsAbs(c.TLS.Key)) {
		return errors.New("tls needs the absolute paths of a certificate and a key")
	}
	if c.TLS != nil && c.TLSTerminated {
		return errors.New("tls and tlsTerminated contradict each other")
	}
	if !isLoopbackName(host) && c.TLS == nil && !c.TLSTerminated {
		return errors.New("listen is not a loopback address: give tls, or say tlsTerminated if a proxy in front ends TLS")
	}
	if u.Scheme == "http" && !isLoopbackName(u.Hostname()) {
		return errors.New("url must begin with https://")
	}
	return nil
}

func isLoopbackName(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// forwardedHeader is where trusted proxies say whose request it is.
const forwardedHeader = "X-Forwarded-For"

func (c *serveConfig) checkRanges() error {
	for _, s := range c.Private {
		p, err := netip.ParsePrefix(s)
		if err != nil || p != p.Masked() {
			return fmt.Errorf("private: %q is no range, as 10.0.0.0/8", s)
		}
		c.private = append(c.private, p)
	}
	if _, err := ratelimit.ParseProxies(c.TrustedProxies, forwardedHeader); err != nil {
		return fmt.Errorf("trustedProxies: %w", err)
	}
	var err error
	if c.callbacks, err = reach.ParseDomainAllowlist(c.CallbackHosts); err != nil {
		return fmt.Errorf("callbackHosts: %w", err)
	}
	return nil
}

func (c *serveConfig) checkUpstreams() error {
	names := map[string]bool{}
	for _, u := range c.Upstreams {
		if names[u.Name] {
			return fmt.Errorf("two upstreams have the name %q", u.Name)
		}
		names[u.Name] = true
		m, err := checkUpstream(u)
		if err != nil {
			return fmt.Errorf("the upstream %q: %w", u.Name, err)
		}
		c.mounts = append(c.mounts, m)
	}
	return nil
}

func checkUpstream(u upstreamSettings) (upstreamConfig, error) {
	m := upstreamConfig{upstreamSettings: u}
	if n := strings.TrimLeft(u.Name, "abcdefghijklmnopqrstuvwxyz0123456789-"); u.Name == "" || len(u.Name) > 32 || n != "" || u.Name[0] < 'a' {
		return m, errors.New("its name must have 1 to 32 of a-z, 0-9 and -, a letter first")
	}
	if (len(u.Command) == 0) == (u.URL == "") {
		return m, errors.New("it needs either a command or a url")
	}
	for _, t := range u.Tenants {
		if err := counterfoil.CheckIdentity(t); err != nil {
			return m, errors.New("its tenants must be names, or *")
		}
	}
	fields := map[string]string{}
	if u.URL != "" {
		if u.Dir != "" || len(u.Env) > 0 {
			return m, errors.New("dir and env belong to a command")
		}
		var err error
		if m.url, err = reach.ParseURL(u.URL); err != nil {
			return m, fmt.Errorf("its url: %w", err)
		}
		for name, v := range u.Headers {
			fields["/headers/"+name] = v
		}
	} else {
		if len(u.Headers) > 0 {
			return m, errors.New("headers belong to a url")
		}
		if u.Dir != "" && !filepath.IsAbs(u.Dir) {
			return m, errors.New("dir must be an absolute path")
		}
		for name, v := range u.Env {
			fields["/env/"+name] = v
		}
	}
	var err error
	if m.sheet, err = vault.ParseSheet(fields); err != nil {
		return m, err
	}
	if len(m.sheet.Refs()) > 0 && (len(u.Tenants) != 1 || u.Tenants[0] == counterfoil.AllTenants) {
		return m, errors.New("an upstream that is given secrets belongs to exactly one tenant")
	}
	return m, nil
}

// serves reports whether the tenant has the upstream.
func (u *upstreamConfig) serves(tenant string) bool {
	return slices.Contains(u.Tenants, tenant) || slices.Contains(u.Tenants, counterfoil.AllTenants)
}

func (c *serveConfig) checkIssuers() error {
	for _, i := range c.Issuers {
		life, err := time.ParseDuration(i.Lifetime)
		if err != nil {
			return fmt.Errorf("the issuer %q: lifetime must be a duration", i.Name)
		}
		kinds := map[string]identity.Kind{}
		for k, v := range i.Kinds {
			kinds[k] = identity.Kind(v)
		}
		c.issuers = append(c.issuers, identity.OIDC{
			Name: i.Name, Issuer: i.Issuer, Algorithm: i.Algorithm, Audiences: i.Audiences, Types: i.Types, Lifetime: life,
			Tenant: i.Tenant, TenantClaim: i.TenantClaim, Tenants: i.Tenants, Kind: identity.Kind(i.Kind), KindClaim: i.KindClaim, Kinds: kinds,
			Owner: i.Owner, OwnerClaim: i.OwnerClaim, ScopesClaim: i.ScopesClaim, Scopes: i.Scopes,
			GroupsClaim: i.GroupsClaim, GroupScopes: i.GroupScopes,
		})
	}
	return nil
}
