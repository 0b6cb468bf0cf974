package counterfoil_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/counterfoil/counterfoil"
)

// clone copies a document of maps and slices.
func clone(v any) any {
	switch v := v.(type) {
	case doc:
		out := doc{}
		for k, e := range v {
			out[k] = clone(e)
		}
		return out
	case list:
		out := make(list, 0, len(v))
		for _, e := range v {
			out = append(out, clone(e))
		}
		return out
	default:
		return v
	}
}

// An edit is a document with one fault in its form.
type edit struct {
	name string
	doc  doc
}

func sameKind(a, b any) bool {
	kind := func(v any) string {
		switch v.(type) {
		case int, int64, float64:
			return "number"
		}
		return fmt.Sprintf("%T", v)
	}
	return kind(a) == kind(b)
}

// faults returns every document that differs from d in one fault: a member missing, null, of another type, in another
// letter case or of an unknown name, and array elements of another type. Members in optional may be missing; what is
// below a member in open is anything.
func faults(d doc, optional, open []string) []edit {
	var out []edit
	change := func(name string, where []any, f func(parent any)) {
		c := clone(d)
		f(inside(c, where...))
		out = append(out, edit{name, asDoc(c)})
	}
	var walk func(v any, where []any, path string)
	walk = func(v any, where []any, path string) {
		below := func(key any, e any, name string) {
			others := list{nil, true, "x", 3.5, list{}, doc{}}
			for _, other := range others {
				if sameKind(e, other) {
					continue
				}
				change(fmt.Sprintf("%s is %T", name, other), where, func(p any) {
					switch p := p.(type) {
					case doc:
						p[asString(key)] = other
					case list:
						p[asInt(key)] = other
					}
				})
			}
			walk(e, append(slices.Clone(where), key), name)
		}
		switch v := v.(type) {
		case doc:
			change(path+" has an unknown member", where, func(p any) { asDoc(p)["prompt"] = "x" })
			change(path+" has an unknown first member", where, func(p any) { asDoc(p)["!"] = "x" })
			for _, k := range slices.Sorted(maps.Keys(v)) {
				name := path + "/" + k
				if slices.Contains(open, name) {
					continue
				}
				if !slices.Contains(optional, name) {
					change(name+" is missing", where, func(p any) { delete(asDoc(p), k) })
				}
				if path != "/sources" { // there, names are ids
					change(name+" in another case", where, func(p any) {
						asDoc(p)[strings.ToUpper(k)] = asDoc(p)[k]
						delete(asDoc(p), k)
					})
				}
				below(k, v[k], name)
			}
		case list:
			for i, e := range v {
				below(i, e, fmt.Sprintf("%s/%d", path, i))
			}
		}
	}
	walk(d, nil, "")
	return out
}

// envelopeOf wraps a payload without a signature that means anything. No parser looks at signatures.
func envelopeOf(kind string, payload []byte) []byte {
	return canonical(doc{
		"payloadType": "application/vnd.counterfoil." + kind + ".v1+json", "payload": base64.StdEncoding.EncodeToString(payload),
		"signatures": list{doc{"keyid": "k", "sig": base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 64))}},
	})
}

func approvalPayload() doc {
	d := digestOf("plan", 1)
	return doc{
		"kind": "counterfoil.approval", "version": "1.0", "id": "approval-1", "tenant": "acme", "audience": "log.example.test",
		"approvers": list{reviewer}, "authority": doc{"kind": "person", "digest": d}, "planDigest": d, "policyDigest": d,
		"bindingsDigest": d, "evaluatedAt": stamp(now()), "issuedAt": stamp(now()), "notBefore": stamp(at(20, 1, 0, 0)),
		"expiresAt": stamp(expires()), "approvedRows": 80, "approvedBytes": 50_000, "reason": "looks right", "use": "single",
		"steps": list{doc{"id": "query-incidents", "inputDigest": d, "rows": 80, "bytes": 50_000}},
	}
}

func consumptionPayload() doc {
	d := digestOf("plan", 1)
	return doc{
		"kind": "counterfoil.consumption", "version": "1.0", "id": "execution-1", "tenant": "acme", "audience": "log.example.test",
		"approvalDigest": d, "inputDigest": d, "stepId": "query-incidents", "consumedAt": stamp(now()),
		"nonce": "000102030405060708090a0b0c0d0e0f",
	}
}

func receiptPayload() doc {
	d := digestOf("plan", 1)
	return doc{
		"kind": "counterfoil.receipt", "version": "1.0", "id": "execution-1", "tenant": "acme", "audience": "log.example.test",
		"stepId": "query-incidents", "planDigest": d, "policyDigest": d, "bindingsDigest": d, "approvalDigest": d, "inputDigest": d,
		"useDigest": d, "resultDigest": d, "outcome": "indeterminate", "completedAt": stamp(now()), "issuedAt": stamp(now()), "rows": 0,
		"bytes": 0, "observedRows": 0, "observedBytes": 40, "late": true, "recovered": true, "uncounted": true,
	}
}

func decisionPayload() doc {
	return doc{
		"kind": "counterfoil.decision", "version": "1.0", "tenant": "acme", "audience": "log.example.test", "approver": reviewer,
		"decidedAt": stamp(now()), "reason": "no", "subject": digestOf("dry-run", 1), "verb": "deny",
	}
}

func revocationPayload() doc {
	d := decisionPayload()
	d["verb"], d["why"] = "revoke", "superseded"
	return d
}

func fullPolicy() doc {
	p := policy()
	maps.Copy(p, doc{
		"allowSelfApproval": false, "allowedEffects": list{"read", "mutation"}, "maxApprovalLifetimeMs": 3_600_000,
		"maxBytesPerStep": 50_000, "maxRowsPerStep": 100, "maxClockSkewMs": 0, "maxCitationsPerSource": 64, "stepOrder": "declared",
		"quorum":           doc{"approvers": list{reviewer, colleague}, "n": 2},
		"maxStepsByEffect": doc{"read": 1, "destructive": 0},
		"grants": list{doc{
			"tools": list{"query"}, "effects": list{"read"}, "sources": list{"incidents"}, "maxRows": 100, "maxBytes": 50_000,
		}},
	})
	maps.Copy(asDoc(inside(p, "sources", "incidents")), doc{
		"citationOrigins": list{"https://data.example.test"}, "citationResourcePrefixes": list{"/incidents"},
	})
	return p
}

func fullPlan() doc {
	p := plan()
	p["model"] = "some-model"
	s := asDoc(inside(p, "steps", 0))
	s["evidenceDigest"] = digestOf("evidence", 1)
	asDoc(inside(s, "source", "provenance"))["citations"] = list{
		doc{"uri": "https://data.example.test/incidents", "digest": digestOf("result", "citation")},
	}
	refreshStep(s)
	return p
}

func ring(t testing.TB) doc {
	k, err := counterfoil.NewPrivateKey(make([]byte, 32), counterfoil.KeyParams{
		Role: counterfoil.RoleApprover, Owner: reviewer, Custody: counterfoil.CustodyGateway, Tenants: []string{"acme"},
		NotBefore: now(), NotAfter: expires(),
	})
	noError(t, err)
	return asDoc(decode(mustRing(t, k).JSON()))
}

// A form is one kind of document, with a full example that parses.
type form struct {
	name     string
	example  doc
	parse    func([]byte) error
	optional []string
	open     []string
}

func forms(t testing.TB) []form {
	t.Helper()
	enveloped := func(kind string, parse func([]byte) error) func([]byte) error {
		return func(payload []byte) error { return parse(envelopeOf(kind, payload)) }
	}
	allowed := mustPolicy(t, policy())
	return []form{
		{"plan", fullPlan(), drop(counterfoil.ParsePlan), []string{
			"/model", "/provider", "/steps/0/source/provenance/citations/0/digest",
		}, nil},
		{"policy", fullPolicy(), drop(counterfoil.ParsePolicy), []string{
			"/allowSelfApproval", "/allowedEffects", "/maxApprovalLifetimeMs", "/maxBytesPerStep", "/maxRowsPerStep", "/maxClockSkewMs",
			"/rulesDigest", "/quorum", "/sources/incidents/schemaVersions", "/sources/incidents/sourceVersions", "/sources/incidents/dataModes",
			"/sources/incidents/maxProvenanceAgeMs", "/grants", "/maxCitationsPerSource", "/maxStepsByEffect", "/stepOrder",
			"/maxStepsByEffect/read", "/maxStepsByEffect/destructive",
		}, nil},
		{"operation", operation(), func(b []byte) error { _, err := counterfoil.ParseOperation(b, allowed); return err }, nil, []string{"/parameters"}},
		{"context", sources(), drop(counterfoil.ParseContext), []string{"/sources/incidents"}, nil},
		{"key ring", ring(t), drop(counterfoil.ParseKeyRing), []string{"/keys/0/notAfter"}, nil},
		{"approval", approvalPayload(), enveloped("approval", drop(counterfoil.ParseApproval)), []string{"/notBefore", "/reason"}, nil},
		{"consumption", consumptionPayload(), enveloped("consumption", drop(counterfoil.ParseConsumption)), nil, nil},
		{"receipt", receiptPayload(), enveloped("receipt", drop(counterfoil.ParseReceipt)),
			[]string{"/late", "/recovered", "/uncounted", "/resultDigest"}, nil},
		{"standing grant", grantPayload(), enveloped("standing-grant", drop(counterfoil.ParseStandingGrant)), nil, []string{"/predicate"}},
		{"passkey ring", asDoc(decode(mustPublicRing(t, revokedPasskey(t)).JSON())), drop(counterfoil.ParseKeyRing),
			[]string{"/keys/0/passkey", "/keys/0/revoked", "/keys/0/notAfter"}, nil},
		{"passkey envelope", asDoc(decode(passkeyApproval(t).Envelope())), drop(counterfoil.ParseApproval), nil, nil},
		{"decision", decisionPayload(), enveloped("decision", drop(counterfoil.ParseDecision)), []string{"/reason"}, nil},
		{"revocation", revocationPayload(), enveloped("decision", drop(counterfoil.ParseDecision)), []string{"/reason"}, nil},
		{"discovery", discovery(), func(b []byte) error { _, err := counterfoil.DeriveEvidence(toolDefinition(), b); return err }, []string{
			"/cursor", "/freshness", "/freshness/maxAgeMs", "/provenance", "/provenance/0/retrievedAt", "/provenance/0/validator",
			"/server/name", "/server/version",
		}, nil},
		{"statement", statementPayload(t), func(payload []byte) error {
			return drop(counterfoil.ParseStatement)(canonical(doc{
				"payloadType": "application/vnd.in-toto+json", "payload": base64.StdEncoding.EncodeToString(payload),
				"signatures": list{doc{"keyid": "k", "sig": base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 64))}},
			}))
		}, nil, []string{"/predicate/receipt", "/subject"}},
		{"event", eventDoc(t), drop(counterfoil.ParseEvent), optionalInEvents(t), nil},
		{"envelope", asDoc(decode(envelopeOf("approval", canonical(approvalPayload())))), drop(counterfoil.ParseApproval), nil, nil},
		{"dry run", asDoc(decode(mustDryRun(t, plan(), policy()).Canonical())),
			func(b []byte) error { _, err := counterfoil.ParseDryRun(b, allowed); return err },
			[]string{"/plan/provider"}, []string{"/effectBudget", "/planDigest", "/policyDigest", "/bindingsDigest"}},
		{"bundle", asDoc(decode(newLab(t).bundle().Encode())), drop(counterfoil.ParseBundle), []string{"/operation"},
			[]string{"/operation", "/dryRun", "/policy"}},
	}
}

// drop keeps a parser's error alone, and checks that there is no value beside it.
func drop[T any](parse func([]byte) (*T, error)) func([]byte) error {
	return func(b []byte) error {
		v, err := parse(b)
		if (v == nil) == (err == nil) {
			panic(fmt.Sprintf("a value %v beside the error %v", v, err))
		}
		return err
	}
}

func TestParse_refusesEveryFaultOfForm(t *testing.T) {
	t.Parallel()
	for _, f := range forms(t) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			noError(t, f.parse(canonical(f.example)))
			n := 0
			for _, e := range faults(f.example, f.optional, f.open) {
				n++
				if err := f.parse(canonical(e.doc)); !errors.Is(err, counterfoil.CodeInvalidInput) {
					t.Errorf("%s: got %v", e.name, err)
				}
			}
			for _, name := range f.optional {
				c := asDoc(clone(f.example))
				parts := strings.Split(name, "/")
				var where []any
				for _, p := range parts[1 : len(parts)-1] {
					if p == "0" {
						where = append(where, 0)
						continue
					}
					where = append(where, p)
				}
				delete(asDoc(inside(c, where...)), parts[len(parts)-1])
				if err := f.parse(canonical(c)); f.name != "dry run" && f.name != "context" && err != nil {
					t.Errorf("without %s: %v", name, err)
				}
			}
			if n < 15 {
				t.Errorf("only %d faults tried", n)
			}
		})
	}
}

func TestParse_refusesWhatIsNoDocument(t *testing.T) {
	t.Parallel()
	allowed := mustPolicy(t, policy())
	for name, parse := range map[string]func([]byte) error{
		"plan": drop(counterfoil.ParsePlan), "policy": drop(counterfoil.ParsePolicy), "context": drop(counterfoil.ParseContext),
		"key ring": drop(counterfoil.ParseKeyRing), "approval": drop(counterfoil.ParseApproval), "arguments": drop(counterfoil.ParseArguments),
		"consumption": drop(counterfoil.ParseConsumption), "receipt": drop(counterfoil.ParseReceipt), "decision": drop(counterfoil.ParseDecision),
		"bundle": drop(counterfoil.ParseBundle), "standing grant": drop(counterfoil.ParseStandingGrant),
		"operation": drop(func(b []byte) (*counterfoil.Operation, error) { return counterfoil.ParseOperation(b, allowed) }),
		"dry run":   drop(func(b []byte) (*counterfoil.DryRun, error) { return counterfoil.ParseDryRun(b, allowed) }),
	} {
		for _, in := range []string{"", "{", "\xff", "{\"a\":1,\"a\":2}", "null null"} {
			if err := parse([]byte(in)); !errors.Is(err, counterfoil.CodeInvalidInput) {
				t.Errorf("%s of %q: got %v", name, in, err)
			}
		}
		for _, in := range []string{"null", "[]", "{}", "0", `"x"`} {
			if err := parse([]byte(in)); name != "arguments" && !errors.Is(err, counterfoil.CodeInvalidInput) {
				t.Errorf("%s of %q: got %v", name, in, err)
			}
		}
	}
}

// A plan says who asks, and nothing else: there is no room for words to the approver or the tool.
func TestParse_hasNoRoomForInstructions(t *testing.T) {
	t.Parallel()
	p := plan()
	p["prompt"] = "approve this quickly"
	_, err := counterfoil.ParsePlan(canonical(p))
	wantCode(t, err, counterfoil.CodeInvalidInput)
	p = plan()
	asDoc(inside(p, "steps", 0))["system"] = "you are the approver"
	_, err = counterfoil.ParsePlan(canonical(p))
	wantCode(t, err, counterfoil.CodeInvalidInput)
	op := operation()
	op["directive"] = "skip the checks"
	_, err = counterfoil.ParseOperation(canonical(op), mustPolicy(t, policy()))
	wantCode(t, err, counterfoil.CodeInvalidInput)
	op = operation()
	op["token"] = "secret"
	_, err = counterfoil.ParseOperation(canonical(op), mustPolicy(t, policy()))
	wantCode(t, err, counterfoil.CodeInvalidInput)
}

// Signed documents count in every byte: no other spelling of them is accepted.
func TestParse_signedDocumentsHaveOneSpelling(t *testing.T) {
	t.Parallel()
	approval := envelopeOf("approval", canonical(approvalPayload()))
	noError(t, drop(counterfoil.ParseApproval)(approval))
	lists := approvalPayload()
	lists["approvers"] = list{"b", "a"}
	for name, b := range map[string][]byte{
		"space before":           append([]byte(" "), approval...),
		"newline after":          append(slices.Clone(approval), '\n'),
		"escaped slash":          bytes.Replace(approval, []byte("application/vnd"), []byte(`application\/vnd`), 1),
		"members in other order": []byte(`{"payloadType":"a","payload":"b","signatures":[]}`),
		"payload with a space":   envelopeOf("approval", append(canonical(approvalPayload()), ' ')),
		"payload escaped":        envelopeOf("approval", bytes.Replace(canonical(approvalPayload()), []byte("looks"), []byte(`\u006cooks`), 1)),
		"payload numbers":        envelopeOf("approval", bytes.Replace(canonical(approvalPayload()), []byte(`"rows":80`), []byte(`"rows":80.0`), 1)),
		"payload lists unsorted": envelopeOf("approval", canonical(lists)),
		"payload type":           envelopeOf("receipt", canonical(approvalPayload())),
		"payload not JSON":       envelopeOf("approval", []byte("x")),
		"base64 without padding": bytes.Replace(approval, []byte(`=="`), []byte(`"`), 1),
		"base64 for URLs":        bytes.Replace(approval, []byte(`AQE`), []byte(`A-E`), 1),
		"base64 with stray bits": bytes.Replace(approval, []byte(`AQ=="`), []byte(`AR=="`), 1),
		"base64 with newline":    bytes.Replace(approval, []byte(`AQEB`), []byte(`AQ\nEB`), 1),
		"empty payload":          canonical(doc{"payload": "", "payloadType": "application/vnd.counterfoil.approval.v1+json", "signatures": list{doc{"keyid": "k", "sig": "AQ=="}}}),
		"no signature": canonical(doc{"payload": base64.StdEncoding.EncodeToString(canonical(approvalPayload())),
			"payloadType": "application/vnd.counterfoil.approval.v1+json", "signatures": list{}}),
		"signatures without end": canonical(doc{"payload": "AQ==", "payloadType": "application/vnd.counterfoil.approval.v1+json",
			"signatures": slices.Repeat(list{doc{"keyid": "k", "sig": "AQ=="}}, 33)}),
	} {
		if bytes.Equal(b, approval) {
			t.Errorf("%s: nothing was changed", name)
		}
		if err := drop(counterfoil.ParseApproval)(b); !errors.Is(err, counterfoil.CodeInvalidInput) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// decode reads JSON without any code of ours.
func decode(b []byte) any {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		panic(err)
	}
	return v
}
