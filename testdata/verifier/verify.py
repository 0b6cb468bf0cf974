#!/usr/bin/env python3
"""Verifies what counterfoil signs, written from docs/spec.md alone: it shares no code with the gateway and needs nothing
but Python 3.

    verify.py BUNDLE KEYS [TIME]   verifies one bundle against a key ring, at TIME (default: now)
    verify.py --vectors DIRECTORY  prints the outcome of every vector below the directory, and fails if one is another
"""

import os
import sys
from datetime import datetime, timezone
from types import SimpleNamespace as Record

import canon
import citations
import documents
import evidence
import keys
import notes
from canon import Refused, canonical, digest


def deny(code, why):
    raise Refused(code, why)


# Section 7.

def evaluate(policy, plan, at):
    if len(plan.steps) > policy.max_steps:
        deny("policy-denied", "too many steps")
    for s in plan.steps:
        src = policy.sources.get(s.source.id)
        allowed = (
            s.tool in policy.tools and s.effect in policy.effects and src is not None
            and len(s.fields) <= policy.max_fields and len(s.source.scopes) <= policy.max_scopes
            and set(s.fields) <= set(src.fields) and set(s.source.scopes) <= set(src.scopes)
            and (src.schemas is None or s.source.schema in src.schemas) and (src.versions is None or s.source.version in src.versions)
            and (src.modes is None or s.source.mode in src.modes) and s.rows <= policy.step_rows and s.bytes <= policy.step_bytes
        )
        granted = policy.grants is None or any(
            s.tool in g.tools and s.effect in g.effects and s.source.id in g.sources and s.rows <= g.rows and s.bytes <= g.bytes
            for g in policy.grants)
        if not allowed or not granted or len(s.source.citations) > policy.citations:
            deny("policy-denied", "the policy does not allow a step")
        for origin, path in s.source.citations:
            if origin not in src.origins or not any(citations.below(path, p) for p in src.prefixes):
                deny("policy-denied", "the policy does not allow a citation")
        age = at - s.source.observed
        if age < -policy.skew or src.age is not None and age > src.age:
            deny("policy-denied", "the observation is too old or lies in the future")
    if any(sum(s.effect == e for s in plan.steps) > n for e, n in policy.by_effect.items()):
        deny("policy-denied", "too many steps of one effect")
    if sum(s.rows for s in plan.steps) > policy.rows or sum(s.bytes for s in plan.steps) > policy.bytes:
        deny("policy-denied", "too many rows or bytes")


# Section 6.5.

def rebuild(plan, policy, at, stamp):
    evaluate(policy, plan, at)
    by_effect = {e: sum(s.effect == e for s in plan.steps) for e in documents.EFFECTS}
    return canonical({
        "bindingsDigest": plan.bindings,
        "effectBudget": {
            "byEffect": by_effect, "bytes": sum(s.bytes for s in plan.steps), "rows": sum(s.rows for s in plan.steps), "steps": len(plan.steps),
        },
        "evaluatedAt": stamp, "kind": "counterfoil.dry-run", "plan": plan.value, "planDigest": plan.digest,
        "policyDigest": policy.digest, "version": "1.0",
    })


def dry_run(v, policy, signed):
    m = documents.members(
        v, "bindingsDigest", "effectBudget", "evaluatedAt", "kind", "plan", "planDigest", "policyDigest", "version")
    at = documents.time(m["evaluatedAt"])
    documents.header(m, "dry-run")
    canon.bound(m["plan"], canon.DOCUMENT)
    plan = documents.plan(m["plan"], signed)
    rebuilt = rebuild(plan, policy, at, m["evaluatedAt"])
    if rebuilt != canonical(v):
        deny("integrity-failed", "the dry run is not what its plan and policy give")
    return Record(plan=plan, policy=policy, evaluated=at, digest=digest("dry-run", rebuilt))


# Section 9.

def match_approval(a, dry):
    plan, policy = dry.plan, dry.policy
    if (a.tenant, a.audience, a.plan, a.policy, a.bindings, a.evaluated, len(a.steps)) != (
            plan.tenant, plan.audience, plan.digest, policy.digest, plan.bindings, dry.evaluated, len(plan.steps)):
        deny("integrity-failed", "the approval is for another dry run")
    if a.issued < a.evaluated or a.expires <= a.issued or a.expires <= a.begins or a.begins < a.issued:
        deny("invalid-input", "the approval's times are out of order")
    if a.expires - a.issued > policy.lifetime:
        deny("policy-denied", "the approval lives too long")
    if not policy.self_approval and plan.actor in a.approvers:
        deny("self-approval", "the actor approves")
    if policy.quorum and len(set(policy.quorum.approvers) & set(a.approvers)) < policy.quorum.n:
        deny("quorum-missing", "too few of the quorum")
    for s, planned in zip(a.steps, plan.steps):
        if (s.id, s.input) != (planned.id, planned.input):
            deny("integrity-failed", "the approval is for another operation")
        if s.rows > planned.rows or s.bytes > planned.bytes:
            deny("policy-denied", "the approval is wider than the plan")
    if (a.rows, a.bytes) != (sum(s.rows for s in a.steps), sum(s.bytes for s in a.steps)):
        deny("integrity-failed", "the totals are not the sums")
    match_authority(a, dry)


def match_authority(a, dry):
    if a.kind == "person":
        if a.authority != dry.digest:
            deny("integrity-failed", "the person approved another dry run")
    elif a.kind == "policy":
        if dry.policy.rules is None or a.authority != dry.policy.rules:
            deny("integrity-failed", "the approval rests on other rules")
        if any(documents.effect_class(s.effect) == "destructive" for s in dry.plan.steps):
            deny("policy-denied", "policy alone approves no destructive effect")
    else:
        match_grant(a, dry)


def match_grant(a, dry):
    g = a.grant
    if g is None or a.authority != g.digest or (g.tenant, g.audience) != (a.tenant, a.audience):
        deny("integrity-failed", "the standing grant is another one")
    if g.principal != dry.plan.actor:
        deny("policy-denied", "the standing grant is for another principal")
    if not dry.policy.self_approval and g.approver == dry.plan.actor:
        deny("self-approval", "the actor gave the standing grant")
    if a.issued < g.issued:
        deny("not-yet-valid", "the approval is older than the grant")
    if a.expires > g.expires:
        deny("approval-expired", "the approval outlives the grant")
    for s in dry.plan.steps:
        if documents.effect_class(s.effect) == "destructive" or (s.tool, s.source.id, s.source.version, s.source.schema) != (
                g.tool, g.upstream, g.version, g.definition):
            deny("policy-denied", "the standing grant is for other calls")


def match_receipt(r, dry, a, c):
    step = next((s for s in a.steps if s.id == r.step), None)
    if (r.tenant, r.audience, r.id, r.plan, r.policy, r.bindings, r.approval) != (
            a.tenant, a.audience, c.id, dry.plan.digest, dry.policy.digest, dry.plan.bindings, a.digest):
        deny("integrity-failed", "the receipt is for another plan, approval or execution")
    if step is None or (r.input, r.step, r.use) != (step.input, c.step, c.digest):
        deny("integrity-failed", "the receipt is for another use")
    if r.rows > step.rows or r.bytes > step.bytes:
        deny("policy-denied", "the receipt accepts more than was approved")
    succeeded, cancelled = r.outcome == "succeeded", r.outcome == "cancelled"
    faults = (
        not c.at <= r.completed <= r.issued,
        r.late != (r.completed >= a.expires + dry.policy.skew),
        succeeded and (r.result is None or (r.rows, r.bytes) != (r.seen_rows, r.seen_bytes)),
        not succeeded and (r.rows, r.bytes) != (0, 0),
        cancelled and (r.result is not None or (r.seen_rows, r.seen_bytes) != (0, 0)),
        r.uncounted and r.seen_rows != 0,
        r.recovered and r.outcome not in ("cancelled", "indeterminate"),
    )
    if any(faults):
        deny("integrity-failed", "the receipt contradicts itself")


def within(at, a, skew):
    if at < a.issued - skew or at < a.begins - skew:
        deny("not-yet-valid", "before the approval")
    if at >= a.expires + skew:
        deny("approval-expired", "after the approval")


def verify_use(c, a, skew, ring, past):
    step = next((s for s in a.steps if s.id == c.step), None)
    if (c.tenant, c.audience, c.approval) != (a.tenant, a.audience, a.digest) or step is None or step.input != c.input:
        deny("integrity-failed", "the record is for another use")
    within(c.at, a, skew)
    keys.single(ring, c.env, "ledger", c.tenant, c.at, past.may_act)


def verify_approval(a, ring, at, past):
    signed = []
    if len(a.env.signatures) < len(a.approvers):
        deny("quorum-missing", "an approver has not signed")
    owners = set()
    for s in a.env.signatures:
        k = keys.verify(ring, a.env, s, "approver" if a.kind == "person" else "policy")
        past.may_act(k, a.tenant, at)
        if k.owner in owners or k.owner not in a.approvers:
            deny("signature-invalid", "not by one of the approvers, or twice")
        owners.add(k.owner)
        signed.append(k.id)
    if a.grant is not None:
        signed.append(verify_grant(a.grant, ring, at, past))
    return signed


def verify_grant(g, ring, at, past):
    if len(g.env.signatures) != 1:
        deny("signature-invalid", "a grant has exactly one signature")
    k = keys.verify(ring, g.env, g.env.signatures[0], "approver")
    if k.owner != g.approver or k.custody != "holder":
        deny("signature-invalid", "not by the approver's own key")
    past.may_act(k, g.tenant, at)
    return k.id


def guards(dry, a, signed):
    """All that a use rests on."""
    who = [dry.plan.actor] + a.approvers + ([a.grant.approver] if a.grant else [])
    return {a.digest, dry.policy.digest, a.authority, dry.policy.rules} | {notes.subject("actor", n) for n in who} | {
        notes.subject("key-id", k) for k in signed}


def logged(m, dry, a, c, r, ring, now):
    """Step 8: what the log shows."""
    step = next(s for s in dry.plan.steps if s.id == c.step)
    start = {
        "approvalDigest": a.digest, "audience": a.audience, "bindingsDigest": dry.plan.bindings, "effect": step.effect, "executionId": c.id,
        "inputDigest": step.input, "kind": "counterfoil.event", "phase": "started", "planDigest": dry.plan.digest,
        "policyDigest": dry.policy.digest, "tenant": a.tenant, "useDigest": c.digest, "version": "1.0",
    }
    done = {
        **start, "phase": "completed", "receiptDigest": r.digest, "outcome": r.outcome, "rows": r.rows, "bytes": r.bytes,
        "observedRows": r.seen_rows, "observedBytes": r.seen_bytes,
    }
    if r.result is not None:
        done["resultDigest"] = r.result
    for member in ("late", "recovered", "uncounted"):
        if getattr(r, member):
            done[member] = True
    return notes.verify(
        m, ring, (now, now + dry.policy.skew), a.tenant, a.audience, start, done, c.at, decided_by)


def verify_bundle(b, ring, now):
    m = documents.members(
        canon.parse_canonical(b, canon.BUNDLE), "approval", "consumption", "dryRun", "kind", "log?", "operation?", "policy", "receipt",
        "standingGrant?", "version")
    documents.header(m, "bundle")
    canon.bound(m["policy"], canon.DOCUMENT)
    canon.bound(m["dryRun"], canon.DRY_RUN)
    policy = documents.policy(m["policy"], True)
    dry = dry_run(m["dryRun"], policy, True)
    op = None
    if "operation" in m:
        canon.bound(m["operation"], operation_limits(policy))
        op = documents.operation(m["operation"], policy, True)
    a = documents.approval(documents.envelope(m["approval"], "approval"))
    if "standingGrant" in m:
        a.grant = documents.standing_grant(documents.envelope(m["standingGrant"], "standing-grant"))
        if a.kind != "grant" or a.authority != a.grant.digest:
            deny("integrity-failed", "the approval does not rest on this grant")
    c = documents.consumption(documents.envelope(m["consumption"], "consumption"))
    r = documents.receipt(documents.envelope(m["receipt"], "receipt"))
    proof = notes.proof(m["log"]) if "log" in m else None

    match_approval(a, dry)
    step = next((s for s in dry.plan.steps if s.id == c.step), None)
    if step is None:
        deny("integrity-failed", "the plan has no such step")
    if op is not None and op.input != step.input:
        deny("integrity-failed", "the operation is not the planned one")
    match_receipt(r, dry, a, c)
    if r.issued > now + policy.skew:
        deny("clock", "the receipt lies in the future")
    evaluate(policy, dry.plan, c.at)
    past = notes.History() if proof is None else logged(proof, dry, a, c, r, ring, now)
    verify_use(c, a, policy.skew, ring, past)
    past.allows(guards(dry, a, verify_approval(a, ring, c.at, past)))
    keys.single(ring, r.env, "receipt", r.tenant, r.issued, past.may_act)
    return "verified"


def operation_limits(p):
    return canon.Limits(
        p.parameters.bytes + 1_048_576, p.parameters.nodes + 528, p.parameters.depth + 1, max(p.parameters.width, 512))


def verify_decision(b, ring, h):
    d = documents.standalone(b, "decision", documents.decision)
    if (d.tenant, d.audience, d.verb, d.subject, d.why) != (h["tenant"], h["audience"], h["verb"], h["subject"], h.get("why")):
        deny("integrity-failed", "the decision is about something else")
    decided_by(d, ring, keys.may_act)
    return "verified"


def decided_by(d, ring, may_act):
    if len(d.env.signatures) != 1:
        deny("signature-invalid", "a decision has exactly one signature")
    k = keys.verify(ring, d.env, d.env.signatures[0], "approver")
    if k.owner != d.approver:
        deny("signature-invalid", "not by the approver's key")
    may_act(k, d.tenant, d.at)


# Vectors: section 11.

def split(b):
    head, _, body = b.partition(b"\n\n")
    fields = dict(line.split(": ", 1) for line in head.decode("utf-8").split("\n"))
    return fields, body[:-1]


def judge(kind, h, b, read):
    """The outcome of one vector. read returns the content of another by its name."""

    def document(limits, make):
        v = canon.parse(b, limits)
        make(v)
        return v

    def policy():
        return documents.policy(canon.parse(read(h["policy"]), canon.DOCUMENT), False)

    def enveloped(read_payload):
        return documents.standalone(b, kind, read_payload).digest

    if kind == "text":
        return canonical(canon.parse(b, canon.ARGUMENTS, rounded=True)).decode()
    if kind == "parameters":
        return digest(kind, canonical(canon.parse(b, canon.ARGUMENTS)))
    if kind in ("tool-definition", "upstream", "rules"):
        return digest("policy" if kind == "rules" else kind, canonical(canon.parse(b, canon.ARGUMENTS, rounded=True)))
    if kind == "result":
        return digest(kind, b)
    if kind == "event":
        return documents.event(b).digest
    if kind == "plan":
        return digest(kind, canonical(document(canon.DOCUMENT, lambda v: documents.plan(v, False, True))))
    if kind == "policy":
        return digest(kind, canonical(document(canon.DOCUMENT, lambda v: documents.policy(v, False))))
    if kind == "context":
        document(canon.DOCUMENT, documents.context)
        return "accepted"
    if kind == "operation":
        p = policy()
        return documents.operation(canon.parse(b, operation_limits(p)), p, False).input
    if kind == "dry-run":
        return dry_run(canon.parse(b, canon.DRY_RUN), policy(), False).digest
    if kind == "checkpoint":
        return notes.verified(b, keys.ring(read(h["keys"])), h)
    if kind == "keys":
        return "%d keys" % len(keys.ring(b))
    if kind in ("approval", "consumption", "receipt", "standing-grant"):
        return enveloped(getattr(documents, kind.replace("-", "_")))
    if kind == "statement":
        return documents.standalone(b, kind, documents.statement).digest
    if kind == "discovery":
        return digest("evidence", evidence.derive(read(h["definition"]), b))
    if kind == "evidence":
        return evidence.verify(b, read(h["definition"]), read(h["discovery"]))
    if kind == "decision":
        return verify_decision(b, keys.ring(read(h["keys"])), h)
    if kind == "bundle":
        return verify_bundle(b, keys.ring(read(h["keys"])), documents.time(h["now"]))
    raise ValueError("a vector of unknown kind " + kind)


def vectors(root):
    wrong = 0
    for folder, _, files in sorted(os.walk(root)):
        for file in sorted(files):
            path = os.path.join(folder, file)
            with open(path, "rb") as f:
                h, b = split(f.read())

            def read(name):
                with open(os.path.join(root, name), "rb") as f:
                    return split(f.read())[1]

            try:
                outcome = judge(h["as"], h, b, read)
            except Refused as e:
                outcome = e.code
            wrong += outcome != h["expect"]
            print(os.path.relpath(path, root).replace(os.sep, "/"), outcome, sep="\t")
    return 1 if wrong else 0


def main(args):
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    if len(args) == 2 and args[0] == "--vectors":
        return vectors(args[1])
    if len(args) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    now = args[2] if len(args) == 3 else datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    with open(args[0], "rb") as bundle, open(args[1], "rb") as ring:
        try:
            print(verify_bundle(bundle.read(), keys.ring(ring.read()), documents.time(now)))
        except Refused as e:
            print("refused:", e)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
