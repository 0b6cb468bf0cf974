"""The documents of sections 2, 5 and 6 of docs/spec.md, read from JSON values. Every fault of form is invalid-input."""

import base64
import binascii
import re
import unicodedata
from datetime import datetime
from types import SimpleNamespace as Record

import canon
import citations
from canon import Number, Refused, canonical, digest, invalid

MOST = 2**53 - 1
EFFECTS = ["destructive", "job", "mutation", "publish", "read", "realtime", "render", "share"]
OUTCOMES = ["succeeded", "failed", "cancelled", "indeterminate"]
DATA_MODES = ["cached", "offline", "replayed", "live"]

# Values (section 2).

def members(v, *names):
    """The members of an object that has exactly these; a name that ends in ? may be absent."""
    if not isinstance(v, dict):
        invalid("this must be an object")
    known = {n.rstrip("?") for n in names}
    for k in v:
        if k not in known:
            invalid("the member " + k + " is not known")
    for n in names:
        if not n.endswith("?") and n not in v:
            invalid("the member " + n + " is missing")
    return v


def string(v):
    if not isinstance(v, str):
        invalid("this must be a string")
    return v


def text(v):
    if not 1 <= len(string(v).encode()) <= 65_536 or re.search(r"[\x00-\x1f\x7f]", v):
        invalid("this is no text")
    return v


def name(v):
    if not 1 <= len(string(v).encode()) <= 512 or unicodedata.normalize("NFC", v) != v or v.strip() != v:
        invalid("this is no name")
    if not canon.visible(v):
        invalid("this name has an invisible character")
    return v


def time(v):
    """Milliseconds since the beginning of the year 1."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", string(v)):
        invalid("this is no time")
    try:
        t = datetime.strptime(v[:19], "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        invalid("this is no time")
    ms = (t.toordinal() - 1) * 86_400_000 + ((t.hour * 60 + t.minute) * 60 + t.second) * 1000 + int(v[20:23])
    if ms == 0 or v[17:19] > "59":
        invalid("this is no time")
    return ms


def count(v, least=0, most=MOST):
    n = v.whole() if isinstance(v, Number) else None
    if n is None or not least <= n <= most:
        invalid("this is no whole number in its range")
    return n


def digest_text(v):
    if not re.fullmatch("sha256:[0-9a-f]{64}", string(v)) or v == "sha256:" + "0" * 64:
        invalid("this is no digest")
    return v


def elements(v, least, most):
    if not isinstance(v, list) or not least <= len(v) <= most:
        invalid("this must be an array of another size")
    return v


def names(v, least, most, signed, known=None):
    """Distinct names. In signed documents they must be sorted; elsewhere this sorts them, in the document."""
    for e in elements(v, least, most):
        if known is not None and e not in known:
            invalid("this word is not known")
        name(e)
    if len(set(v)) != len(v):
        invalid("an entry stands twice")
    in_order = sorted(v, key=canon.units)
    if signed and in_order != v:
        invalid("this array is not sorted")
    v[:] = in_order
    return v


def word(v, *known):
    if string(v) not in known:
        invalid("this word is not known")
    return v


def boolean(v):
    if not isinstance(v, bool):
        invalid("this must be true or false")
    return v


def truth(m, member):
    """A member that is absent or true."""
    if member in m and m[member] is not True:
        invalid("this member is left out when it is false")
    return member in m


def header(m, kind):
    word(m["kind"], "counterfoil." + kind)
    word(m["version"], "1.0")


def base64_bytes(v):
    try:
        b = base64.b64decode(string(v), validate=True)
    except (binascii.Error, ValueError):
        invalid("this is not base64")
    if not b or base64.b64encode(b).decode() != v:
        invalid("this is not base64 in its one spelling")
    return b


def base64url_32(v):
    text(v)
    try:
        b = base64.urlsafe_b64decode(v + "==")
    except (binascii.Error, ValueError):
        invalid("this is not base64url")
    if len(b) != 32 or base64.urlsafe_b64encode(b).decode().rstrip("=") != v:
        invalid("this is not 32 bytes of base64url")
    return b


def effect_class(effect):
    return {"read": "read", "render": "read", "destructive": "destructive"}.get(effect, "write")


# Documents that are not signed (sections 6.1 to 6.5).

def query_plan(v):
    m = members(v, "fingerprint", "id")
    return {"fingerprint": digest_text(m["fingerprint"]), "id": name(m["id"])}


def source(v, signed, respell=False):
    m = members(v, "authorizationScope", "id", "provenance", "schemaVersion", "sourceVersion")
    p = members(m["provenance"], "attribution", "citations", "dataMode", "observedAt")
    text(p["attribution"])
    cited = [citations.read(c, respell) for c in elements(p["citations"], 0, 64)]
    return Record(
        citations=cited,
        id=name(m["id"]), schema=name(m["schemaVersion"]), version=name(m["sourceVersion"]),
        scopes=names(m["authorizationScope"], 1, 128, signed), mode=word(p["dataMode"], *DATA_MODES), observed=time(p["observedAt"]),
        value=v,
    )


def input_digest(tool, effect, source_id, plan, fields, parameters_digest, evidence):
    said = {
        "effect": effect, "fields": fields, "parametersDigest": parameters_digest, "queryPlan": plan, "sourceId": source_id, "tool": tool,
    }
    if evidence is not None:
        said["evidenceDigest"] = evidence
    return digest("input", canonical(said))


def maybe_digest(m, member):
    return digest_text(m[member]) if member in m else None


def step(v, signed, respell):
    m = members(v, "effect", "evidenceDigest?", "fields", "id", "inputDigest", "limits", "parametersDigest", "queryPlan", "source", "tool")
    limits = members(m["limits"], "bytes", "rows")
    s = Record(
        id=name(m["id"]), tool=name(m["tool"]), effect=word(m["effect"], *EFFECTS), source=source(m["source"], signed, respell),
        plan=query_plan(m["queryPlan"]), parameters=digest_text(m["parametersDigest"]), input=digest_text(m["inputDigest"]),
        fields=names(m["fields"], 0, 512, signed), rows=count(limits["rows"]), bytes=count(limits["bytes"]),
        evidence=maybe_digest(m, "evidenceDigest"),
    )
    if s.input != input_digest(s.tool, s.effect, s.source.id, s.plan, s.fields, s.parameters, s.evidence):
        invalid("the input digest is not that of what the step says")
    return s


def plan(v, signed, respell=False):
    m = members(v, "actor", "audience", "id", "kind", "model?", "provider?", "steps", "tenant", "version")
    header(m, "plan")
    for k in ("actor", "audience", "id", "tenant", "model", "provider"):
        if k in m:
            name(m[k])
    p = Record(tenant=m["tenant"], audience=m["audience"], actor=m["actor"], value=v, steps=[step(s, signed, respell) for s in elements(m["steps"], 1, 128)])
    if len({s.id for s in p.steps}) != len(p.steps):
        invalid("two steps have one id")
    sources = {}
    for s in p.steps:
        if canonical(sources.setdefault(s.source.id, s.source.value)) != canonical(s.source.value):
            invalid("one source is described in two ways")
    p.digest = digest("plan", canonical(v))
    p.bindings = digest("bindings", canonical([sources[k] for k in sorted(sources, key=canon.units)]))
    return p


def source_policy(v, signed):
    m = members(
        v, "authorizationScope", "citationOrigins?", "citationResourcePrefixes?", "dataModes?", "fields", "maxProvenanceAgeMs?",
        "schemaVersions?", "sourceVersions?")
    if ("citationOrigins" in m) != ("citationResourcePrefixes" in m):
        invalid("origins and prefixes of citations belong together")
    origins = names(m["citationOrigins"], 1, 64, signed) if "citationOrigins" in m else []
    prefixes = names(m["citationResourcePrefixes"], 1, 64, signed) if "citationOrigins" in m else []
    for o in origins:
        citations.check_origin(o)
    for p in prefixes:
        citations.check_prefix(p)
    return Record(
        origins=origins, prefixes=prefixes,
        scopes=names(m["authorizationScope"], 1, 128, signed), fields=names(m["fields"], 0, 512, signed),
        modes=names(m["dataModes"], 1, 4, signed, DATA_MODES) if "dataModes" in m else None,
        age=count(m["maxProvenanceAgeMs"], 0, 3_162_240_000_000) if "maxProvenanceAgeMs" in m else None,
        schemas=names(m["schemaVersions"], 1, 1024, signed) if "schemaVersions" in m else None,
        versions=names(m["sourceVersions"], 1, 1024, signed) if "sourceVersions" in m else None,
    )


def policy(v, signed):
    m = members(
        v, "allowSelfApproval?", "allowedEffects?", "allowedTools", "grants?", "kind", "maxApprovalLifetimeMs?", "maxAuthorizationScopesPerSource",
        "maxBytes", "maxBytesPerStep?", "maxCitationsPerSource?", "maxClockSkewMs?", "maxFieldsPerStep", "maxOperationParameterBytes", "maxOperationParameterDepth",
        "maxOperationParameterNodes", "maxRows", "maxRowsPerStep?", "maxSteps", "maxStepsByEffect?", "quorum?", "rulesDigest?",
        "sources", "stepOrder?", "version",
    )
    header(m, "policy")
    if not isinstance(m["sources"], dict) or not 1 <= len(m["sources"]) <= 128:
        invalid("a policy has 1 to 128 sources")

    def maybe(member, absent, read):
        return read(m[member]) if member in m else absent

    nodes = count(m["maxOperationParameterNodes"], 1, 1_000_000)
    return Record(
        tools=names(m["allowedTools"], 1, 1024, signed),
        effects=maybe("allowedEffects", ["read"], lambda x: names(x, 1, 8, signed, EFFECTS)),
        sources={name(k): source_policy(x, signed) for k, x in m["sources"].items()},
        max_steps=count(m["maxSteps"], 1, 128), rows=count(m["maxRows"]), bytes=count(m["maxBytes"]),
        step_rows=maybe("maxRowsPerStep", MOST, count), step_bytes=maybe("maxBytesPerStep", MOST, count),
        max_fields=count(m["maxFieldsPerStep"], 0, 512), max_scopes=count(m["maxAuthorizationScopesPerSource"], 1, 128),
        parameters=canon.Limits(
            count(m["maxOperationParameterBytes"], 1, 16_777_216), nodes, count(m["maxOperationParameterDepth"], 1, 64), nodes),
        lifetime=maybe("maxApprovalLifetimeMs", 86_400_000, lambda x: count(x, 1, 604_800_000)),
        skew=maybe("maxClockSkewMs", 0, lambda x: count(x, 0, 300_000)),
        self_approval=maybe("allowSelfApproval", False, boolean),
        citations=maybe("maxCitationsPerSource", 64, lambda x: count(x, 1, 64)), by_effect=maybe("maxStepsByEffect", {}, steps_by_effect),
        grants=maybe("grants", None, lambda x: [grant(g, signed) for g in elements(x, 1, 256)]),
        order=maybe("stepOrder", "any", lambda x: word(x, "any", "declared")),
        rules=maybe("rulesDigest", None, digest_text), quorum=maybe("quorum", None, lambda x: quorum(x, signed)),
        digest=digest("policy", canonical(v)),
    )


def steps_by_effect(v):
    if not isinstance(v, dict) or not v:
        invalid("this must be an object that is not empty")
    return {word(e, *EFFECTS): count(n, 0, 128) for e, n in v.items()}


def grant(v, signed):
    m = members(v, "effects", "maxBytes", "maxRows", "sources", "tools")
    return Record(
        tools=names(m["tools"], 1, 1024, signed), effects=names(m["effects"], 1, 8, signed, EFFECTS),
        sources=names(m["sources"], 1, 128, signed), rows=count(m["maxRows"]), bytes=count(m["maxBytes"]),
    )


def quorum(v, signed):
    m = members(v, "approvers", "n")
    who = names(m["approvers"], 1, 32, signed)
    return Record(approvers=who, n=count(m["n"], 1, len(who)))


def operation(v, p, signed):
    m = members(v, "effect", "evidenceDigest?", "fields", "parameters", "queryPlan", "sourceId", "tool")
    evidence = maybe_digest(m, "evidenceDigest")
    tool, effect, source_id = name(m["tool"]), word(m["effect"], *EFFECTS), name(m["sourceId"])
    asked, fields = query_plan(m["queryPlan"]), names(m["fields"], 0, 512, signed)
    nodes, depth, width = canon.measure(m["parameters"])
    size = len(canonical(m["parameters"]))
    if size > p.parameters.bytes or nodes > p.parameters.nodes or depth > p.parameters.depth or width > p.parameters.width:
        invalid("the parameters exceed the policy's bounds")
    if asked["fingerprint"] != digest("arguments", canonical({"arguments": m["parameters"], "tool": tool})):
        raise Refused("integrity-failed", "the fingerprint is not the operation's")
    parameters = digest("parameters", canonical(m["parameters"]))
    return Record(input=input_digest(tool, effect, source_id, asked, fields, parameters, evidence))


def context(v):
    m = members(v, "sources")
    if not isinstance(m["sources"], dict) or len(m["sources"]) > 128:
        invalid("a context has at most 128 sources")
    for k, s in m["sources"].items():
        if source(s, False, True).id != k:
            invalid("a source is not under its own id")


# Envelopes and what they hold (sections 5 and 6.6 to 6.10).

def envelope(v, kind):
    full = "application/vnd.in-toto+json" if kind == "statement" else "application/vnd.counterfoil." + kind + ".v1+json"
    m = members(v, "payload", "payloadType", "signatures")
    e = Record(type=full, payload=base64_bytes(m["payload"]), signatures=[])
    word(m["payloadType"], e.type)
    for s in elements(m["signatures"], 1, 32):
        members(s, "authenticatorData?", "clientDataJSON?", "keyid", "sig")
        if ("authenticatorData" in s) != ("clientDataJSON" in s):
            invalid("half a passkey's signature")
        made = Record(key=name(s["keyid"]), sig=base64_bytes(s["sig"]), data=None, client=None)
        if "authenticatorData" in s:
            made.data, made.client = base64_bytes(s["authenticatorData"]), base64_bytes(s["clientDataJSON"])
        if e.signatures and canon.units(e.signatures[-1].key) >= canon.units(made.key):
            invalid("the signatures are not in order")
        e.signatures.append(made)
    return e


def signed_payload(e):
    return canon.parse_canonical(e.payload, canon.DOCUMENT)


def approval(e):
    m = members(
        signed_payload(e), "approvedBytes", "approvedRows", "approvers", "audience", "authority", "bindingsDigest", "evaluatedAt",
        "expiresAt", "id", "issuedAt", "kind", "notBefore?", "planDigest", "policyDigest", "reason?", "steps", "tenant", "use", "version",
    )
    header(m, "approval")
    word(m["use"], "single")
    name(m["id"])
    if "reason" in m:
        text(m["reason"])
    authority = members(m["authority"], "digest", "kind")
    issued = time(m["issuedAt"])
    begins = time(m["notBefore"]) if "notBefore" in m else issued
    if "notBefore" in m and begins == issued:
        invalid("notBefore says nothing")
    steps = []
    for s in elements(m["steps"], 0, 128):
        members(s, "bytes", "id", "inputDigest", "rows")
        steps.append(Record(id=name(s["id"]), input=digest_text(s["inputDigest"]), rows=count(s["rows"]), bytes=count(s["bytes"])))
    return Record(
        env=e, digest=digest("approval", e.payload), tenant=name(m["tenant"]), audience=name(m["audience"]), steps=steps,
        approvers=names(m["approvers"], 1, 32, True), kind=word(authority["kind"], "person", "policy", "grant"),
        authority=digest_text(authority["digest"]), plan=digest_text(m["planDigest"]), policy=digest_text(m["policyDigest"]),
        bindings=digest_text(m["bindingsDigest"]), evaluated=time(m["evaluatedAt"]), issued=issued, begins=begins,
        expires=time(m["expiresAt"]), rows=count(m["approvedRows"]), bytes=count(m["approvedBytes"]), grant=None,
    )


def consumption(e):
    m = members(
        signed_payload(e), "approvalDigest", "audience", "consumedAt", "id", "inputDigest", "kind", "nonce", "stepId", "tenant", "version")
    header(m, "consumption")
    if not re.fullmatch("[0-9a-f]{32}", string(m["nonce"])):
        invalid("this is no nonce")
    return Record(
        env=e, digest=digest("use", e.payload), tenant=name(m["tenant"]), audience=name(m["audience"]), id=name(m["id"]),
        approval=digest_text(m["approvalDigest"]), step=name(m["stepId"]), input=digest_text(m["inputDigest"]), at=time(m["consumedAt"]),
    )


def receipt(e):
    m = members(
        signed_payload(e), "approvalDigest", "audience", "bindingsDigest", "bytes", "completedAt", "id", "inputDigest", "issuedAt", "kind",
        "late?", "observedBytes", "observedRows", "outcome", "planDigest", "policyDigest", "recovered?", "resultDigest?", "rows", "stepId",
        "tenant", "uncounted?", "useDigest", "version",
    )
    header(m, "receipt")
    return Record(
        env=e, digest=digest("receipt", e.payload), tenant=name(m["tenant"]), audience=name(m["audience"]), id=name(m["id"]),
        step=name(m["stepId"]), input=digest_text(m["inputDigest"]), approval=digest_text(m["approvalDigest"]),
        use=digest_text(m["useDigest"]), plan=digest_text(m["planDigest"]), policy=digest_text(m["policyDigest"]),
        bindings=digest_text(m["bindingsDigest"]), outcome=word(m["outcome"], *OUTCOMES),
        result=digest_text(m["resultDigest"]) if "resultDigest" in m else None, rows=count(m["rows"]), bytes=count(m["bytes"]),
        seen_rows=count(m["observedRows"]), seen_bytes=count(m["observedBytes"]), completed=time(m["completedAt"]),
        issued=time(m["issuedAt"]), late=truth(m, "late"), recovered=truth(m, "recovered"), uncounted=truth(m, "uncounted"),
    )


def decision(e):
    m = members(signed_payload(e), "approver", "audience", "decidedAt", "kind", "reason?", "subject", "tenant", "verb", "version", "why?")
    header(m, "decision")
    if "reason" in m:
        text(m["reason"])
    why = word(m["why"], "superseded", "compromised") if "why" in m else None
    if (why is not None) != (m["verb"] == "revoke"):
        invalid("a revocation says why, and nothing else does")
    return Record(
        env=e, tenant=name(m["tenant"]), audience=name(m["audience"]), approver=name(m["approver"]), at=time(m["decidedAt"]), why=why,
        verb=word(m["verb"], "deny", "classify", "revoke"), subject=digest_text(m["subject"]),
    )


PHASES = [
    "refused", "requested", "approved", "denied", "lapsed", "classified", "started", "completed", "late-outcome", "revoked", "governed",
]


def event(b):
    m = members(
        canon.parse_canonical(b, canon.EVENT), "actor?", "approvalDigest?", "audience", "bindingsDigest?", "bytes?", "code?", "decisionDigest?",
        "effect?", "executionId", "inputDigest?", "kind", "late?", "observedBytes?", "observedRows?", "outcome?", "phase", "plan?",
        "planDigest?", "policyDigest?", "pseudonymKey", "receiptDigest?", "recovered?", "resultDigest?", "rows?", "sequence", "source?",
        "step?", "tenant", "time", "tool?", "uncounted?", "useDigest?", "version")
    header(m, "event")
    e = Record(
        value=m, digest=digest("event", b), leaf=b, phase=word(m["phase"], *PHASES), tenant=name(m["tenant"]), audience=name(m["audience"]),
        execution=name(m["executionId"]), sequence=count(m["sequence"], 1), time=time(m["time"]),
    )
    name(m["pseudonymKey"])
    for k in m:
        if k.endswith("Digest"):
            digest_text(m[k])
        if k in ("actor", "plan", "source", "step", "tool") and not re.fullmatch("hmac-sha256:[0-9a-f]{64}", string(m[k])):
            invalid("this is no pseudonym")
        if k in ("late", "recovered", "uncounted"):
            truth(m, k)
    if "code" in m and not re.fullmatch("[a-z0-9_/-]{1,128}", string(m["code"])):
        invalid("this is no code")
    if "effect" in m:
        word(m["effect"], *EFFECTS)
    if "outcome" in m:
        word(m["outcome"], *OUTCOMES)
    for k in ("bytes", "observedBytes", "observedRows", "rows"):
        if (k in m) != (e.phase in ("completed", "late-outcome")):
            invalid("an event has counts if it records an outcome, and only then")
        if k in m:
            count(m[k])
    return e


def standing_grant(e):
    m = members(
        signed_payload(e), "approver", "audience", "definitionDigest", "expiresAt", "id", "issuedAt", "kind", "maxUses", "predicate",
        "principal", "reason", "sourceVersion", "tenant", "tool", "upstream", "version",
    )
    header(m, "standing-grant")
    name(m["id"])
    text(m["reason"])
    count(m["maxUses"], 1, 1_000_000)
    g = Record(
        env=e, digest=digest("standing-grant", e.payload), tenant=name(m["tenant"]), audience=name(m["audience"]),
        approver=name(m["approver"]), principal=name(m["principal"]), tool=name(m["tool"]), upstream=name(m["upstream"]),
        version=name(m["sourceVersion"]), definition=digest_text(m["definitionDigest"]), issued=time(m["issuedAt"]),
        expires=time(m["expiresAt"]),
    )
    if not 0 < g.expires - g.issued <= 604_800_000:
        invalid("a standing grant lasts seven days at most")
    return g


def standalone(b, kind, read):
    """An envelope that is a document of its own."""
    return read(envelope(canon.parse_canonical(b, canon.ENVELOPE), kind))


def statement(e):
    """Section 6.14: the digest of the receipt that the statement is about."""
    m = members(signed_payload(e), "_type", "predicate", "predicateType", "subject")
    p = members(m["predicate"], "receipt", "receiptDigest")
    word(m["_type"], "https://in-toto.io/Statement/v1")
    word(m["predicateType"], "https://github.com/counterfoil/counterfoil/receipt/v1")
    digest_text(p["receiptDigest"])
    elements(m["subject"], 0, 2)
    r = receipt(Record(payload=canonical(p["receipt"])))
    subject = [{"name": "input", "digest": {"counterfoilV1": r.input[7:]}}]
    if r.result is not None:
        subject.append({"name": "result", "digest": {"counterfoilV1": r.result[7:]}})
    if canonical(m) != canonical({
            "_type": m["_type"], "predicateType": m["predicateType"],
            "predicate": {"receipt": p["receipt"], "receiptDigest": r.digest}, "subject": subject}):
        raise Refused("integrity-failed", "the statement is not what its receipt gives")
    return r
