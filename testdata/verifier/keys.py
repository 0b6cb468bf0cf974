"""Keys, key rings and signatures: sections 4 and 5 of docs/spec.md."""

import base64
import hashlib
import re
from types import SimpleNamespace as Record

import canon
import curves
from canon import Refused, invalid
from documents import base64url_32, elements, members, name, names, text, time, word

DOMAIN_LABEL = re.compile("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def is_domain(s):
    return all(DOMAIN_LABEL.fullmatch(label) for label in s.split("."))


def is_origin(s, rp_id):
    m = re.fullmatch(r"(https?)://([^:]*)(?::([1-9][0-9]{0,4}))?", s)
    if not m or m.group(1) == "http" and rp_id != "localhost" or int(m.group(3) or 1) > 65_535 or (m.group(1), m.group(3)) in (
            ("https", "443"), ("http", "80")):
        return False
    host = m.group(2)
    return is_domain(host) and (host == rp_id or host.endswith("." + rp_id))


def is_note_name(s):
    """Whether a name can stand on a note: no white space, no plus."""
    return "+" not in s and not any(c.isspace() for c in s)


def unpadded(b):
    return base64.urlsafe_b64encode(b).decode().rstrip("=")


def key(v):
    m = members(
        v, "alg", "crv", "custody", "kid", "kty", "notAfter?", "notBefore", "owner", "passkey?", "revoked?", "role", "tenants", "use", "x", "y?")
    alg = word(m["alg"], "EdDSA", "ES256")
    ec = alg == "ES256"
    word(m["kty"], "EC" if ec else "OKP")
    word(m["crv"], "P-256" if ec else "Ed25519")
    word(m["use"], "sig")
    if ("y" in m) != ec:
        invalid("P-256 alone has a y")
    raw = base64url_32(m["x"]) + (base64url_32(m["y"]) if ec else b"")
    if ec and not curves.on_p256(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")):
        invalid("the point is not on the curve")
    if not ec and not curves.is_ed_key(raw):
        invalid("this is no public key of Ed25519, or one of small order")
    thumb = {"crv": m["crv"], "kty": m["kty"], "x": m["x"]}
    if ec:
        thumb["y"] = m["y"]
    if text(m["kid"]) != unpadded(hashlib.sha256(canon.canonical(thumb)).digest()):
        invalid("the id is not the thumbprint")
    k = Record(
        id=m["kid"], alg=alg, raw=raw, role=word(m["role"], "approver", "policy", "ledger", "receipt", "checkpoint", "witness", "token"), owner=name(m["owner"]),
        custody=word(m["custody"], "holder", "gateway"), tenants=names(m["tenants"], 1, 1024, False), begins=time(m["notBefore"]),
        ends=time(m["notAfter"]) if "notAfter" in m else None, passkey=None, revoked=None,
    )
    if k.role in ("checkpoint", "witness") and ec:
        invalid("the keys of logs and witnesses are Ed25519")
    if "*" in k.tenants and (len(k.tenants) > 1 or k.role == "approver"):
        invalid("a key for all tenants names no other, and is no approver's")
    if k.role == "witness" and not is_note_name(k.owner):
        invalid("a witness's name has no white space and no plus")
    if k.ends is not None and k.ends <= k.begins:
        invalid("a key ends after it begins")
    if "revoked" in m:
        r = members(m["revoked"], "at", "why")
        k.revoked = Record(at=time(r["at"]), why=word(r["why"], "superseded", "compromised"))
    if "passkey" in m:
        p = members(m["passkey"], "origins", "rpId")
        k.passkey = Record(origins=names(p["origins"], 1, 16, False), rp=name(p["rpId"]))
        if not ec or k.role != "approver" or k.custody != "holder" or not is_domain(k.passkey.rp):
            invalid("a passkey is an approver's own key on P-256")
        if not all(is_origin(o, k.passkey.rp) for o in k.passkey.origins):
            invalid("an origin is not the relying party's")
    return k


def ring(b):
    m = members(canon.parse(b, canon.KEY_RING), "keys")
    out = {}
    for v in elements(m["keys"], 0, 1024):
        k = key(v)
        if k.id in out:
            invalid("a key stands twice")
        out[k.id] = k
    return out


def refuse(why):
    raise Refused("signature-invalid", why)


def pae(e):
    return b"DSSEv1 %d %s %d %s" % (len(e.type), e.type.encode(), len(e.payload), e.payload)


def curve_verify(k, message, sig):
    return len(sig) == 64 and (curves.es256 if k.alg == "ES256" else curves.ed25519)(k.raw, message, sig)


def passkey_verify(k, message, s):
    d = s.data
    if not 37 <= len(d) <= 1024 or d[:32] != hashlib.sha256(k.passkey.rp.encode()).digest():
        refuse("authenticator data")
    flags = d[32]
    if flags & 0x05 != 0x05 or flags & 0x62 or flags & 0x18 == 0x10 or bool(flags & 0x80) != (len(d) > 37):
        refuse("flags of the authenticator")
    try:
        client = canon.parse(s.client, canon.CLIENT_DATA, rounded=True)
    except Refused:
        refuse("client data")
    if not isinstance(client, dict) or client.get("type") != "webauthn.get" or "topOrigin" in client:
        refuse("client data")
    if client.get("challenge") != unpadded(hashlib.sha256(message).digest()) or client.get("origin") not in k.passkey.origins:
        refuse("client data")
    if "crossOrigin" in client and client["crossOrigin"] is not False:
        refuse("client data")
    return curve_verify(k, d + hashlib.sha256(s.client).digest(), s.sig)


def verify(keys, e, s, role):
    """The key of the ring that made signature s of envelope e, in its role."""
    k = keys.get(s.key)
    if k is None or k.role != role or (k.passkey is None) != (s.data is None):
        refuse("no key of the ring, role and kind")
    made = passkey_verify(k, pae(e), s) if k.passkey else curve_verify(k, pae(e), s.sig)
    if not made:
        refuse("the signature does not fit")
    return k


def acts_for(k, tenant):
    return tenant in k.tenants or list(k.tenants) == ["*"]


def may_act(k, tenant, at):
    if k.revoked and (k.revoked.why == "compromised" or at >= k.revoked.at):
        raise Refused("revoked", "the key")
    if not acts_for(k, tenant) or at < k.begins or k.ends is not None and at >= k.ends:
        refuse("the key may not act for this tenant at this time")


def single(keys, e, role, tenant, at, acts):
    """The one signature of a document that has one."""
    if len(e.signatures) != 1:
        refuse("this document has exactly one signature")
    k = verify(keys, e, e.signatures[0], role)
    acts(k, tenant, at)
    return k
