"""Golden vectors of package rng, from an independent implementation
(Python 3.11, standard library only). Prints golden.json."""
import hashlib, json, math, struct, zlib


def key(*parts):
    b = b""
    for p in parts:
        if isinstance(p, str):
            e = p.encode()
            b += b"s" + struct.pack("<Q", len(e)) + e
        else:
            b += b"i" + struct.pack("<q", p)
    return struct.unpack("<Q", hashlib.sha256(b).digest()[:8])[0]


def philox(k, block):
    k0, k1 = k & 0xFFFFFFFF, k >> 32
    c = [block & 0xFFFFFFFF, block >> 32, 0, 0]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k1, p0 & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def normal(k, i):
    x = philox(k, i // 4)
    p = i % 4 // 2
    u1 = ((x[2 * p] >> 8) + 0.5) * 2.0**-24
    u2 = ((x[2 * p + 1] >> 8) + 0.5) * 2.0**-24
    r = math.sqrt(-2 * math.log(u1))
    return r * (math.cos if i % 2 == 0 else math.sin)(2 * math.pi * u2)


names = [["planner", 0, "T1"], ["planner", 1, "T1"], ["collect", "tworoom", -3], ["", 2**40]]
out = []
for n in names:
    k = key(*n)
    words = [w for b in range(3) for x in [philox(k, b)] for w in (x[0] | x[1] << 32, x[2] | x[3] << 32)]
    out.append({"name": n, "key": str(k), "words": [str(w) for w in words], "normal": [normal(k, i) for i in range(9)],
                "far": {"index": 2**40 + 3, "normal": normal(k, 2**40 + 3)}})
print(json.dumps(out, indent=1))
