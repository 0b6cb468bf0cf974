package gateway

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/governance"
)

// A server is an upstream as the chain sees it at one time. It does not change.
type server struct {
	id       counterfoil.Digest
	sourceID string
	name     string
	seen     time.Time
	row      ServerRow
	listed   [][]byte             // the definitions as the upstream gave them; row.Tools is their canonical form
	registry *governance.Registry // nil when the tools could not be listed
	listErr  error
}

// serverOf returns what is known of the call's upstream: its tools as it lists them now, the pins and classification as
// they are stored now, which another process may have changed a moment ago.
func (g *Gateway) serverOf(ctx context.Context, c Call) (*server, error) {
	identity := c.Upstream.Identity()
	id, err := counterfoil.UpstreamDigest(identity)
	if err != nil {
		return nil, err
	}
	row := ServerRow{Tenant: c.Tenant, ID: id.String(), Name: printable(c.Upstream.Name()), Identity: identity, SeenAt: g.Now()}
	s := &server{id: id, sourceID: "upstream/" + id.String()[7:19], name: row.Name, seen: row.SeenAt, row: row}
	if c.Method != methodToolsCall {
		return s, nil
	}
	defs, err := c.Upstream.Definitions(ctx, c.Meta, false)
	if err != nil {
		s.listErr = err
		return s, nil
	}
	s.listed = defs
	cached := g.cached(row)
	if cached != nil && slices.EqualFunc(cached.listed, defs, bytes.Equal) {
		row.Tools = cached.row.Tools // nothing new: spare every call the canonical form of the whole list
	} else if row.Tools, err = joinDefinitions(defs); err != nil {
		s.listErr = err
		return s, nil
	}
	return g.refresh(ctx, s, cached, row)
}

// A serverKey names an upstream as one tenant knows it: what people said of it is the tenant's own.
type serverKey struct{ tenant, id string }

// cached returns the server as the tenant's last call found it, nil for none.
func (g *Gateway) cached(row ServerRow) *server {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.servers[serverKey{row.Tenant, row.ID}]
}

// refresh brings the stored row and the registry up to what the upstream lists.
func (g *Gateway) refresh(ctx context.Context, s, cached *server, row ServerRow) (*server, error) {
	stored, err := g.Store.Server(ctx, row.Tenant, row.ID)
	if errors.Is(err, ErrNotFound) || err == nil && !bytes.Equal(stored.Tools, row.Tools) {
		if row.Pins, err = pinsOf(row.Tools); err != nil {
			s.listErr = err
			return s, nil
		}
		stored, err = g.Store.SeeServer(ctx, row)
	}
	if err != nil {
		return nil, err
	}
	if cached != nil && sameServer(&cached.row, &stored) {
		return cached, nil
	}
	s.row = stored
	if s.registry, err = g.registry(stored); err != nil {
		s.listErr = err
		return s, nil
	}
	g.mu.Lock()
	if len(g.servers) >= maxRemembered {
		clear(g.servers)
	}
	g.servers[serverKey{row.Tenant, row.ID}] = s
	g.mu.Unlock()
	return s, nil
}

// maxRemembered bounds what the gateway remembers only to be fast. Past it all is forgotten, and read again.
const maxRemembered = 10_000

func sameServer(a, b *ServerRow) bool {
	return bytes.Equal(a.Tools, b.Tools) && bytes.Equal(a.Pins, b.Pins) && bytes.Equal(a.Classes, b.Classes) &&
		bytes.Equal(a.Decision, b.Decision)
}

// joinDefinitions makes one canonical array of the raw definitions.
func joinDefinitions(defs [][]byte) ([]byte, error) {
	return counterfoil.Canonicalize([]byte("[" + string(bytes.Join(defs, []byte(","))) + "]"))
}

func splitDefinitions(tools []byte) ([][]byte, error) {
	var list []jsontext.Value
	if err := json.Unmarshal(tools, &list); err != nil {
		return nil, err
	}
	out := make([][]byte, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out, nil
}

// pinsOf returns the pins that tools seen for the first time get.
func pinsOf(tools []byte) ([]byte, error) {
	defs, err := splitDefinitions(tools)
	if err != nil {
		return nil, err
	}
	r, err := governance.NewRegistry(governance.Source{Definitions: defs})
	if err != nil {
		return nil, err
	}
	pins := map[string]string{}
	for _, t := range r.Tools() {
		pins[t.Name] = string(t.Definition)
	}
	b, err := json.Marshal(pins)
	if err != nil {
		return nil, err
	}
	return counterfoil.Canonicalize(b)
}

// pinned returns the definitions that the tools of a server had when they were first seen, or last accepted.
func pinned(row ServerRow) (pins map[string]string, err error) {
	err = json.Unmarshal(row.Pins, &pins)
	return pins, err
}

// registry builds the registry of a stored server.
func (g *Gateway) registry(row ServerRow) (*governance.Registry, error) {
	var identity struct {
		Argv []string `json:"argv"`
		Dir  string   `json:"dir"`
	}
	if err := json.Unmarshal(row.Identity, &identity); err != nil {
		return nil, err
	}
	src := governance.Source{UpstreamID: row.ID, Launch: governance.Identify(identity.Argv, identity.Dir, g.Files)}
	var err error
	if src.Definitions, err = splitDefinitions(row.Tools); err != nil {
		return nil, err
	}
	pins, err := pinned(row)
	if err != nil {
		return nil, err
	}
	src.Pins = make(map[string]counterfoil.Digest, len(pins))
	for name, text := range pins {
		if src.Pins[name], err = counterfoil.DefinitionDigest([]byte(text)); err != nil {
			return nil, err
		}
	}
	if src.Classifications, err = g.classes(row); err != nil {
		// A record that doesn't verify classifies nothing: every call asks.
		g.Logger.LogAttrs(context.Background(), slog.LevelError, "a classification does not verify", slog.String("server", row.ID), slog.String("error", err.Error()))
		src.Classifications = nil
	}
	return governance.NewRegistry(src)
}

// A classification is the document that a person signs for all tools of a server.
type classification struct {
	Kind     string      `json:"kind"`
	Tools    []toolClass `json:"tools"`
	Upstream string      `json:"upstream"`
	Version  string      `json:"version"`
}

type toolClass struct {
	Definition string             `json:"definition"`
	Effect     counterfoil.Effect `json:"effect"`
	Tool       string             `json:"tool"`
}

const kindClassification = "counterfoil.classification"

// classes returns a person's classification, after verifying that they signed it.
func (g *Gateway) classes(row ServerRow) ([]governance.Classification, error) {
	if row.Classes == nil {
		return nil, nil
	}
	d, err := counterfoil.ParseDecision(row.Decision)
	if err != nil {
		return nil, err
	}
	ring, err := g.Keys.Ring()
	if err != nil {
		return nil, err
	}
	subject, err := counterfoil.RulesDigest(row.Classes)
	if err != nil {
		return nil, err
	}
	if err := d.Verify(ring, g.classify(row.Tenant, subject)); err != nil {
		return nil, err
	}
	var c classification
	if err := unmarshal(row.Classes, &c); err != nil {
		return nil, err
	}
	if c.Kind != kindClassification || c.Upstream != row.ID {
		return nil, &counterfoil.Error{Code: counterfoil.CodeIntegrityFailed, Msg: "the classification is for another server"}
	}
	out := make([]governance.Classification, 0, len(c.Tools))
	for _, t := range c.Tools {
		def, err := counterfoil.ParseDigest(t.Definition)
		if err != nil {
			return nil, err
		}
		out = append(out, governance.Classification{UpstreamID: c.Upstream, Tool: t.Tool, Definition: def, Effect: t.Effect})
	}
	return out, nil
}

func (g *Gateway) classify(tenant string, subject counterfoil.Digest) counterfoil.DecisionParams {
	return counterfoil.DecisionParams{Tenant: tenant, Audience: g.Keys.Audience(), Verb: counterfoil.VerbClassify, Subject: subject}
}

// A ServerView is a server as a person is shown it.
type ServerView struct {
	ID       string
	Name     string
	Identity []byte
	Digest   string // over the tools as they are listed now
	Package  string // of the profile that suggests, "" for none
	Tools    []ToolView
	Dropped  []string // definitions that can't be used at all
}

// A ToolView is one tool of a ServerView.
type ToolView struct {
	Name             string
	Status           governance.Status
	Classified       bool
	Effect           counterfoil.Effect
	Suggested        counterfoil.Effect // "" where there is nothing to suggest
	Why              string
	Definition       []byte
	DefinitionDigest string
	Pinned           []byte // the definition that was accepted, where it differs
}

// Servers returns the servers that are known.
func (g *Gateway) Servers(ctx context.Context, tenant string) ([]ServerView, error) {
	rows, err := g.Store.Servers(ctx, tenant)
	if err != nil {
		return nil, err
	}
	out := make([]ServerView, 0, len(rows))
	for _, row := range rows {
		v, err := g.view(row)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (g *Gateway) view(row ServerRow) (ServerView, error) {
	digest, err := counterfoil.RulesDigest(row.Tools)
	if err != nil {
		return ServerView{}, err
	}
	r, err := g.registry(row)
	if err != nil {
		return ServerView{}, err
	}
	pins, err := pinned(row)
	if err != nil {
		return ServerView{}, err
	}
	v := ServerView{ID: row.ID, Name: row.Name, Identity: row.Identity, Digest: digest.String(), Dropped: r.Dropped()}
	suggested := map[string]governance.SuggestedTool{}
	if s, ok := r.Suggest(); ok {
		v.Package = s.Package
		for _, t := range s.Tools {
			suggested[t.Tool] = t
		}
	}
	for _, t := range r.Tools() {
		tv := ToolView{
			Name: t.Name, Status: t.Status, Classified: t.Classified, Effect: t.Class, Why: t.Why,
			Definition: t.Definition, DefinitionDigest: t.Digest.String(),
		}
		if text, ok := pins[t.Name]; ok && text != string(t.Definition) {
			tv.Pinned = []byte(text)
		}
		if s, ok := suggested[t.Name]; ok {
			tv.Suggested = s.Effect
			if s.Why != "" {
				tv.Why = s.Why
			}
		}
		v.Tools = append(v.Tools, tv)
	}
	return v, nil
}

// Classify records a person's one decision over all tools of a server: what each does. It also accepts their definitions
// as they are now. shown is the digest of what the person saw; if the server lists something else by now the decision is
// refused with a *ConflictError. A tool that effects does not name stays destructive.
func (g *Gateway) Classify(ctx context.Context, tenant, id, shown string, effects map[string]counterfoil.Effect, signer counterfoil.Signer) error {
	row, err := g.Store.Server(ctx, tenant, id)
	if err != nil {
		return err
	}
	v, err := g.view(row)
	if err != nil {
		return err
	}
	if v.Digest != shown {
		return &ConflictError{State: Void}
	}
	c := classification{Kind: kindClassification, Upstream: row.ID, Version: "1.0"}
	for _, t := range v.Tools {
		if e, ok := effects[t.Name]; ok {
			c.Tools = append(c.Tools, toolClass{t.DefinitionDigest, e, t.Name})
			delete(effects, t.Name)
		}
	}
	if len(effects) > 0 {
		return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "the server has no tool of one of these names"}
	}
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if row.Classes, err = counterfoil.Canonicalize(b); err != nil {
		return err
	}
	subject, err := counterfoil.RulesDigest(row.Classes)
	if err != nil {
		return err
	}
	d, err := counterfoil.Decide(ctx, g.classify(tenant, subject), signer, g.Now())
	if err != nil {
		return err
	}
	row.Decision = d.Envelope()
	if row.Pins, err = pinsOf(row.Tools); err != nil {
		return err
	}
	eventID, err := g.id("class-")
	if err != nil {
		return err
	}
	e, err := g.event(counterfoil.PhaseClassified, counterfoil.EventParams{
		Tenant: tenant, ExecutionID: eventID, Actor: d.Approver(), Source: row.ID, PolicyDigest: subject, DecisionDigest: d.Digest(),
	})
	if err != nil {
		return err
	}
	if err := g.Store.ClassifyServer(ctx, row, e); err != nil {
		return err
	}
	g.wake()
	return nil
}

// printable makes a server's name fit to be shown and signed: no controls, at most 200 bytes.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	for len(s) > 200 {
		s = s[:len(s)-1]
	}
	if s = strings.ToValidUTF8(s, ""); s == "" {
		return "?"
	}
	return s
}
