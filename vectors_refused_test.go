package counterfoil_test

import (
	"bytes"
	"crypto/elliptic"
	"encoding/base64"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
)

func forgeries() []forgery {
	return slices.Concat(
		forgedForms(), forgedEnvelopes(), forgedPlans(), forgedApprovals(), forgedAuthorities(), forgedUses(), forgedReceipts(),
		forgedKeys(), forgedPasskeys(), forgedQuorums(), forgedGrants(), forgedRules(), forgedLogs(), forgedHistories(),
	)
}

func otherDigest() string { return digestOf("plan", "another") }

func laterBy(d time.Duration) string { return stamp(now().Add(d)) }

// patientLab is the lab whose sources may be of any age.
func patientLab(t testing.TB) *lab {
	p := policy()
	delete(asDoc(inside(p, "sources", "incidents")), "maxProvenanceAgeMs")
	return newLabOf(t, plan(), p, operation())
}

func forgedForms() []forgery {
	swap := func(from, to string) func(*forged) {
		return func(f *forged) {
			f.raw = func(b []byte) []byte { return bytes.Replace(b, []byte(from), []byte(to), 1) }
		}
	}
	after := func(change func(d doc)) func(*forged) { return func(f *forged) { f.after = change } }
	return []forgery{
		{"a space before the bundle", "invalid-input", nil, func(f *forged) { f.raw = func(b []byte) []byte { return append([]byte(" "), b...) } }},
		{"a line after the bundle", "invalid-input", nil, func(f *forged) { f.raw = func(b []byte) []byte { return append(b, '\n') } }},
		{"a byte order mark", "invalid-input", nil, func(f *forged) { f.raw = func(b []byte) []byte { return append([]byte("\ufeff"), b...) } }},
		{"a bundle cut off", "invalid-input", nil, func(f *forged) { f.raw = func(b []byte) []byte { return b[:len(b)-1] } }},
		{"members in another order", "invalid-input", nil, func(f *forged) {
			f.raw = func(b []byte) []byte {
				return append([]byte(`{"version":"1.0",`), append(bytes.TrimSuffix(b[1:], []byte(`,"version":"1.0"}`)), '}')...)
			}
		}},
		{"a number with a fraction of zero", "invalid-input", nil, swap(`"maxSteps":1`, `"maxSteps":1.0`)},
		{"a number with an exponent", "invalid-input", nil, swap(`"maxSteps":1`, `"maxSteps":1e0`)},
		{"minus zero", "invalid-input", nil, swap(`"maxSteps":1`, `"maxSteps":-0`)},
		{"a number that no double holds", "invalid-input", nil, swap(`"maxSteps":1`, `"maxSteps":9007199254740993`)},
		{"an escape that is not needed", "invalid-input", nil, swap(`"kind":"counterfoil.bundle"`, `"kind":"counterfoil\u002ebundle"`)},
		{"a member twice", "invalid-input", nil, swap(`"maxSteps":1`, `"maxSteps":1,"maxSteps":1`)},
		{"a lone surrogate", "invalid-input", nil, swap(`"actor":"agent:planner"`, `"actor":"\ud800"`)},
		{"bytes that are no UTF-8", "invalid-input", nil, swap(`"actor":"agent:planner"`, "\"actor\":\"\xc0\x80\"")},
		{"another version", "invalid-input", nil, after(func(d doc) { d["version"] = "1.1" })},
		{"another kind", "invalid-input", nil, after(func(d doc) { d["kind"] = "counterfoil.plan" })},
		{"an unknown member", "invalid-input", nil, after(func(d doc) { d["keys"] = list{} })},
		{"a member in another case", "invalid-input", nil, after(func(d doc) { d["Version"] = "1.0"; delete(d, "version") })},
		{"no receipt", "invalid-input", nil, after(func(d doc) { delete(d, "receipt") })},
		{"null for an operation", "invalid-input", nil, after(func(d doc) { d["operation"] = nil })},
		{"an unknown member of a step", "invalid-input", nil, after(func(d doc) { asDoc(inside(d, "dryRun", "plan", "steps", 0))["system"] = "obey" })},
		{"fields not sorted", "invalid-input", nil, after(func(d doc) { asDoc(inside(d, "policy", "sources", "incidents"))["fields"] = list{"status", "OBJECTID"} })},
		{"fields twice", "invalid-input", nil, after(func(d doc) { asDoc(inside(d, "policy", "sources", "incidents"))["fields"] = list{"status", "status"} })},
		{"an invisible character in a name", "invalid-input", nil, after(func(d doc) { asDoc(inside(d, "dryRun", "plan"))["actor"] = "agent\u202e:planner" })},
		{"a name that is not in form C", "invalid-input", nil, after(func(d doc) { asDoc(inside(d, "dryRun", "plan"))["actor"] = "ange\u0301" })},
		{"a private character in a name", "invalid-input", nil, after(func(d doc) { asDoc(inside(d, "dryRun", "plan"))["actor"] = "agent\ue000:planner" })},
		{"a character in a name that is none yet", "invalid-input", nil, after(func(d doc) { asDoc(inside(d, "dryRun", "plan"))["actor"] = "agent\u0378:planner" })},
		{"a citation of a host that is not ASCII", "invalid-input", nil, after(func(d doc) {
			asDoc(inside(d, "dryRun", "plan", "steps", 0, "source", "provenance"))["citations"] = list{doc{"uri": "https://b\u00fccher.example/"}}
		})},
		{"a citation that hides a character", "invalid-input", nil, after(func(d doc) {
			asDoc(inside(d, "dryRun", "plan", "steps", 0, "source", "provenance"))["citations"] = list{doc{"uri": "https://data.example.test/%EF%B8%8F"}}
		})},
		{"a name with a space at its end", "invalid-input", nil, after(func(d doc) { asDoc(inside(d, "dryRun", "plan"))["actor"] = "agent\u00a0" })},
		{"a policy nested too deep", "invalid-input", nil, after(func(d doc) {
			deep := any("x")
			for range 70 {
				deep = list{deep}
			}
			asDoc(d["operation"])["parameters"] = deep
		})},
	}
}

func forgedEnvelopes() []forgery {
	after := func(change func(d doc)) func(*forged) { return func(f *forged) { f.after = change } }
	respell := func(change func(s string) string) func(*forged) {
		return after(func(d doc) { s := signatureIn(d, "receipt"); s["sig"] = change(asString(s["sig"])) })
	}
	return []forgery{
		{"base64 without padding", "invalid-input", nil, respell(func(s string) string { return strings.TrimRight(s, "=") })},
		{"base64 with stray bits", "invalid-input", nil, respell(func(s string) string { return s[:len(s)-3] + string(s[len(s)-3]+1) + "==" })},
		{"base64 with a line break", "invalid-input", nil, respell(func(s string) string { return s[:4] + "\n" + s[4:] })},
		{"base64url in place of base64", "invalid-input", nil, respell(func(s string) string { return "-_" + s[2:] })},
		{"an empty signature", "invalid-input", nil, respell(func(string) string { return "" })},
		{"a signature too short", "signature-invalid", nil, respell(func(string) string { return "AAAA" })},
		{"a signature of zeros", "signature-invalid", nil, respell(func(string) string { return base64.StdEncoding.EncodeToString(make([]byte, 64)) })},
		{"no signature", "invalid-input", nil, after(func(d doc) { asDoc(d["receipt"])["signatures"] = list{} })},
		{"a second signature on a receipt", "signature-invalid", nil, after(func(d doc) {
			s := signatureIn(d, "receipt")
			asDoc(d["receipt"])["signatures"] = list{s, doc{"keyid": "~", "sig": s["sig"]}}
		})},
		{"a second signature on a use", "signature-invalid", nil, after(func(d doc) {
			s := signatureIn(d, "consumption")
			asDoc(d["consumption"])["signatures"] = list{s, doc{"keyid": "~", "sig": s["sig"]}}
		})},
		{"one key twice", "invalid-input", nil, after(func(d doc) {
			s := signatureIn(d, "approval")
			asDoc(d["approval"])["signatures"] = list{s, s}
		})},
		{"signatures out of order", "invalid-input", nil, after(func(d doc) {
			s := signatureIn(d, "approval")
			asDoc(d["approval"])["signatures"] = list{doc{"keyid": "~", "sig": s["sig"]}, s}
		})},
		{"a signature that names its algorithm", "invalid-input", nil, after(func(d doc) { signatureIn(d, "receipt")["alg"] = "none" })},
		{"half of a passkey's signature", "invalid-input", nil, after(func(d doc) { signatureIn(d, "approval")["authenticatorData"] = "AAAA" })},
		{"an envelope of another type", "invalid-input", nil, after(func(d doc) { d["receipt"] = d["consumption"] })},
		{"the type changed after signing", "invalid-input", nil, after(func(d doc) {
			asDoc(d["receipt"])["payloadType"] = "application/vnd.counterfoil.approval.v1+json"
		})},
		{"a payload with white space", "invalid-input", nil, after(func(d doc) {
			raw, _ := base64.StdEncoding.DecodeString(asString(inside(d, "receipt", "payload")))
			setPayload(d, "receipt", append(raw, ' '))
		})},
		{"a payload with its members in another order", "invalid-input", nil, after(func(d doc) {
			raw, _ := base64.StdEncoding.DecodeString(asString(inside(d, "receipt", "payload")))
			setPayload(d, "receipt", append([]byte(`{"version":"1.0",`), append(bytes.TrimSuffix(raw[1:], []byte(`,"version":"1.0"}`)), '}')...))
		})},
		{"a payload that is no object", "invalid-input", nil, after(func(d doc) { setPayload(d, "approval", []byte("[]")) })},
		{"a payload changed after signing", "integrity-failed", nil, after(func(d doc) {
			raw, _ := base64.StdEncoding.DecodeString(asString(inside(d, "approval", "payload")))
			setPayload(d, "approval", bytes.Replace(raw, []byte("approval-1"), []byte("approval-2"), 1))
		})},
		{"a receipt changed after signing", "signature-invalid", nil, after(func(d doc) {
			raw, _ := base64.StdEncoding.DecodeString(asString(inside(d, "receipt", "payload")))
			raw[bytes.Index(raw, []byte(`"resultDigest":"sha256:`))+len(`"resultDigest":"sha256:`)] ^= 1 // a digit, or one of a to f
			setPayload(d, "receipt", raw)
		})},
	}
}

func forgedPlans() []forgery {
	after := func(change func(d doc)) func(*forged) { return func(f *forged) { f.after = change } }
	digests := func(member string) func(*forged) {
		return after(func(d doc) { asDoc(d["dryRun"])[member] = otherDigest() })
	}
	return []forgery{
		{"a dry run of another plan digest", "integrity-failed", nil, digests("planDigest")},
		{"a dry run of another policy digest", "integrity-failed", nil, digests("policyDigest")},
		{"a dry run of other bindings", "integrity-failed", nil, digests("bindingsDigest")},
		{"a dry run of another budget", "integrity-failed", nil, after(func(d doc) { asDoc(inside(d, "dryRun", "effectBudget"))["rows"] = 99 })},
		{"a dry run of other effects", "integrity-failed", nil, after(func(d doc) {
			e := asDoc(inside(d, "dryRun", "effectBudget", "byEffect"))
			e["read"], e["render"] = 0, 1
		})},
		{"a dry run when the source was too old", "policy-denied", nil, after(func(d doc) { asDoc(d["dryRun"])["evaluatedAt"] = laterBy(time.Hour) })},
		{"a dry run before the source was seen", "policy-denied", nil, after(func(d doc) { asDoc(d["dryRun"])["evaluatedAt"] = laterBy(-time.Hour) })},
		{"a time that is no day", "invalid-input", nil, after(func(d doc) { asDoc(d["dryRun"])["evaluatedAt"] = "2026-02-30T00:00:00.000Z" })},
		{"a time without milliseconds", "invalid-input", nil, after(func(d doc) { asDoc(d["dryRun"])["evaluatedAt"] = "2026-07-10T20:00:00Z" })},
		{"a time of another zone", "invalid-input", nil, after(func(d doc) { asDoc(d["dryRun"])["evaluatedAt"] = "2026-07-10T20:00:00.000+00:00" })},
		{"a leap second", "invalid-input", nil, after(func(d doc) { asDoc(d["dryRun"])["evaluatedAt"] = "2026-06-30T23:59:60.000Z" })},
		{"the first instant of all", "invalid-input", nil, after(func(d doc) { asDoc(d["dryRun"])["evaluatedAt"] = "0001-01-01T00:00:00.000Z" })},
		{"another actor after the dry run", "integrity-failed", nil, after(func(d doc) { asDoc(inside(d, "dryRun", "plan"))["actor"] = "agent:other" })},
		{"a tool that the policy does not allow", "policy-denied", nil, after(func(d doc) { asDoc(d["policy"])["allowedTools"] = list{"other"} })},
		{"an effect that the policy does not allow", "policy-denied", nil, after(func(d doc) { asDoc(d["policy"])["allowedEffects"] = list{"mutation"} })},
		{"a policy that is looser than the one approved", "integrity-failed", nil, after(func(d doc) { asDoc(d["policy"])["maxRows"] = 101 })},
		{"a policy without steps", "invalid-input", nil, after(func(d doc) { asDoc(d["policy"])["maxSteps"] = 0 })},
		{"an input digest of something else", "invalid-input", nil, after(func(d doc) { asDoc(inside(d, "dryRun", "plan", "steps", 0))["inputDigest"] = otherDigest() })},
		{"a digest in upper case", "invalid-input", nil, after(func(d doc) {
			s := asDoc(inside(d, "dryRun", "plan", "steps", 0))
			s["inputDigest"] = strings.ToUpper(asString(s["inputDigest"]))
		})},
		{"a digest of zeros", "invalid-input", nil, after(func(d doc) {
			s := asDoc(inside(d, "dryRun", "plan", "steps", 0))
			s["parametersDigest"] = "sha256:" + strings.Repeat("0", 64)
			refreshStep(s)
		})},
		{"an operation with other arguments", "integrity-failed", nil, after(func(d doc) { asDoc(inside(d, "operation", "parameters"))["where"] = "1=1" })},
		{"an operation with other arguments and their fingerprint", "integrity-failed", nil, after(func(d doc) {
			op := asDoc(d["operation"])
			asDoc(op["parameters"])["where"] = "1=1"
			refreshOperation(op)
		})},
		{"an operation of another tool", "integrity-failed", nil, after(func(d doc) { asDoc(d["operation"])["tool"] = "other"; refreshOperation(asDoc(d["operation"])) })},
		{"an operation of another effect", "integrity-failed", nil, after(func(d doc) { asDoc(d["operation"])["effect"] = "mutation" })},
		{"an operation of other fields", "integrity-failed", nil, after(func(d doc) { asDoc(d["operation"])["fields"] = list{"status"} })},
		{"an operation of another source", "integrity-failed", nil, after(func(d doc) { asDoc(d["operation"])["sourceId"] = "other" })},
		{"an operation over the policy's depth", "invalid-input", nil, after(func(d doc) {
			deep := any("x")
			for range 9 {
				deep = list{deep}
			}
			asDoc(d["operation"])["parameters"] = deep
			refreshOperation(asDoc(d["operation"]))
		})},
	}
}

func forgedApprovals() []forgery {
	set := func(member string, v any) func(*forged) { return func(f *forged) { f.a[member] = v } }
	return []forgery{
		{"an approval of another plan", "integrity-failed", nil, set("planDigest", otherDigest())},
		{"an approval of another policy", "integrity-failed", nil, set("policyDigest", otherDigest())},
		{"an approval of other sources", "integrity-failed", nil, set("bindingsDigest", otherDigest())},
		{"an approval of another evaluation", "integrity-failed", nil, set("evaluatedAt", laterBy(-time.Second))},
		{"an approval of another tenant", "integrity-failed", nil, func(f *forged) { f.a["tenant"], f.c["tenant"], f.r["tenant"] = "other", "other", "other" }},
		{"an approval of another audience", "integrity-failed", nil, func(f *forged) { f.a["audience"], f.c["audience"], f.r["audience"] = "other", "other", "other" }},
		{"an approval that is wider in rows", "policy-denied", nil, func(f *forged) { asDoc(inside(f.a, "steps", 0))["rows"], f.a["approvedRows"] = 101, 101 }},
		{"an approval that is wider in bytes", "policy-denied", nil, func(f *forged) { asDoc(inside(f.a, "steps", 0))["bytes"], f.a["approvedBytes"] = 50_001, 50_001 }},
		{"an approval with another total of rows", "integrity-failed", nil, set("approvedRows", 81)},
		{"an approval with another total of bytes", "integrity-failed", nil, set("approvedBytes", 1)},
		{"an approval of another step", "integrity-failed", nil, func(f *forged) { asDoc(inside(f.a, "steps", 0))["id"] = "other" }},
		{"an approval of another input", "integrity-failed", nil, func(f *forged) { asDoc(inside(f.a, "steps", 0))["inputDigest"] = otherDigest() }},
		{"an approval with a step more", "integrity-failed", nil, func(f *forged) { f.a["steps"] = list{inside(f.a, "steps", 0), inside(f.a, "steps", 0)} }},
		{"an approval without steps", "integrity-failed", nil, set("steps", list{})},
		{"an approval older than its dry run", "invalid-input", nil, set("issuedAt", laterBy(-time.Second))},
		{"an approval that ends as it begins", "invalid-input", nil, set("expiresAt", stamp(now()))},
		{"an approval that begins before it is issued", "invalid-input", nil, set("notBefore", laterBy(-time.Second))},
		{"an approval that begins when it ends", "invalid-input", nil, set("notBefore", stamp(expires()))},
		{"an approval whose beginning says nothing", "invalid-input", nil, set("notBefore", stamp(now()))},
		{"an approval that lives too long", "policy-denied", nil, set("expiresAt", stamp(now().AddDate(0, 0, 2)))},
		{"an approval for two uses", "invalid-input", nil, set("use", "double")},
		{"an approval with its own key", "invalid-input", nil, set("key", "mine")},
		{"an empty reason", "invalid-input", nil, set("reason", "")},
		{"a reason with a control character", "invalid-input", nil, set("reason", "a\x1bb")},
		{"rows that are no count", "invalid-input", nil, set("approvedRows", 79.5)},
		{"rows below zero", "invalid-input", nil, set("approvedRows", -1)},
		{"an approver twice", "invalid-input", nil, set("approvers", list{reviewer, reviewer})},
		{"no approver", "invalid-input", nil, set("approvers", list{})},
		{"an approval by the actor", "self-approval", nil, set("approvers", list{"agent:planner"})},
		{"an approval in the name of another", "signature-invalid", nil, set("approvers", list{"mallory@example.test"})},
		{"an approval by two of whom one has signed", "quorum-missing", nil, set("approvers", list{"mallory@example.test", reviewer})},
	}
}

// destructiveLab is the lab of a call that can't be undone.
func destructiveLab(t testing.TB) *lab {
	op := operation()
	op["effect"] = "destructive"
	p := policy()
	p["allowedEffects"] = list{"destructive"}
	return newLabOf(t, onePlanOf(step(op)), p, op)
}

func forgedAuthorities() []forgery {
	byPolicy := func(f *forged) {
		f.a["authority"], f.a["approvers"] = doc{"kind": "policy", "digest": policy()["rulesDigest"]}, list{"gateway"}
		f.signers["approval"] = []*counterfoil.PrivateKey{policyKey(f.t)}
	}
	return []forgery{
		{"a person who approved another dry run", "integrity-failed", nil, func(f *forged) { asDoc(f.a["authority"])["digest"] = otherDigest() }},
		{"an authority that is not known", "invalid-input", nil, func(f *forged) { asDoc(f.a["authority"])["kind"] = "model" }},
		{"other rules than the policy's", "integrity-failed", nil, func(f *forged) { byPolicy(f); asDoc(f.a["authority"])["digest"] = otherDigest() }},
		{"rules for a policy that names none", "integrity-failed", func(t testing.TB) *lab {
			p := policy()
			delete(p, "rulesDigest")
			return newLabOf(t, plan(), p, operation())
		}, byPolicy},
		{"a destructive effect under policy", "policy-denied", destructiveLab, byPolicy},
		{"a person's key under policy", "signature-invalid", nil, func(f *forged) {
			byPolicy(f)
			f.a["approvers"], f.signers["approval"] = list{reviewer}, []*counterfoil.PrivateKey{approverKey(f.t)}
		}},
		{"the policy key in a person's place", "signature-invalid", nil, func(f *forged) {
			f.a["approvers"], f.signers["approval"] = list{"gateway"}, []*counterfoil.PrivateKey{policyKey(f.t)}
		}},
		{"a grant that is not there", "integrity-failed", nil, func(f *forged) {
			byPolicy(f)
			f.a["authority"] = doc{"kind": "grant", "digest": otherDigest()}
		}},
	}
}

func forgedUses() []forgery {
	set := func(member string, v any) func(*forged) { return func(f *forged) { f.c[member] = v } }
	usedAt := func(when string, late bool) func(*forged) {
		return func(f *forged) {
			f.c["consumedAt"], f.r["completedAt"], f.r["issuedAt"] = when, when, when
			if late {
				f.r["late"] = true
			}
		}
	}
	return []forgery{
		{"a use of another tenant", "integrity-failed", nil, set("tenant", "other")},
		{"a use of another audience", "integrity-failed", nil, set("audience", "other")},
		{"a use of another approval", "integrity-failed", nil, set("approvalDigest", otherDigest())},
		{"a use of another input", "integrity-failed", nil, set("inputDigest", otherDigest())},
		{"a use of another step", "integrity-failed", nil, func(f *forged) { f.c["stepId"], f.r["stepId"] = "other", "other" }},
		{"a nonce in upper case", "invalid-input", nil, set("nonce", strings.Repeat("AB", 16))},
		{"a nonce too short", "invalid-input", nil, set("nonce", "ab")},
		{"a use before the approval", "not-yet-valid", nil, usedAt(laterBy(-time.Millisecond), false)},
		{"a use before the approval's own beginning", "not-yet-valid", nil, func(f *forged) { f.a["notBefore"] = laterBy(time.Millisecond) }},
		{"a use at the approval's end", "approval-expired", patientLab, usedAt(stamp(expires()), true)},
		{"a use when the source had become too old", "policy-denied", nil, usedAt(stamp(at(20, 0, 30, 1)), false)},
		{"a use signed with the key of receipts", "signature-invalid", nil, func(f *forged) { f.signers["consumption"] = []*counterfoil.PrivateKey{receiptKey(f.t)} }},
	}
}

func forgedReceipts() []forgery {
	set := func(pairs ...any) func(*forged) {
		return func(f *forged) {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i+1] == nil {
					delete(f.r, asString(pairs[i]))
					continue
				}
				f.r[asString(pairs[i])] = pairs[i+1]
			}
		}
	}
	nothing := []any{"outcome", "cancelled", "rows", 0, "bytes", 0, "observedRows", 0, "observedBytes", 0, "resultDigest", nil}
	return []forgery{
		{"a receipt of another tenant", "integrity-failed", nil, set("tenant", "other")},
		{"a receipt of another audience", "integrity-failed", nil, set("audience", "other")},
		{"a receipt of another execution", "integrity-failed", nil, set("id", "other")},
		{"a receipt of another plan", "integrity-failed", nil, set("planDigest", otherDigest())},
		{"a receipt of another policy", "integrity-failed", nil, set("policyDigest", otherDigest())},
		{"a receipt of other sources", "integrity-failed", nil, set("bindingsDigest", otherDigest())},
		{"a receipt of another approval", "integrity-failed", nil, set("approvalDigest", otherDigest())},
		{"a receipt of another input", "integrity-failed", nil, set("inputDigest", otherDigest())},
		{"a receipt of another step", "integrity-failed", nil, set("stepId", "other")},
		{"a receipt of another use", "integrity-failed", nil, set("useDigest", otherDigest())},
		{"a receipt of too many rows", "policy-denied", nil, set("rows", 81, "observedRows", 81)},
		{"a receipt of too many bytes", "policy-denied", nil, set("bytes", 50_001, "observedBytes", 50_001)},
		{"a completion before the use", "integrity-failed", nil, set("completedAt", laterBy(-time.Millisecond))},
		{"a receipt issued before the completion", "integrity-failed", nil, set("completedAt", laterBy(time.Millisecond))},
		{"late without being it", "integrity-failed", nil, set("late", true)},
		{"late without saying it", "integrity-failed", nil, set("completedAt", stamp(expires()), "issuedAt", stamp(expires()))},
		{"late that is false", "invalid-input", nil, set("late", false)},
		{"a success without a result", "integrity-failed", nil, set("resultDigest", nil)},
		{"a success of fewer rows than were seen", "integrity-failed", nil, set("rows", 0)},
		{"a success of fewer bytes than were seen", "integrity-failed", nil, set("bytes", 0)},
		{"a failure that accepts rows", "integrity-failed", nil, set("outcome", "failed", "bytes", 0)},
		{"a failure that accepts bytes", "integrity-failed", nil, set("outcome", "failed", "rows", 0)},
		{"cancelled with rows seen", "integrity-failed", nil, set(append(slices.Clone(nothing), "observedRows", 1)...)},
		{"cancelled with bytes seen", "integrity-failed", nil, set(append(slices.Clone(nothing), "observedBytes", 1)...)},
		{"cancelled with a result", "integrity-failed", nil, set(append(slices.Clone(nothing), "resultDigest", otherDigest())...)},
		{"uncounted with a count", "integrity-failed", nil, set("uncounted", true)},
		{"a success by recovery", "integrity-failed", nil, set("recovered", true)},
		{"a failure by recovery", "integrity-failed", nil, set("outcome", "failed", "recovered", true, "rows", 0, "bytes", 0)},
		{"a receipt of the plan's other step", "integrity-failed", stepsLab, func(f *forged) {
			f.r["stepId"], f.r["inputDigest"] = "first", inside(f.a, "steps", 0, "inputDigest")
		}},
		{"an outcome that is not known", "invalid-input", nil, set("outcome", "done")},
		{"a receipt from the future", "clock", nil, func(f *forged) { f.now = now().Add(-time.Millisecond) }},
		{"a receipt signed by the ledger", "signature-invalid", nil, func(f *forged) { f.signers["receipt"] = []*counterfoil.PrivateKey{ledgerKey(f.t)} }},
		{"a receipt signed under another domain", "signature-invalid", nil, func(f *forged) {
			f.after = func(d doc) {
				// The approval's own signature, by a key of the right role, on a document of another type.
				signatureIn(d, "receipt")["sig"] = signatureIn(d, "consumption")["sig"]
			}
		}},
	}
}

func forgedKeys() []forgery {
	var out []forgery
	for _, role := range []string{"approver", "ledger", "receipt"} {
		edit := func(change func(doc)) func(*forged) { return func(f *forged) { f.key(role, change) } }
		out = append(out,
			forgery{role + " key that the ring does not have", "signature-invalid", nil, edit(nil)},
			forgery{role + " key of another role", "signature-invalid", nil, edit(func(k doc) { k["role"] = "policy" })},
			forgery{role + " key that is one of tokens", "signature-invalid", nil, edit(func(k doc) { k["role"] = "token" })},
			forgery{role + " key of another tenant", "signature-invalid", nil, edit(func(k doc) { k["tenants"] = list{"other"} })},
			forgery{role + " key that had ended", "signature-invalid", nil, edit(func(k doc) { k["notAfter"] = stamp(now()) })},
			forgery{role + " key that had not begun", "signature-invalid", nil, edit(func(k doc) { k["notBefore"] = laterBy(time.Millisecond) })},
			forgery{role + " key that was superseded at the act", "revoked", nil, edit(func(k doc) { k["revoked"] = doc{"at": stamp(now()), "why": "superseded"} })},
			forgery{role + " key that was compromised later", "revoked", nil, edit(func(k doc) { k["revoked"] = doc{"at": laterBy(24 * time.Hour), "why": "compromised"} })},
		)
	}
	return append(out,
		forgery{"receipt key of tenants by a pattern", "signature-invalid", nil, func(f *forged) { f.key("receipt", func(k doc) { k["tenants"] = list{"ac*"} }) }},
		forgery{"approver key of another owner", "signature-invalid", nil, func(f *forged) { f.key("approver", func(k doc) { k["owner"] = "mallory" }) }},
		forgery{"P-256 signature in its other half", "signature-invalid", es256Lab, func(f *forged) {
			f.signers = map[string][]*counterfoil.PrivateKey{
				"approval": {es256Key(f.t, "approver", reviewer)}, "consumption": {es256Key(f.t, "ledger", "gateway")},
				"receipt": {es256Key(f.t, "receipt", "gateway")},
			}
			f.after = func(d doc) {
				s := signatureIn(d, "receipt")
				raw, err := base64.StdEncoding.DecodeString(asString(s["sig"]))
				noError(f.t, err)
				new(big.Int).Sub(elliptic.P256().Params().N, new(big.Int).SetBytes(raw[32:])).FillBytes(raw[32:])
				s["sig"] = base64.StdEncoding.EncodeToString(raw)
			}
		}},
		forgery{"Ed25519 signature with its scalar above the order", "signature-invalid", nil, func(f *forged) {
			f.after = func(d doc) {
				s := signatureIn(d, "receipt")
				raw, err := base64.StdEncoding.DecodeString(asString(s["sig"]))
				noError(f.t, err)
				order, _ := new(big.Int).SetString("27742317777372353535851937790883648493", 10)
				order.Add(order, new(big.Int).Lsh(big.NewInt(1), 252))
				slices.Reverse(raw[32:])
				new(big.Int).Add(order, new(big.Int).SetBytes(raw[32:])).FillBytes(raw[32:])
				slices.Reverse(raw[32:])
				s["sig"] = base64.StdEncoding.EncodeToString(raw)
			}
		}},
	)
}
