"""Citations: section 6.1 of docs/spec.md."""

import re
import unicodedata

import canon
from canon import invalid


def host(s):
    lower = re.sub("[A-Z]", lambda m: m.group().lower(), s)
    labels = lower.split(".")
    if len(lower) > 253 or not all(re.fullmatch("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", label) for label in labels):
        invalid("the host is no name")
    if labels[-1][0].isdigit():
        if len(labels) != 4 or not all(re.fullmatch("0|[1-9][0-9]{0,2}", n) and int(n) < 256 for n in labels):
            invalid("the host is no address")
    return lower


def split(uri):
    """The origin and the path of a URI, each in its canonical form."""
    if not uri.startswith("https://"):
        invalid("a citation begins with https://")
    authority, slash, rest = uri[8:].partition("/")
    name, colon, port = authority.rpartition(":") if ":" in authority else (authority, "", "")
    if colon and (not re.fullmatch("[1-9][0-9]{0,4}", port) or int(port) > 65_535):
        invalid("the port is none")
    return "https://" + host(name) + (":" + port if colon and port != "443" else ""), path(slash + rest or "/")


def path(s):
    if not s.isascii() or re.search(r"""[ "#<>?\[\\\]^`{|}]""", s):
        invalid("the path has a character that must be escaped")
    plain, passes = s.encode(), 0
    while b"%" in plain:
        if passes == 3 or re.search(rb"%(?![0-9A-Fa-f]{2})", plain):
            invalid("the path is encoded too often, or not at all")
        plain = re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: bytes([int(m.group(1), 16)]), plain)
        passes += 1
    try:
        decoded = unicodedata.normalize("NFC", plain.decode("utf-8"))
    except UnicodeDecodeError:
        invalid("the path is no UTF-8")
    if re.search(r"[\\?#]", decoded) or not canon.visible(decoded):
        invalid("the path hides a character")
    if any(unicodedata.normalize("NFKC", part) in (".", "..") for part in decoded.split("/")):
        invalid("the path leaves itself")
    return re.sub(rb"[^A-Za-z0-9/_.!~*'()-]", lambda m: b"%%%02X" % m.group()[0], decoded.encode()).decode()


def read(v, respell):
    """A citation's origin and path. Another spelling than the canonical one is corrected in the document, or refused."""
    from documents import digest_text, members, text
    m = members(v, "digest?", "uri")
    if "digest" in m:
        digest_text(m["digest"])
    origin, where = split(text(m["uri"]))
    if m["uri"] != origin + where:
        if not respell:
            invalid("the citation is not in its canonical form")
        m["uri"] = origin + where
    return origin, where


def check_origin(s):
    if split(s) != (s, "/"):
        invalid("an origin has no path and one spelling")


def check_prefix(s):
    if not s.startswith("/") or path(s) != s:
        invalid("a prefix is a path in its one spelling")


def below(where, prefix):
    return where == prefix or where.startswith(prefix.removesuffix("/") + "/")
