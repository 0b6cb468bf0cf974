package counterfoil_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
)

// passkeyForgery is an approval with an assertion that was changed in one thing.
func passkeyForgery(name string, change func(*ceremony)) forgery {
	return forgery{"a passkey " + name, "signature-invalid", passkeyLab, func(f *forged) {
		a := newAuthenticator(f.t, reviewer)
		p, err := counterfoil.PrepareApproval(mustDryRun(f.t, plan(), policy()), request(), a.public, now())
		noError(f.t, err)
		made := a.assert(f.t, p.Message().Challenge(), change)
		fixed, err := counterfoil.FixedSignature(made.Signature)
		noError(f.t, err)
		f.after = func(d doc) {
			s := signatureIn(d, "approval")
			s["authenticatorData"] = base64.StdEncoding.EncodeToString(made.AuthenticatorData)
			s["clientDataJSON"] = base64.StdEncoding.EncodeToString(made.ClientDataJSON)
			s["sig"] = base64.StdEncoding.EncodeToString(fixed)
		}
	}}
}

func forgedPasskeys() []forgery {
	client := func(member string, v any) func(*ceremony) { return func(c *ceremony) { c.client[member] = v } }
	flags := func(flags byte) func(*ceremony) { return func(c *ceremony) { c.flags = flags } }
	return []forgery{
		passkeyForgery("for another relying party", func(c *ceremony) { c.rpID = "other.example.test" }),
		passkeyForgery("for another origin", client("origin", "https://evil.example.test")),
		passkeyForgery("in a frame", client("crossOrigin", true)),
		passkeyForgery("below another page", client("topOrigin", "https://evil.example.test")),
		passkeyForgery("that makes a key", client("type", "webauthn.create")),
		passkeyForgery("with another challenge", client("challenge", strings.Repeat("A", 43))),
		passkeyForgery("whose user is not verified", flags(0x01)),
		passkeyForgery("whose user is not there", flags(0x04)),
		passkeyForgery("that is backed up and can not be", flags(0x15)),
		passkeyForgery("with a key attached", flags(0x45)),
		passkeyForgery("with extensions that are not there", flags(0x85)),
		passkeyForgery("with extensions that are not said", func(c *ceremony) { c.more = []byte{0xa0} }),
		passkeyForgery("with client data that is none", func(c *ceremony) { c.raw = []byte("[]") }),
		passkeyForgery("with a member twice", func(c *ceremony) { c.raw = []byte(`{"type":"webauthn.get","type":"webauthn.get"}`) }),
		{"a plain signature by a passkey", "signature-invalid", passkeyLab, func(f *forged) {
			f.after = func(d doc) {
				s := signatureIn(d, "approval")
				delete(s, "authenticatorData")
				delete(s, "clientDataJSON")
			}
		}},
		{"a passkey's signature by a plain key", "signature-invalid", nil, func(f *forged) {
			f.after = func(d doc) {
				s := signatureIn(d, "approval")
				s["authenticatorData"], s["clientDataJSON"] = "AAAA", "AAAA"
			}
		}},
	}
}

func forgedQuorums() []forgery {
	two := func(t testing.TB) *lab {
		l, second := quorumLab(t)
		l.x.Approval = cosigned(t, l, second)
		return l
	}
	return []forgery{
		{"a quorum of which one has not signed", "quorum-missing", two, func(f *forged) {
			f.after = func(d doc) { asDoc(d["approval"])["signatures"] = asList(inside(d, "approval", "signatures"))[:1] }
		}},
		{"a quorum that names too few", "quorum-missing", two, func(f *forged) { f.a["approvers"] = list{reviewer} }},
		{"a quorum with one from outside", "quorum-missing", two, func(f *forged) { f.a["approvers"] = list{"mallory@example.test", reviewer} }},
		{"two keys of one approver", "signature-invalid", two, func(f *forged) {
			for _, k := range asList(f.ring["keys"]) {
				if asDoc(k)["role"] == "approver" {
					asDoc(k)["owner"] = reviewer
				}
			}
		}},
	}
}

func forgedGrants() []forgery {
	granted := func(t testing.TB) *lab { return grantLab(t, mustGrant(t, nil)) }
	set := func(member string, v any) func(*forged) { return func(f *forged) { f.g[member] = v } }
	return []forgery{
		{"a grant of another tenant", "integrity-failed", granted, set("tenant", "other")},
		{"a grant of another audience", "integrity-failed", granted, set("audience", "other")},
		{"a grant for another principal", "policy-denied", granted, set("principal", "agent:other")},
		{"a grant for another tool", "policy-denied", granted, set("tool", "other")},
		{"a grant for another upstream", "policy-denied", granted, set("upstream", "other")},
		{"a grant for another source version", "policy-denied", granted, set("sourceVersion", "other")},
		{"a grant for another definition", "policy-denied", granted, set("definitionDigest", otherDigest())},
		{"a grant by the actor", "self-approval", granted, set("approver", "agent:planner")},
		{"a grant younger than the approval", "not-yet-valid", granted, set("issuedAt", laterBy(time.Millisecond))},
		{"a grant that ends before the approval", "approval-expired", granted, set("expiresAt", stamp(expires().Add(-time.Millisecond)))},
		{"a grant of more than seven days", "invalid-input", granted, set("expiresAt", stamp(now().AddDate(0, 0, 8)))},
		{"a grant without uses", "invalid-input", granted, set("maxUses", 0)},
		{"a grant in the name of another", "signature-invalid", granted, set("approver", "mallory@example.test")},
		{"a grant signed by policy", "signature-invalid", granted, func(f *forged) { f.signers["standingGrant"] = []*counterfoil.PrivateKey{policyKey(f.t)} }},
		{"a grant that the gateway could have signed", "signature-invalid", granted, func(f *forged) { f.key("approver", func(k doc) { k["custody"] = "gateway" }) }},
		{"a grant by a key that was compromised", "revoked", granted, func(f *forged) {
			f.key("approver", func(k doc) { k["revoked"] = doc{"at": stamp(now()), "why": "compromised"} })
		}},
		{"a grant that is missing", "integrity-failed", granted, func(f *forged) { f.after = func(d doc) { delete(d, "standingGrant") } }},
		{"another grant than the one named", "integrity-failed", granted, func(f *forged) { asDoc(f.a["authority"])["digest"] = otherDigest() }},
		{"a grant beside a person's approval", "integrity-failed", nil, func(f *forged) {
			f.after = func(d doc) { d["standingGrant"] = decode(mustGrant(f.t, nil).Envelope()) }
		}},
	}
}

// Under rules of a policy that the approved one did not have, the dry run can't be built again.
func forgedRules() []forgery {
	set := func(member string, v any) func(*forged) {
		return func(f *forged) { f.after = func(d doc) { asDoc(d["policy"])[member] = v } }
	}
	grant := func(change func(doc)) list {
		g := doc{"tools": list{"query"}, "effects": list{"read"}, "sources": list{"incidents"}, "maxRows": 100, "maxBytes": 50_000}
		change(g)
		return list{g}
	}
	cites := func(uri string, change func(policy doc)) func(*forged) {
		return func(f *forged) {
			f.after = func(d doc) {
				asDoc(inside(d, "dryRun", "plan", "steps", 0, "source", "provenance"))["citations"] = list{doc{"uri": uri}}
				p := asDoc(inside(d, "policy", "sources", "incidents"))
				p["citationOrigins"], p["citationResourcePrefixes"] = list{"https://data.example.test"}, list{"/incidents"}
				if change != nil {
					change(p)
				}
			}
		}
	}
	return []forgery{
		{"grants without one", "invalid-input", nil, set("grants", list{})},
		{"a grant of another tool", "policy-denied", nil, set("grants", grant(func(g doc) { g["tools"] = list{"other"} }))},
		{"a grant of another effect", "policy-denied", nil, set("grants", grant(func(g doc) { g["effects"] = list{"render"} }))},
		{"a grant of another source", "policy-denied", nil, set("grants", grant(func(g doc) { g["sources"] = list{"other"} }))},
		{"a grant of fewer rows", "policy-denied", nil, set("grants", grant(func(g doc) { g["maxRows"] = 99 }))},
		{"a grant that was not approved", "integrity-failed", nil, set("grants", grant(func(doc) {}))},
		{"no step of an effect", "policy-denied", nil, set("maxStepsByEffect", doc{"read": 0})},
		{"steps of an unknown effect", "invalid-input", nil, set("maxStepsByEffect", doc{"think": 1})},
		{"an order that is none", "invalid-input", nil, set("stepOrder", "reverse")},
		{"a citation after the dry run", "integrity-failed", nil, cites("https://data.example.test/incidents/7", nil)},
		{"a citation of another origin", "policy-denied", nil, cites("https://evil.example.test/incidents", nil)},
		{"a citation of another path", "policy-denied", nil, cites("https://data.example.test/incidentsx", nil)},
		{"a citation that leaves its path", "invalid-input", nil, cites("https://data.example.test/incidents/%252e%252e/private", nil)},
		{"a citation with a query", "invalid-input", nil, cites("https://data.example.test/incidents?token=1", nil)},
		{"a citation with a user", "invalid-input", nil, cites("https://a@data.example.test/incidents", nil)},
		{"a citation in another spelling", "invalid-input", nil, cites("https://DATA.example.test/incidents", nil)},
		{"a citation encoded without need", "invalid-input", nil, cites("https://data.example.test/%69ncidents", nil)},
		{"origins without prefixes", "invalid-input", nil, cites("https://data.example.test/incidents", func(p doc) { delete(p, "citationResourcePrefixes") })},
		{"more citations than the policy allows", "policy-denied", nil, func(f *forged) {
			cites("https://data.example.test/incidents", nil)(f)
			one := f.after
			f.after = func(d doc) {
				one(d)
				p := asDoc(inside(d, "dryRun", "plan", "steps", 0, "source", "provenance"))
				p["citations"] = append(asList(p["citations"]), asList(p["citations"])...)
				asDoc(d["policy"])["maxCitationsPerSource"] = 1
			}
		}},
	}
}
