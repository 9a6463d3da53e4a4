"""Writes version2.zarr.zip and version3.zarr.zip beside it: replay buffers with episodes of 3 and 4 rows and two
rows behind them, written by zarr itself. Each array in data/ but img and action is stored in another way, which
its name says, and holds 10 r + c in row r and column c, as action does. Where a chunk is not stored, the rows 0 to
2 are -2.5. img is (9, 8, 8, 3) with r + 8 y + x + 64 colour, as float32 in version 2 and as uint8 in version 3.

In version2.zarr.zip the root is a folder, members are deflated, and action/.zarray is there twice: the first one
is wrong, and the last one counts, as in an archive that zarr changed.
Needs zarr >= 3 and numcodecs."""

import tempfile
import warnings
import zipfile
from pathlib import Path

import numcodecs
import numcodecs.zarr3
import numpy as np
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec

HERE = Path(__file__).parent
warnings.simplefilter("ignore")
ROWS = 9
VALUES = 10 * np.arange(ROWS)[:, None] + np.arange(3)
IMG = (np.arange(ROWS)[:, None, None, None] + 8 * np.arange(8)[:, None, None] + np.arange(8)[:, None] + 64 * np.arange(3)).astype("uint8")


def put(g, name, x, chunks, **kw):
    a = g.create_array(name, shape=x.shape, dtype=x.dtype, chunks=chunks, **kw)
    a[...] = x


def common(g, img):
    put(g, "data/img", img, (2, 5, 8, 3))
    put(g, "data/action", VALUES.astype("f4"), (4, 3))
    put(g, "meta/episode_ends", np.array([3, 7]), (2,))
    a = g.create_array("data/fill", shape=(ROWS, 3), dtype="f4", chunks=(3, 3), fill_value=-2.5)
    a[3:] = VALUES[3:]
    a = g.create_array("data/half_fill", shape=(ROWS, 3), dtype="f2", chunks=(3, 3), fill_value=-2.5)
    a[3:] = VALUES[3:]


def version2(root):
    g = zarr.open_group(str(root), mode="w", zarr_format=2)
    common(g, IMG.astype("f4"))
    for name in ("lz4", "lz4hc", "zstd", "zlib", "blosclz"):
        for shuffle in range(3):
            put(g, f"data/blosc_{name}_{shuffle}", VALUES.astype("f4"), (4, 3), compressors=numcodecs.Blosc(name, 5, shuffle))
    for name, c in dict(zstd=numcodecs.Zstd(3), gzip=numcodecs.GZip(5), zlib=numcodecs.Zlib(5), lz4=numcodecs.LZ4(), bz2=numcodecs.BZ2(5), none=None).items():
        put(g, f"data/{name}", VALUES.astype("f4"), (4, 2), compressors=c)
        put(g, f"data/{name}_f", VALUES.astype("f8"), (4, 2), compressors=c, order="F")
    put(g, "data/slash", VALUES, (2, 2), chunk_key_encoding={"name": "v2", "separator": "/"})
    put(g, "data/big", VALUES.astype(">f4"), (4, 3))
    put(g, "data/half", VALUES.astype("f2"), (4, 3))
    put(g, "data/bytes", VALUES.astype("u1"), (4, 3))
    put(g, "data/text", np.array(["a"] * ROWS), (4,))


def version3(root):
    g = zarr.open_group(str(root), mode="w", zarr_format=3)
    common(g, IMG)
    for name, kw in {
        "zstd": {},
        "none": dict(compressors=None),
        "gzip": dict(compressors=[GzipCodec()]),
        "crc": dict(compressors=[ZstdCodec(), Crc32cCodec()]),
        "blosc": dict(compressors=[BloscCodec(cname="zstd", shuffle="bitshuffle")]),
        "numcodecs_lz4": dict(compressors=[numcodecs.zarr3.LZ4()]),
        "dots": dict(chunk_key_encoding={"name": "default", "separator": "."}),
        "names_of_2": dict(chunk_key_encoding={"name": "v2", "separator": "."}),
        "big": dict(serializer=BytesCodec(endian="big")),
        "shards": dict(shards=(8, 3)),
        "shards_start": dict(shards={"shape": (8, 6), "index_location": "start"}),
        "transposed": dict(filters=[TransposeCodec(order=(1, 0))]),
    }.items():
        put(g, f"data/{name}", VALUES.astype("f4"), (2, 3), **kw)
    zarr.create(shape=VALUES.shape, chunks=(4, 4), dtype="i4", store=str(root), path="data/shards_inner", codecs=[ShardingCodec(
        chunk_shape=(2, 2), codecs=[TransposeCodec(order=(1, 0)), BytesCodec(endian="big"), GzipCodec()],
        index_codecs=[BytesCodec(endian="big")])])[...] = VALUES
    put(g, "data/nested/state", VALUES.astype("f4"), (4, 3))


def pack(root, name, method, prefix):
    files = sorted(p for p in root.rglob("*") if p.is_file())
    with zipfile.ZipFile(HERE / name, "w", method) as z:
        if prefix:
            z.writestr(prefix + "data/action/.zarray", "{}")
        for p in files:
            # A fixed time makes the archive the same each time.
            z.writestr(zipfile.ZipInfo(prefix + str(p.relative_to(root))), p.read_bytes(), method)


with tempfile.TemporaryDirectory() as tmp:
    version2(Path(tmp) / "a")
    pack(Path(tmp) / "a", "version2.zarr.zip", zipfile.ZIP_DEFLATED, "buffer.zarr/")
    version3(Path(tmp) / "b")
    pack(Path(tmp) / "b", "version3.zarr.zip", zipfile.ZIP_STORED, "")
