package api

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
	"github.com/counterfoil/counterfoil/scan"
)

// toolItem is a tool as lists have it, or whole.
type toolItem struct {
	Name             string  `json:"name"`
	Upstream         string  `json:"upstream"`
	UpstreamID       string  `json:"upstreamId"`
	Status           string  `json:"status"` // "unclassified" until a person has said what it does
	Effect           string  `json:"effect,omitzero"`
	DefinitionDigest string  `json:"definitionDigest,omitzero"`
	Definition       rawJSON `json:"definition,omitzero"`
}

type toolList struct {
	Items []toolItem `json:"items"`
	// Unreachable are the upstreams that could not be asked for their tools.
	Unreachable []string `json:"unreachable,omitzero"`
}

const unclassified = "unclassified"

func (a *API) tools(ctx context.Context, x *exchange) (toolList, error) {
	list := toolList{Items: []toolItem{}}
	mounts, err := a.o.Upstreams(ctx, x.principal.Tenant)
	if err != nil {
		return list, err
	}
	views, err := a.o.Gate.Servers(ctx, x.principal.Tenant)
	if err != nil {
		return list, err
	}
	for _, m := range mounts {
		items, err := a.toolsOf(ctx, m, views)
		if err != nil {
			list.Unreachable = append(list.Unreachable, m.Name)
			continue
		}
		for _, t := range items {
			t.Definition = nil
			list.Items = append(list.Items, t)
		}
	}
	return list, nil
}

func (a *API) tool(ctx context.Context, x *exchange) (toolItem, error) {
	name, err := x.named("tool")
	if err != nil {
		return toolItem{}, err
	}
	m, _, err := a.find(ctx, x.principal.Tenant, name)
	if err != nil {
		return toolItem{}, err
	}
	views, err := a.o.Gate.Servers(ctx, x.principal.Tenant)
	if err != nil {
		return toolItem{}, err
	}
	items, err := a.toolsOf(ctx, m, views)
	if err != nil {
		return toolItem{}, &gateway.Refusal{Reason: gateway.UpstreamUnavailable, Msg: "the tool server can't be asked", Err: err}
	}
	for _, t := range items {
		if t.Name == name {
			return t, nil
		}
	}
	return toolItem{}, refuse(codeNotFound, "there is no such tool")
}

// toolsOf lists the tools of an upstream, with what is known of them.
func (a *API) toolsOf(ctx context.Context, m Mount, views []gateway.ServerView) ([]toolItem, error) {
	id, err := counterfoil.UpstreamDigest(m.Upstream.Identity())
	if err != nil {
		return nil, err
	}
	defs, err := m.Upstream.Definitions(ctx, nil, false)
	if err != nil {
		return nil, err
	}
	known := map[string]gateway.ToolView{}
	for i := range views {
		if views[i].ID == id.String() {
			for _, t := range views[i].Tools {
				known[t.Name] = t
			}
		}
	}
	var items []toolItem
	for _, def := range defs {
		var d struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(def, &d); err != nil || d.Name == "" {
			continue // can't be called either
		}
		t := toolItem{Name: m.Name + "." + d.Name, Upstream: m.Name, UpstreamID: id.String(), Status: unclassified, Definition: def}
		if v, ok := known[d.Name]; ok {
			t.DefinitionDigest, t.Effect = v.DefinitionDigest, string(v.Effect)
			if v.Classified {
				t.Status = string(v.Status)
			}
		}
		items = append(items, t)
	}
	return items, nil
}

// scanBody asks for exactly one of text and value to be looked at.
type scanBody struct {
	Text  *string `json:"text,omitzero"`
	Value rawJSON `json:"value,omitzero"`
}

type scanFinding struct {
	Pattern  string `json:"pattern"`
	Family   string `json:"family"`
	Severity string `json:"severity"`
	Pointer  string `json:"pointer,omitzero"`
	InName   bool   `json:"inName,omitzero"`
	Offset   int    `json:"offset"`
	End      int    `json:"end"`
	Decoded  string `json:"decoded,omitzero"`
}

type scanAnswer struct {
	Safe        bool          `json:"safe"`
	Findings    []scanFinding `json:"findings"`
	Truncated   bool          `json:"truncated,omitzero"`
	Unscannable string        `json:"unscannable,omitzero"`
}

func (a *API) scan(ctx context.Context, _ *exchange, in scanBody) (scanAnswer, error) {
	var r scan.Result
	switch {
	case (in.Text == nil) == (in.Value == nil):
		return scanAnswer{}, malformed("", "give exactly one of text and value")
	case in.Text != nil:
		r = a.o.Scanner.Scan(ctx, *in.Text)
	default:
		r = a.o.Scanner.ScanValue(ctx, jsontext.Value(in.Value))
	}
	out := scanAnswer{Safe: r.Safe, Findings: []scanFinding{}, Truncated: r.Truncated, Unscannable: r.Unscannable}
	for _, f := range r.Findings {
		out.Findings = append(out.Findings, scanFinding{
			f.Pattern, f.Family.String(), f.Severity.String(), f.Pointer, f.InName, f.Offset, f.End, f.Decoded,
		})
	}
	return out, nil
}
