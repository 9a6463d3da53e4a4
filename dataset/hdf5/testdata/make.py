"""Writes the files of this folder: the ways in which others store the layout.

Made with h5py 3.16.0 (HDF5 2.0.0), hdf5plugin 7.1.0, numpy 2.4.6 and
stable-worldmodel 0.1.1. Run it in this folder. The values follow the formulas
of fixtures_test.go, so that the tests need no copy of them.
"""

import h5py
import hdf5plugin
import numpy as np

V110 = ("v110", "v110")


def frames(rows):
    r, y, x, c = np.ogrid[0:rows, 0:224, 0:224, 0:3]
    return ((r * 7 + y // 8 * 3 + x // 16 * 5 + c * 11) % 256).astype(np.uint8)


def values(rows, width, dtype):
    r, k = np.ogrid[0:rows, 0:width]
    return (r * 3 % 64 + k * 16 - 32).astype(dtype)


def index(f, lens, dtype=np.int32, idx="ep_idx"):
    lens = np.array(lens)
    f["ep_len"] = lens.astype(dtype)
    f["ep_offset"] = (np.cumsum(lens) - lens).astype(np.int64 if dtype == np.int64 else np.int32)
    f[idx] = np.repeat(np.arange(len(lens)), lens).astype(np.int32)
    f["step_idx"] = np.concatenate([np.arange(n) for n in lens]).astype(np.int32)


def make(name, lens, libver="earliest", pixels=None, state=None, more=None, **kw):
    rows = sum(lens)
    with h5py.File(name + ".h5", "w", libver=libver, track_order=False) as f:
        index(f, lens, **kw)
        if pixels is not None:
            f.create_dataset("pixels", data=frames(rows), **pixels)
        f.create_dataset("state", data=values(rows, 7, np.float32), **(state or {}))
        if more:
            more(f, rows)
        f.attrs["env"] = "tworoom"
        f.attrs["fixed"] = np.bytes_("fixed text")


make("plain", [1, 1])
make("plain_pixels", [1], pixels={})
make("gzip_shuffle", [5, 6, 12], pixels=dict(chunks=(1, 224, 224, 3), compression="gzip", shuffle=True),
     state=dict(chunks=(5, 7), compression="gzip", shuffle=True))
make("gzip_7", [20, 10], libver=V110, pixels=dict(chunks=(7, 224, 224, 3), compression="gzip"),
     state=dict(chunks=(4, 3), compression="gzip", shuffle=True, fletcher32=True))
make("boxes", [6, 5], pixels=dict(chunks=(4, 100, 56, 2), compression="gzip"))
make("lzf_growing", [5, 6], libver=V110, pixels=dict(chunks=(1, 224, 224, 3), maxshape=(None, 224, 224, 3), compression="lzf"),
     state=dict(chunks=(2, 7), maxshape=(None, 7), compression="lzf", shuffle=True))
make("zstd", [5, 6], pixels=dict(chunks=(2, 224, 224, 3), **hdf5plugin.Zstd()))

# The writer of the published files: 100 rows a chunk, Blosc lz4 level 5 with
# byte shuffle; the other columns 1000 rows a chunk.
make("published", [60, 70], dtype=np.int64, idx="episode_idx",
     pixels=dict(chunks=(100, 224, 224, 3), maxshape=(None, 224, 224, 3), **hdf5plugin.Blosc(cname="lz4", clevel=5, shuffle=1)),
     state=dict(chunks=(100, 7), maxshape=(None, 7), **hdf5plugin.Blosc(cname="lz4", clevel=5, shuffle=1)))


def blosc(cname, shuffle, level=5):
    return hdf5plugin.Blosc(cname=cname, clevel=level, shuffle=shuffle)


def codecs(f, rows):
    for cname in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        for shuffle in (0, 1, 2):
            for dtype in ("f4", "f8", "u1"):
                f.create_dataset(f"{cname}_{shuffle}_{dtype}", data=values(rows, 5, dtype), chunks=(1000, 5), **blosc(cname, shuffle))
    f.create_dataset("stored_0_f4", data=values(rows, 5, "f4"), chunks=(1000, 5), **blosc("lz4", 1, 0))


make("blosc", [1100, 103], more=codecs)


def types(f, rows):
    for dt in ("f2", "f4", "f8", ">f4", ">f8", "i1", "i2", "i4", "i8", ">i2", ">i8", "u1", "u2", "u4", "u8"):
        f["t_" + dt.replace(">", "b")] = np.abs(values(rows, 2, np.float64)).astype(dt)
    f["flag"] = values(rows, 1, np.float64)[:, 0] > 0  # an enum of FALSE and TRUE
    f["matrix"] = values(rows, 6, np.float64).reshape(rows, 2, 3)
    f["words"] = np.array([b"left out"] * rows)
    f["ep_return"] = np.array([1.0, 2.0])
    f["half"] = np.array([0, 1, -2, 65504, 2**-24, np.inf, -np.inf, np.nan, 0.333, 1e-7], np.float16)[:rows, None]


make("types", [4, 6], more=types)


def indexes(f, rows):
    f.create_dataset("paged", data=values(rows, 1, np.uint8) + 32, chunks=(1, 1))
    f.create_dataset("paged_gzip", data=values(rows, 1, np.float32), chunks=(2, 1), compression="gzip")
    f.create_dataset("growing", data=values(rows, 1, np.float32), chunks=(2, 1), maxshape=(None, 1))
    f.create_dataset("growing_gzip", data=values(rows, 1, np.float32), chunks=(3, 1), maxshape=(None, 1), compression="gzip")
    f.create_dataset("single", data=values(rows, 1, np.float32), chunks=(rows, 1))
    f.create_dataset("single_gzip", data=values(rows, 1, np.float32), chunks=(rows, 1), compression="gzip")
    f.create_dataset("btree2", data=values(rows, 2, np.float32), chunks=(100, 2), maxshape=(None, None), compression="gzip")
    p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    p.set_chunk((100, 1))
    p.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    d = h5py.h5d.create(f.id, b"implicit", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple((rows, 1)), p)
    h5py.Dataset(d)[...] = values(rows, 1, np.float32)
    s = f.create_dataset("sparse", shape=(rows, 1), dtype="f4", chunks=(10, 1), fillvalue=-7)
    s[500:505] = values(rows, 1, np.float32)[500:505]
    never = f.create_dataset("never", shape=(rows, 1), dtype="i2", fillvalue=9)
    assert never.chunks is None


make("indexes", [2000, 1100], libver=V110, more=indexes)
make("indexes_old", [300, 250], more=indexes)


def swm():
    from stable_worldmodel.data.formats.hdf5 import HDF5Writer

    with HDF5Writer("swm_writer.h5", mode="overwrite") as w:
        v, at = values(11, 7, np.float32), 0
        for n in (5, 6):
            w.write_episode({"state": v[at : at + n], "done": [False] * (n - 1) + [True]})
            at += n


swm()


# libver "latest" of HDF5 2.0: booleans, filters and layouts that libhdf5 1.10 cannot open.
def latest(f, rows):
    f.create_dataset("flag", data=values(rows, 1, np.float64)[:, 0] > 0, chunks=(1,), maxshape=(None,))
    f.create_dataset("flag_plain", data=values(rows, 1, np.float64)[:, 0] > 0)
    f.create_dataset("fixed_gzip", data=values(rows, 2, np.float32), chunks=(3, 2), compression="gzip")
    f.create_dataset("single_blosc", data=values(rows, 5, np.float64), chunks=(rows, 5), **blosc("lz4", 1))
    s = f.create_dataset("sparse", shape=(rows, 1), dtype="f4", chunks=(2, 1), fillvalue=-7, compression="gzip")
    s[6:8] = values(rows, 1, np.float32)[6:8]


# A user block before the file: the library finds the chunks.
with h5py.File("userblock.h5", "w", userblock_size=512) as f:
    index(f, [5, 6])
    f.create_dataset("state", data=values(11, 7, np.float32), chunks=(2, 7), compression="gzip")
    f["contiguous"] = values(11, 7, np.float32)

make("latest", [5, 6], libver="latest", more=latest,
     pixels=dict(chunks=(1, 224, 224, 3), maxshape=(None, 224, 224, 3), compression="gzip"),
     state=dict(chunks=(1, 7), maxshape=(None, 7), shuffle=True, fletcher32=True, compression="lzf"))


# An index that our parser leaves to the library: the second extent can grow.
def sideways(f, rows):
    d = f.create_dataset("sideways", shape=(rows, 3), dtype="f4", chunks=(2, 2), maxshape=(rows, None), fillvalue=-7, compression="gzip")
    d[4:8] = values(rows, 3, np.float32)[4:8]


make("sideways", [5, 6], libver=V110, more=sideways)


# Columns behind soft links, and what is no column. t_ns holds integers that float64 cannot hold.
with h5py.File("links.h5", "w") as f:
    index(f, [5, 6])
    f["group/state"] = values(11, 7, np.float32)
    f["state"], f["chain"], f["by_group"] = h5py.SoftLink("/group/state"), h5py.SoftLink("state"), h5py.SoftLink("linked/state")
    f["linked"], f["hard"] = h5py.SoftLink("/group"), f["group"]
    f["cycle"], f["cycle2"], f["dangling"] = h5py.SoftLink("/cycle2"), h5py.SoftLink("/cycle"), h5py.SoftLink("/nothing")
    f["external"], f["root"], f["by_root"] = h5py.ExternalLink("plain.h5", "/state"), h5py.ExternalLink("plain.h5", "/"), h5py.SoftLink("/root/state")
    f["type"] = np.dtype("f8")
    f["n" * 255], f["n" * 256] = np.arange(11), np.arange(11)
    f["t_ns"] = 1_790_000_000_000_000_001 + np.arange(11)
    f["t_be"] = (2**60 + 1 + np.arange(11)).astype(">i8")
    f["t_u"] = np.uint64(2**64 - 1) - np.arange(11, dtype=np.uint64)
    f["nan"] = (np.uint64(0x7FF0DEAD00000001) + np.arange(11, dtype=np.uint64)).view("f8")
    f.attrs["fps"] = 30
