"""Writes schema.h5: a root group with one data set of each type that h5py can write
and NumPy has a short name for. Each has its str(dtype), as h5py reads it, and its
shape as attributes of the root group, TYPE and SHAPE of NAME being "NAME:dtype" and
"NAME:shape"; those without a name here have none.

python make_schema.py
"""

import h5py
import numpy as np

text = h5py.string_dtype()
TYPES = {c + str(n): np.dtype(c + str(n)) for c in "iu" for n in (1, 2, 4, 8)}
TYPES |= {"f" + str(n): np.dtype("f" + str(n)) for n in (2, 4, 8)}
TYPES |= {"big_" + k: d.newbyteorder(">") for k, d in TYPES.items()}
TYPES |= {
    "bool": np.dtype(bool),
    "s12": np.dtype("S12"),
    "utf8_7": h5py.string_dtype("utf-8", 7),
    "text": text,
    "ragged": h5py.vlen_dtype(np.float32),
    "colour": h5py.enum_dtype({"RED": 0, "BLUE": 1}, "u1"),
    "colour_big": h5py.enum_dtype({"RED": 0, "BLUE": 1}, ">i4"),
    "almost_bool": h5py.enum_dtype({"FALSE": 0, "TRUE": 2}, "i1"),
    "wide_bool": h5py.enum_dtype({"FALSE": 0, "TRUE": 1}, ">i2"),
    "opaque": np.dtype("V8"),
    "reference": h5py.ref_dtype,
}
with h5py.File("schema.h5", "w") as f:
    for name, dtype in TYPES.items():
        f.create_dataset(name, (2, 3), dtype)
    f["scalar"] = np.float32(1)
    f["schöne Größe \U0001f600"] = np.zeros(3, "i4")
    f["record"] = np.zeros(2, [("x", "f4")])
    f["nothing"] = h5py.Empty("f4")
    f.create_group("group")["inner"] = np.zeros(2)
    f["link"] = h5py.SoftLink("/group/inner")
    for name in list(f):
        d = f[name]
        if isinstance(d, h5py.Dataset) and name not in ("record", "nothing"):
            f.attrs[name + ":dtype"] = str(d.dtype)
            f.attrs[name + ":shape"] = str(list(d.shape))
