"""Checkpoints and proofs of a log: section 6.15 of docs/spec.md, RFC 6962 and the notes of c2sp.org."""

import base64
import binascii
import hashlib
import re
from types import SimpleNamespace as Record

import canon
import documents
import keys
from canon import Refused, invalid


def refuse(code, why):
    raise Refused(code, why)


def origin(audience, tenant):
    return audience + "/" + canon.digest("log", tenant.encode())[7:39]


def note_name(s):
    documents.name(s)
    if not keys.is_note_name(s):
        invalid("this is no name on a note")
    return s


def key_id(k, name, algorithm):
    return hashlib.sha256(name.encode() + b"\n" + bytes([algorithm]) + k.raw).digest()[:4]


def b64(s):
    try:
        b = base64.b64decode(s, validate=True)
    except (binascii.Error, ValueError):
        invalid("this is not base64")
    if base64.b64encode(b).decode() != s:
        invalid("this is not base64 in its one spelling")
    return b


def checkpoint(b):
    if len(b) > 65_536:
        invalid("the checkpoint is too large")
    try:
        s = b.decode("utf-8")
    except UnicodeDecodeError:
        invalid("this is not UTF-8")
    text, split, lines = s.rpartition("\n\n")
    m = re.fullmatch(r"([^\n]+)\n(0|[1-9][0-9]{0,15})\n([^\n]+)", text)
    if not split or not m or not lines.endswith("\n"):
        invalid("this is no checkpoint")
    c = Record(origin=note_name(m.group(1)), size=int(m.group(2)), root=b64(m.group(3)), text=(text + "\n").encode(), signatures=[])
    if not 1 <= c.size <= documents.MOST or len(c.root) != 32:
        invalid("the size or the root is none")
    for line in lines[:-1].split("\n"):
        m = re.fullmatch("— ([^ ]+) ([^ ]+)", line)
        if not m:
            invalid("this is no signature line")
        name, raw = note_name(m.group(1)), b64(m.group(2))
        if len(raw) < 5 or len(c.signatures) == 32 or any((o.name, o.id) == (name, raw[:4]) for o in c.signatures):
            invalid("a signature is too short, one too many or twice")
        c.signatures.append(Record(name=name, id=raw[:4], rest=raw[4:]))
    return c


def made_by(ring, role, s, algorithm, message, sig):
    """The key of the ring that made a line, None for one that the ring does not know."""
    known = [
        k for k in ring.values()
        if k.role == role and (role != "witness" or k.owner == s.name) and key_id(k, s.name, algorithm) == s.id
    ]
    for k in known:
        if keys.curve_verify(k, message, sig):
            return k
    if known:
        keys.refuse("a signature on the checkpoint does not fit")
    return None


def signers(c, ring, audience, tenant):
    if c.origin != origin(audience, tenant):
        refuse("integrity-failed", "the checkpoint is of another log")
    found = [made_by(ring, "checkpoint", s, 1, c.text, s.rest) for s in c.signatures if s.name == c.origin]
    found = [k for k in found if k is not None]
    if not found:
        keys.refuse("no key of the ring signed the checkpoint")
    return found


def cosignatures(c, ring, tenant):
    """The witnesses that count, with their times in the milliseconds of documents.time."""
    out = []
    for s in c.signatures:
        seconds, sig = 0, b""
        if len(s.rest) == 72 and int.from_bytes(s.rest[:8], "big") < 253_402_300_800:  # the year 10000
            seconds, sig = int.from_bytes(s.rest[:8], "big"), s.rest[8:]
        k = made_by(ring, "witness", s, 4, b"cosignature/v1\ntime %d\n" % seconds + c.text, sig)
        at = seconds * 1000 + 62_135_596_800_000
        if k is None:
            continue
        try:
            keys.may_act(k, tenant, at)
        except Refused:
            continue
        out.append(Record(name=k.owner, at=at))
    return out


def any_may_act(found, tenant, start, now, may_act):
    """One of the keys may act at an instant from start on and not after now."""
    for i, k in enumerate(found):
        at = max(start, k.begins)
        try:
            if now is not None and at > now:
                keys.refuse("the key has not begun")
            may_act(k, tenant, at)
            return
        except Refused:
            if i + 1 == len(found):
                raise


def verified(b, ring, h):
    c = checkpoint(b)
    any_may_act(signers(c, ring, h["audience"], h["tenant"]), h["tenant"], documents.time(h["at"]), None, keys.may_act)
    return " ".join(["verified"] + [w.name for w in cosignatures(c, ring, h["tenant"])])


# RFC 6962, section 2.1.

def node(a, b):
    return hashlib.sha256(b"\x01" + a + b).digest()


def root_of(index, size, leaf, path):
    """The root that a path leads to, from the leaf up (section 2.1.1), None if it has another length."""
    h, last = leaf, size - 1
    for p in path:
        if last == 0:
            return None
        if index & 1 or index == last:
            h = node(p, h)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            h = node(h, p)
        index, last = index >> 1, last >> 1
    return h if last == 0 else None


def check_inclusion(i, c):
    leaf = hashlib.sha256(b"\x00" + i.event.leaf).digest()
    if not 0 <= i.index < c.size or root_of(i.index, c.size, leaf, i.path) != c.root:
        refuse("integrity-failed", "the log does not have the event at this place")


# The member log of a bundle (section 6.12).

def inclusion(m):
    i = Record(index=documents.count(m["index"]), path=[documents.base64_bytes(p) for p in documents.elements(m["path"], 0, 64)])
    if any(len(p) != 32 for p in i.path):
        invalid("a hash has 32 bytes")
    i.event = documents.event(canon.canonical(m["event"]))
    return i


def proof(v):
    m = documents.members(v, "checkpoint", "completed", "revocations?", "started")
    p = Record(revocations=[])
    p.completed = inclusion(documents.members(m["completed"], "event", "index", "path"))
    p.started = inclusion(documents.members(m["started"], "event", "index", "path"))
    for e in documents.elements(m["revocations"], 1, 64) if "revocations" in m else []:
        documents.members(e, "decision", "event", "index", "path")
        r = inclusion(e)
        if p.revocations and p.revocations[-1].index >= r.index:
            invalid("the revocations are not in order")
        r.decision = documents.decision(documents.envelope(e["decision"], "decision"))
        r.digest = canon.digest("decision", canon.canonical(e["decision"]))
        p.revocations.append(r)
    p.checkpoint = checkpoint(documents.string(m["checkpoint"]).encode())
    return p


def subject(domain, s):
    return canon.digest(domain, canon.canonical(s))


class History:
    """What a proof shows of keys (section 4). Without a proof nothing is shown."""

    def __init__(self):
        self.started, self.revoked, self.witnesses = None, [], []

    def may_act(self, k, tenant, at, leaf=None):
        leaf = self.started if leaf is None else leaf
        shown = False
        if k.revoked and k.revoked.why == "compromised":
            if k.role in ("approver", "policy"):
                shown = any(
                    r.index > leaf and r.decision.subject == subject("key-id", k.id) and r.decision.why == "compromised"
                    and r.decision.at == k.revoked.at for r in self.revoked)
            elif k.role in ("ledger", "receipt", "checkpoint"):
                shown = any(w.at < k.revoked.at for w in self.witnesses)
        keys.may_act(Record(**{**vars(k), "revoked": None}) if shown else k, tenant, at)

    def allows(self, guards):
        if any(r.index < self.started and r.decision.subject in guards for r in self.revoked):
            refuse("revoked", "what the use rests on was revoked before")


NAMED = ("actor", "tool", "source", "step", "plan", "sequence", "time")


def expect(i, c, want):
    said = {k: v for k, v in i.event.value.items() if k not in NAMED}
    if canon.canonical(said) != canon.canonical(want) or i.event.sequence != i.index + 1:
        refuse("integrity-failed", "the event is about something else")
    check_inclusion(i, c)


def verify(p, ring, now, tenant, audience, start, completed, used_at, verify_decision):
    """Section 9, step 8. start and completed are what the events must say, but for names, sequence and time."""
    c = p.checkpoint
    key_of = {k: v for k, v in p.started.event.value.items() if k == "pseudonymKey"}
    expect(p.started, c, {**start, **key_of})
    key_of = {k: v for k, v in p.completed.event.value.items() if k == "pseudonymKey"}
    expect(p.completed, c, {**completed, **key_of})
    if p.completed.index <= p.started.index or not used_at <= p.started.event.time <= p.completed.event.time:
        refuse("integrity-failed", "the events are in another order")
    found = signers(c, ring, audience, tenant)
    h = History()
    h.started, h.witnesses = p.started.index, cosignatures(c, ring, tenant)
    if any(w.at > now[1] for w in h.witnesses):
        refuse("clock", "a cosignature lies in the future")
    any_may_act(found, tenant, p.completed.event.time, now[0], h.may_act)
    for r in reversed(p.revocations):
        e, d = r.event, r.decision
        if (e.phase, e.value.get("decisionDigest"), e.sequence, d.verb) != ("revoked", r.digest, r.index + 1, "revoke") or {
                (e.tenant, e.audience), (d.tenant, d.audience)} != {(tenant, audience)}:
            refuse("integrity-failed", "the event is not of this revocation")
        check_inclusion(r, c)
        verify_decision(d, ring, lambda k, t, at, leaf=r.index: h.may_act(k, t, at, leaf))
        h.revoked.append(r)
    return h
