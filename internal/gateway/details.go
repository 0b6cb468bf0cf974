package gateway

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/vault"
)

// sealVersion is the version of what the gateway seals at rest.
const sealVersion = "1"

// details are what a request holds under seal: what people see, and the documents that will be approved and executed.
type details struct {
	Method      string         `json:"method"`
	Run         string         `json:"run"`
	Owner       string         `json:"owner,omitzero"`
	UpstreamID  string         `json:"upstreamId"`
	Definition  jsontext.Value `json:"definition,omitzero"`
	DefDigest   string         `json:"definitionDigest"`
	RulesDigest string         `json:"rulesDigest"`
	Rule        string         `json:"rule"`
	Why         string         `json:"why"`
	Findings    []Finding      `json:"findings"`
	Policy      jsontext.Value `json:"policy"`
	DryRun      jsontext.Value `json:"dryRun"`
	Operation   jsontext.Value `json:"operation"`
}

func unmarshal(b []byte, v any) error {
	return json.Unmarshal(b, v, json.RejectUnknownMembers(true))
}

func (g *Gateway) seal(tenant, kind, name string, plain []byte) ([]byte, error) {
	return g.Keys.Vault().Seal(vault.Label{Tenant: tenant, Kind: kind, Name: name, Version: sealVersion}, plain)
}

func (g *Gateway) open(tenant, kind, name string, sealed []byte) ([]byte, error) {
	return g.Keys.Vault().Open(vault.Label{Tenant: tenant, Kind: kind, Name: name, Version: sealVersion}, sealed)
}

func (g *Gateway) sealDetails(p *passage, row RequestRow) ([]byte, error) {
	d := details{
		Method: p.call.Method, Run: p.call.Run, Owner: p.call.Owner, UpstreamID: p.server.id.String(), DefDigest: p.definition().String(), RulesDigest: g.rules.String(),
		Rule: p.rule, Why: p.why, Findings: p.findings,
		Policy: p.dry.Policy().Canonical(), DryRun: p.dry.Canonical(), Operation: p.op.Canonical(),
	}
	if p.tool != nil {
		d.Definition = p.tool.Definition
	}
	b, err := json.Marshal(d, jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInternal, Msg: "the request could not be written down", Err: err}
	}
	return g.seal(row.Tenant, vault.KindRequest, row.ID, b)
}

func (g *Gateway) openDetails(row RequestRow) (details, error) {
	var d details
	b, err := g.open(row.Tenant, vault.KindRequest, row.ID, row.Details)
	if err != nil {
		return d, err
	}
	if err := unmarshal(b, &d); err != nil {
		return d, &counterfoil.Error{Code: counterfoil.CodeIntegrityFailed, Msg: "the request's record is damaged", Err: err}
	}
	return d, nil
}

// documents reads back what was planned: the dry run, rebuilt under its policy, and the operation.
func (d *details) documents() (*counterfoil.DryRun, *counterfoil.Operation, error) {
	policy, err := counterfoil.ParsePolicy(d.Policy)
	if err != nil {
		return nil, nil, err
	}
	dry, err := counterfoil.ParseDryRun(d.DryRun, policy)
	if err != nil {
		return nil, nil, err
	}
	op, err := counterfoil.ParseOperation(d.Operation, policy)
	return dry, op, err
}

// answerRecord is an answer under seal.
type answerRecord struct {
	Result []byte `json:"result,omitzero"` // raw: to be relayed byte for byte
	Error  []byte `json:"error,omitzero"`
}

func (g *Gateway) sealAnswer(tenant, request string, a Answer) ([]byte, error) {
	b, err := json.Marshal(answerRecord{a.Result, a.Error})
	if err != nil {
		return nil, &counterfoil.Error{Code: counterfoil.CodeInternal, Msg: "the answer could not be written down", Err: err}
	}
	return g.seal(tenant, vault.KindAnswer, request, b)
}

func (g *Gateway) openAnswer(row RequestRow) (Answer, error) {
	b, err := g.open(row.Tenant, vault.KindAnswer, row.ID, row.Answer)
	if err != nil {
		return Answer{}, err
	}
	var r answerRecord
	if err := unmarshal(b, &r); err != nil || (r.Result == nil) == (r.Error == nil) {
		return Answer{}, &counterfoil.Error{Code: counterfoil.CodeIntegrityFailed, Msg: "the answer's record is damaged", Err: err}
	}
	return Answer{Result: r.Result, Error: r.Error}, nil
}
