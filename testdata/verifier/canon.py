"""Strict JSON and its canonical form: sections 1 and 3 of docs/spec.md."""

import hashlib
import unicodedata
import re
from collections import namedtuple
from decimal import Decimal


class Refused(Exception):
    """A document or a signature that has no effect, with the code that says why."""

    def __init__(self, code, why):
        super().__init__(code + ": " + why)
        self.code = code


def invalid(why):
    raise Refused("invalid-input", why)


# Bounds of one text: bytes of it and of its canonical form, values, depth, entries of one object or array.
Limits = namedtuple("Limits", "bytes nodes depth width")

DOCUMENT = Limits(1_048_576, 8_192, 32, 1_024)
DRY_RUN = Limits(1_114_112, 8_224, 33, 1_024)
ARGUMENTS = Limits(16_777_216, 1_000_000, 64, 1_000_000)
ENVELOPE = Limits(4_194_304, 256, 4, 32)
KEY_RING = Limits(4_194_304, 65_536, 5, 1_024)
BUNDLE = Limits(33_554_432, 1_032_768, 66, 1_000_000)
EVENT = Limits(16_384, 34, 1, 33)
CLIENT_DATA = Limits(4_096, 256, 8, 64)


class Number:
    """A number by its canonical text."""

    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text

    def whole(self):
        """The number as an int, None if its canonical text is no whole number."""
        return int(self.text) if re.fullmatch(r"-?\d{1,16}", self.text) else None


NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
SPACE = re.compile(r"[ \t\n\r]*")
HEX = re.compile(r"[0-9a-fA-F]{4}")
ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def number(raw, rounded):
    """The canonical number of a JSON number, as ECMAScript prints it."""
    f = float(raw)
    if f in (float("inf"), float("-inf")):
        invalid("a number is too large for a double")
    zero = not re.search(r"[1-9]", re.split("[eE]", raw)[0])
    text = ecmascript(f)
    if not rounded:
        if f == 0 and (raw[0] == "-" or not zero):
            invalid("minus zero, or a number that vanishes")
        if not zero and Decimal(raw) != Decimal(text):
            invalid("a number has more digits than a double")
    return Number(text)


def ecmascript(f):
    if f == 0:
        return "0"
    sign = "-" if f < 0 else ""
    _, digits, exponent = Decimal(repr(abs(f))).as_tuple()
    d = "".join(map(str, digits))
    n = len(d) + exponent  # the decimal point is behind n digits
    d = d.lstrip("0").rstrip("0")
    k = len(d)
    if k <= n <= 21:
        return sign + d + "0" * (n - k)
    if 0 < n <= 21:
        return sign + d[:n] + "." + d[n:]
    if -6 < n <= 0:
        return sign + "0." + "0" * -n + d
    e = n - 1
    return sign + d[0] + ("." + d[1:] if k > 1 else "") + "e" + ("-" if e < 0 else "+") + str(abs(e))


class Parser:
    def __init__(self, text, limits, rounded):
        self.s, self.i, self.limits, self.rounded, self.nodes = text, 0, limits, rounded, 0

    def space(self):
        self.i = SPACE.match(self.s, self.i).end()

    def peek(self):
        return self.s[self.i] if self.i < len(self.s) else ""

    def take(self, c):
        if self.peek() != c:
            invalid("this is not JSON")
        self.i += 1

    def value(self, depth):
        self.nodes += 1
        if self.nodes > self.limits.nodes or depth > self.limits.depth:
            invalid("too many values, or nested too deep")
        c = self.peek()
        if c == "{":
            return self.object(depth)
        if c == "[":
            return self.array(depth)
        if c == '"':
            return self.string()
        for word, v in (("true", True), ("false", False), ("null", None)):
            if self.s.startswith(word, self.i):
                self.i += len(word)
                return v
        m = NUMBER.match(self.s, self.i)
        if not m:
            invalid("this is not JSON")
        self.i = m.end()
        return number(m.group(), self.rounded)

    def entries(self, end, entry):
        """Calls entry for each entry up to the closing bracket."""
        self.i += 1
        self.space()
        count = 0
        while self.peek() != end:
            if count:
                self.take(",")
                self.space()
            count += 1
            if count > self.limits.width:
                invalid("an object or array is too wide")
            entry()
            self.space()
        self.i += 1

    def array(self, depth):
        out = []
        self.entries("]", lambda: out.append(self.value(depth + 1)))
        return out

    def object(self, depth):
        out = {}

        def member():
            name = self.string()
            self.space()
            self.take(":")
            self.space()
            if name in out:
                invalid("a member stands twice")
            out[name] = self.value(depth + 1)

        self.entries("}", member)
        return out

    def string(self):
        self.take('"')
        out = []
        while True:
            m = PLAIN.match(self.s, self.i)
            out.append(m.group())
            self.i = m.end()
            c = self.peek()
            self.i += 1
            if c == '"':
                return "".join(out)
            if c != "\\":
                invalid("a string does not end, or has a control character")
            out.append(self.escape())

    def escape(self):
        c = self.peek()
        self.i += 1
        if c in ESCAPES and c:
            return ESCAPES[c]
        if c != "u":
            invalid("an escape is not known")
        unit = self.unit()
        if 0xD800 <= unit < 0xDC00 and self.s.startswith("\\u", self.i):
            self.i += 2
            low = self.unit()
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + (unit - 0xD800 << 10) + low - 0xDC00)
            invalid("a lone surrogate")
        if 0xD800 <= unit < 0xE000:
            invalid("a lone surrogate")
        return chr(unit)

    def unit(self):
        m = HEX.match(self.s, self.i)
        if not m:
            invalid("an escape is not known")
        self.i += 4
        return int(m.group(), 16)


def parse(b, limits, rounded=False):
    """Reads one JSON text: dict, list, str, Number, True, False or None."""
    if len(b) > limits.bytes:
        invalid("the text is too large")
    try:
        text = b.decode("utf-8")
    except UnicodeDecodeError:
        invalid("this is not UTF-8")
    p = Parser(text, limits, rounded)
    p.space()
    v = p.value(0)
    p.space()
    if p.i != len(text):
        invalid("something follows the text")
    if len(canonical(v)) > limits.bytes:
        invalid("the text is too large")
    return v


def parse_canonical(b, limits):
    """Reads a text that must be in canonical form."""
    v = parse(b, limits)
    if canonical(v) != b:
        invalid("this must be in canonical form")
    return v


def units(s):
    """The order of names: UTF-16 code units."""
    return s.encode("utf-16-be")


def quoted(s):
    out = ['"']
    for c in s:
        if c in '"\\':
            out.append("\\" + c)
        elif c >= " ":
            out.append(c)
        else:
            out.append({"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}.get(c) or "\\u%04x" % ord(c))
    out.append('"')
    return "".join(out)


def text_of(v):
    if v is None or isinstance(v, bool):
        return {None: "null", True: "true", False: "false"}[v]
    if isinstance(v, Number):
        return v.text
    if isinstance(v, int):
        return str(v)
    if isinstance(v, str):
        return quoted(v)
    if isinstance(v, list):
        return "[" + ",".join(map(text_of, v)) + "]"
    return "{" + ",".join(quoted(k) + ":" + text_of(v[k]) for k in sorted(v, key=units)) + "}"


def canonical(v):
    return text_of(v).encode("utf-8")


def measure(v, depth=0):
    """The number of values in v, the deepest depth and the widest object or array."""
    below = list(v.values()) if isinstance(v, dict) else v if isinstance(v, list) else []
    nodes, deepest, widest = 1, depth, len(below)
    for e in below:
        n, d, w = measure(e, depth + 1)
        nodes, deepest, widest = nodes + n, max(deepest, d), max(widest, w)
    return nodes, deepest, widest


# Default-ignorable code points and variation selectors that are no format characters (Unicode, PropList).
IGNORABLE = [
    (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065), (0x3164, 0x3164), (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0000), (0xE0002, 0xE001F), (0xE0080, 0xE0FFF),
]


def visible(s):
    """Whether every character may stand in a name (section 2)."""
    return not any(
        unicodedata.category(c)[0] == "C" or unicodedata.category(c) in ("Zl", "Zp") or any(a <= ord(c) <= b for a, b in IGNORABLE) for c in s)


def bound(v, limits):
    """Holds a document inside another to the bounds that it has by itself."""
    nodes, depth, width = measure(v)
    if nodes > limits.nodes or depth > limits.depth or width > limits.width or len(canonical(v)) > limits.bytes:
        invalid("this document exceeds its bounds")


def digest(domain, b):
    return "sha256:" + hashlib.sha256(b"counterfoil/v1/" + domain.encode() + b"\n" + b).hexdigest()
