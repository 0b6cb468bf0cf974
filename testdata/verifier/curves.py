"""Ed25519 (RFC 8032) and ECDSA on P-256 with SHA-256 (FIPS 186-5, SEC 1): verification alone."""

import hashlib

# Ed25519, in extended coordinates (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def ed_add(a, b):
    x, y = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    t, z = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = y - x, z - t, z + t, y + x
    return e * f % P, g * h % P, f * g % P, e * h % P


def ed_double(a):
    x, y, z = a[0] * a[0] % P, a[1] * a[1] % P, 2 * a[2] * a[2] % P
    h = x + y
    e = h - (a[0] + a[1]) * (a[0] + a[1]) % P
    g = x - y
    f = z + g
    return e * f % P, g * h % P, f * g % P, e * h % P


def ed_point(b):
    """Decodes a point (section 5.1.3), None for what is none."""
    n = int.from_bytes(b, "little")
    sign, y = n >> 255, n & (2**255 - 1)
    if y >= P:
        return None
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if (v * x * x - u) % P:
        x = x * ROOT % P
        if (v * x * x - u) % P:
            return None
    if x == 0 and sign:
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


def is_ed_key(b):
    """A point in its one spelling, whose order is not small: eight times the point is not the neutral one."""
    a = ed_point(b)
    if a is None:
        return False
    for _ in range(3):
        a = ed_double(a)
    return a[0] % P != 0 or (a[1] - a[2]) % P != 0


def ed_bytes(a):
    inverse = pow(a[2], -1, P)
    x, y = a[0] * inverse % P, a[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


BASE = ed_point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def ed25519(key, message, sig):
    """Section 5.1.7, without the cofactor: R must be the encoding of [S]B − [k]A."""
    a = ed_point(key)
    s = int.from_bytes(sig[32:], "little")
    if len(sig) != 64 or a is None or s >= ORDER:
        return False
    k = int.from_bytes(hashlib.sha512(sig[:32] + key + message).digest(), "little") % ORDER
    minus = (P - a[0], a[1], 1, P - a[3])
    both = ed_add(BASE, minus)
    sum_ = (0, 1, 1, 0)
    for i in range(252, -1, -1):
        sum_ = ed_double(sum_)
        bits = (s >> i & 1, k >> i & 1)
        if bits != (0, 0):
            sum_ = ed_add(sum_, {(1, 0): BASE, (0, 1): minus, (1, 1): both}[bits])
    return ed_bytes(sum_) == sig[:32]


# P-256: y² = x³ − 3x + B, in Jacobian coordinates with x = X/Z², y = Y/Z³; None is the point at infinity.
Q = 2**256 - 2**224 + 2**192 + 2**96 - 1
B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
    1,
)


def on_p256(x, y):
    return x < Q and y < Q and (y * y - x * x * x + 3 * x - B) % Q == 0


def p_double(a):
    if a is None or a[1] == 0:
        return None
    x, y, z = a
    zz, yy = z * z % Q, y * y % Q
    m, s = 3 * (x - zz) * (x + zz) % Q, 4 * x * yy % Q
    x3 = (m * m - 2 * s) % Q
    return x3, (m * (s - x3) - 8 * yy * yy) % Q, 2 * y * z % Q


def p_add(a, b):
    if a is None or b is None:
        return a or b
    za, zb = a[2] * a[2] % Q, b[2] * b[2] % Q
    u1, u2 = a[0] * zb % Q, b[0] * za % Q
    s1, s2 = a[1] * zb * b[2] % Q, b[1] * za * a[2] % Q
    if u1 == u2:
        return p_double(a) if s1 == s2 else None
    h, r = u2 - u1, s2 - s1
    hh = h * h % Q
    hhh, v = h * hh % Q, u1 * hh % Q
    x3 = (r * r - hhh - 2 * v) % Q
    return x3, (r * (v - x3) - s1 * hhh) % Q, h * a[2] * b[2] % Q


def es256(key, message, sig):
    """SEC 1, section 4.1.4, with s in the lower half. The key is x ‖ y, a point of the curve."""
    point = (int.from_bytes(key[:32], "big"), int.from_bytes(key[32:], "big"), 1)
    r, s = int.from_bytes(sig[:32], "big"), int.from_bytes(sig[32:], "big")
    if len(sig) != 64 or not 0 < r < N or not 0 < s <= (N - 1) // 2:
        return False
    w = pow(s, -1, N)
    u1 = int.from_bytes(hashlib.sha256(message).digest(), "big") * w % N
    u2 = r * w % N
    both, sum_ = p_add(G, point), None
    for i in range(255, -1, -1):
        sum_ = p_double(sum_)
        bits = (u1 >> i & 1, u2 >> i & 1)
        if bits != (0, 0):
            sum_ = p_add(sum_, {(1, 0): G, (0, 1): point, (1, 1): both}[bits])
    if sum_ is None:
        return False
    x = sum_[0] * pow(sum_[2] * sum_[2], -1, Q) % Q
    return x % N == r
