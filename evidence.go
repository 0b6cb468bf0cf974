package counterfoil

import (
	"bytes"
	"slices"
	"strings"
	"time"
)

const (
	kindDiscovery = "counterfoil.discovery"
	kindEvidence  = "counterfoil.evidence"

	maxCapabilities = 128
	maxProvenance   = 64
	toolsCapability = "tools" // what a server must have said that it has
)

// A FreshnessMode says how a source of tools is kept up to date. The zero mode is none.
type FreshnessMode string

// The modes.
const (
	FreshnessSnapshot FreshnessMode = "snapshot" // listed once
	FreshnessPolled   FreshnessMode = "polled"   // listed again from time to time
	FreshnessRealtime FreshnessMode = "realtime" // the server tells of changes
)

// Evidence is a sheet of facts on one tool, drawn from its definition and from the record of how it was discovered, so that
// none of them comes from the proposer. It holds no credential: endpoints, validators and scopes are in it as digests alone.
// DeriveEvidence is its only maker.
type Evidence struct {
	server   string
	tool     string
	observed time.Time
	missing  []string
	canon    []byte
	digest   Digest
}

// A discovery is the record of one listing of a server's tools.
type discovery struct {
	serverID, serverName, serverVersion string
	protocol, method                    string
	endpoint, cursor                    string
	scopes, capabilities                []string
	observed                            time.Time
	mode                                FreshnessMode
	maxAge                              int64 // in ms
	hasMaxAge                           bool
	provenance                          []string          // canonical entries, sorted, each once
	tools                               map[string]Digest // by name: the definition's digest
}

// DeriveEvidence draws the facts on a tool from its definition, which is JSON as the server sent it, and from the discovery
// record, which has the kind counterfoil.discovery. A tool that the record does not list with this definition, or a server
// that never said that it has tools, fails with CodeIntegrityFailed. What the record does not say is listed as unavailable.
func DeriveEvidence(definition, record []byte) (*Evidence, error) {
	name, defined, err := toolDefinition(definition)
	if err != nil {
		return nil, err
	}
	d, err := parseDiscovery(record)
	if err != nil {
		return nil, err
	}
	if listed, ok := d.tools[name]; !ok || listed != defined {
		return nil, fail(CodeIntegrityFailed, "the discovery does not list the tool with this definition")
	}
	if !slices.Contains(d.capabilities, toolsCapability) {
		return nil, fail(CodeIntegrityFailed, "the discovery does not show that the server has tools")
	}
	e := &Evidence{server: d.serverID, tool: name, observed: d.observed, missing: d.unavailable()}
	e.canon = d.encode(e, defined)
	e.digest = digest(domainEvidence, e.canon)
	return e, nil
}

// VerifyEvidence derives the evidence anew, from the definition and the discovery of now, and returns it if it is what was
// recorded. One changed fact, an edited record among them, fails with CodeIntegrityFailed.
func VerifyEvidence(recorded, definition, record []byte) (*Evidence, error) {
	was, err := canonicalize(recorded, documentLimits(), numbersExact)
	if err != nil {
		return nil, err
	}
	e, err := DeriveEvidence(definition, record)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(was, e.canon) {
		return nil, fail(CodeIntegrityFailed, "the tool or its server is no longer what the evidence says")
	}
	return e, nil
}

// toolDefinition takes the name out of a tool's definition.
func toolDefinition(definition []byte) (name string, d Digest, err error) {
	r, err := newReaderBy(definition, argumentLimits(), numbersRounded)
	if err != nil {
		return "", Digest{}, err
	}
	if r.is(r.root(), '{', "an object") {
		for quoted, v := range r.entries(r.root()) {
			if string(quoted) == `"name"` {
				name = r.identity(v)
			}
		}
		if r.err == nil && name == "" {
			r.fail(r.root(), `the member "name" is missing`)
		}
	}
	return name, digest(domainToolDef, r.b), r.err
}

func parseDiscovery(b []byte) (*discovery, error) {
	r, err := newReader(b, documentLimits())
	if err != nil {
		return nil, err
	}
	var m [13]value
	r.members(r.root(), m[:], "authorizationScope", "capabilities", "cursor?", "endpoint", "freshness?", "kind", "method", "protocol",
		"provenance?", "retrievedAt", "server", "tools", "version")
	d := &discovery{
		scopes: r.list(m[0], 1, maxScopes), capabilities: r.list(m[1], 0, maxCapabilities), cursor: r.text(m[2]),
		endpoint: r.text(m[3]), method: r.identity(m[6]), protocol: r.identity(m[7]), observed: r.time(m[9]),
		tools: map[string]Digest{},
	}
	if r.has(m[4]) {
		var f [2]value
		r.members(m[4], f[:], "maxAgeMs?", "mode")
		d.maxAge, d.hasMaxAge = r.count(f[0]), r.has(f[0])
		d.mode = oneOf(r, f[1], "freshness mode", FreshnessSnapshot, FreshnessPolled, FreshnessRealtime)
	}
	r.literal(m[5], kindDiscovery)
	d.provenance = readProvenance(r, m[8])
	var s [3]value
	r.members(m[10], s[:], "id", "name?", "version?")
	d.serverID, d.serverName, d.serverVersion = r.identity(s[0]), r.identity(s[1]), r.identity(s[2])
	for _, n := range r.elements(m[11], maxList) {
		var t [2]value
		r.members(n, t[:], "definitionDigest", "name")
		name := r.identity(t[1])
		if _, twice := d.tools[name]; twice {
			r.fail(n, "this tool is listed twice")
		}
		d.tools[name] = r.digest(t[0])
	}
	r.literal(m[12], version)
	if r.err != nil {
		return nil, r.err
	}
	return d, nil
}

// readProvenance reads where the discovery has its facts from, and keeps digests alone.
func readProvenance(r *reader, n value) []string {
	if !r.has(n) {
		return nil
	}
	var out []string
	for _, k := range r.elements(n, maxProvenance) {
		var m [3]value
		r.members(k, m[:], "retrievedAt?", "source", "validator?")
		at, source, validator := r.time(m[0]), r.text(m[1]), r.text(m[2])
		if r.err != nil {
			return nil
		}
		w := &writer{}
		w.open('{')
		if !at.IsZero() {
			w.time("retrievedAt", at)
		}
		w.digest("sourceDigest", endpointDigest(source))
		if validator != "" {
			w.digest("validatorDigest", digest(domainValidator, appendString(nil, validator)))
		}
		w.close('}')
		out = append(out, string(w.b))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// endpointDigest is the digest of an endpoint, a URL or not, without its user information, query and fragment, which is
// where credentials are.
func endpointDigest(endpoint string) Digest {
	if i := strings.IndexAny(endpoint, "?#"); i >= 0 {
		endpoint = endpoint[:i]
	}
	if scheme, rest, ok := strings.Cut(endpoint, "://"); ok {
		authority, path := rest, ""
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			authority, path = rest[:i], rest[i:]
		}
		endpoint = scheme + "://" + authority[strings.LastIndexByte(authority, '@')+1:] + path
	}
	return digest(domainEndpoint, appendString(nil, endpoint))
}

// unavailable names the facts that the record does not have, sorted.
func (d *discovery) unavailable() []string {
	var out []string
	for _, f := range []struct {
		name    string
		missing bool
	}{
		{"freshness-contract", d.mode == ""}, {"provenance", len(d.provenance) == 0},
		{"server-name", d.serverName == ""}, {"server-version", d.serverVersion == ""},
	} {
		if f.missing {
			out = append(out, f.name)
		}
	}
	return out
}

func (d *discovery) encode(e *Evidence, defined Digest) []byte {
	scopes := &writer{}
	scopes.open('{')
	scopes.list("authorizationScope", d.scopes)
	scopes.close('}')
	w := &writer{b: make([]byte, 0, 1024)}
	w.open('{')
	w.digest("authorizationScopeDigest", digest(domainScopes, scopes.b))
	w.list("capabilities", d.capabilities)
	w.digest("definitionDigest", defined)
	w.digest("endpointDigest", endpointDigest(d.endpoint))
	if d.mode != "" || d.cursor != "" {
		w.name("freshness")
		w.open('{')
		w.truth("cursorPresent", d.cursor != "")
		if d.hasMaxAge {
			w.count("maxAgeMs", d.maxAge)
		}
		w.maybe("mode", string(d.mode))
		w.close('}')
	}
	w.text("kind", kindEvidence)
	w.text("method", d.method)
	w.time("observedAt", d.observed)
	w.text("protocol", d.protocol)
	w.raw("provenance", []byte("["+strings.Join(d.provenance, ",")+"]"))
	w.name("server")
	w.open('{')
	w.text("id", d.serverID)
	w.maybe("name", d.serverName)
	w.maybe("version", d.serverVersion)
	w.close('}')
	w.text("tool", e.tool)
	w.list("unavailableFacts", e.missing)
	w.text("version", version)
	w.close('}')
	return w.b
}

// Server returns the id of the server that the tool belongs to.
func (e *Evidence) Server() string { return e.server }

// Tool returns the tool's name.
func (e *Evidence) Tool() string { return e.tool }

// ObservedAt returns when the server listed the tool.
func (e *Evidence) ObservedAt() time.Time { return e.observed }

// Unavailable returns the names of the facts that the discovery did not give.
func (e *Evidence) Unavailable() []string { return slices.Clone(e.missing) }

// Digest returns the evidence's digest: what a plan's step binds as its evidenceDigest.
func (e *Evidence) Digest() Digest { return e.digest }

// Canonical returns a copy of the canonical bytes, which VerifyEvidence compares.
func (e *Evidence) Canonical() []byte { return slices.Clone(e.canon) }
