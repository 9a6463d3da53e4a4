#!/usr/bin/env python3
"""Builds a wheel from the library, its launcher, the Python sources next to this file and fetched files.

    wheel.py LIBRARY LAUNCHER FETCHED VERSION DIST

It needs Python's standard library and objdump. objdump determines the platform tag: the oldest glibc
that has all symbol versions that the library needs.
"""

import base64
import hashlib
import importlib.util
import json
import re
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = "scalewm/scalewm"
METADATA = """Metadata-Version: 2.4
Name: scalewm
Version: {version}
Summary: Latent world models, from the simulator to a paired report: worlds, data, models, planning, and the program
License-Expression: Apache-2.0
{licences}
Keywords: world models,planning,robotics,gymnasium,reproducibility
Classifier: Development Status :: 4 - Beta
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Go
Classifier: Programming Language :: Python :: 3
Classifier: Programming Language :: Python :: 3 :: Only
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Typing :: Typed
{urls}
Requires-Python: >=3.10
Requires-Dist: numpy>=1.26
Requires-Dist: gymnasium>=1.1
"""
SCRIPTS = """[console_scripts]
scalewm = scalewm.__main__:main
"""
WHEEL = """Wheel-Version: 1.0
Generator: scalewm
Root-Is-Purelib: false
Tag: {tag}
"""


def described(library, fetched):
    """Returns the library's description of its tasks as JSON, for use before the library is opened."""
    spec = importlib.util.spec_from_file_location("_abi", HERE / "scalewm" / "_abi.py")
    abi = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(abi)
    return json.dumps(abi._call(abi._Library(library.resolve()), "open", 0, {"home": str(fetched), "environment": {}}, ()))


def platform_tag(libraries):
    """Returns the tag of the platforms on which these libraries can be loaded."""
    versions = [(0, 0)]
    for library in libraries:
        symbols = subprocess.run(["objdump", "-T", library], check=True, capture_output=True, text=True).stdout
        versions += [tuple(map(int, v)) for v in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols)]
    return "py3-none-manylinux_{}_{}_x86_64".format(*max(versions))


def contents(library, launcher, fetched):
    """Returns the wheel's files: (path in the wheel, file)."""
    files = [(f"scalewm/{f.name}", f) for f in sorted((HERE / "scalewm").glob("*.py"))]
    files += [("scalewm/py.typed", HERE / "scalewm" / "py.typed"), ("scalewm/libscalewm.so", library), (PROGRAM, launcher)]
    files += [(f"scalewm/{f.name}", f) for f in sorted((fetched / "mujoco").glob("libmujoco.so.*"))]
    models = fetched / "ogbench" / "descriptions"
    files += [(f"scalewm/descriptions/{f.relative_to(models)}", f) for f in sorted(models.rglob("*")) if f.is_file()]
    return files


def licences(fetched):
    """Returns the licences of this project and of everything the wheel contains."""
    files = [ROOT / "LICENSE", ROOT / "NOTICE", fetched / "ogbench" / "LICENSE"]
    return [(f"{f.parent.name}-{f.name}" if f.parent != ROOT else f.name, f) for f in files + sorted((fetched / "mujoco" / "licenses").rglob("*")) if f.is_file()]


def urls():
    """Returns the addresses of the project that CITATION.cff gives, and that of the simulators' reference implementation."""
    cited = dict(re.findall(r'^(repository-code|url): "?([^"\n]+)', (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    labels = {"repository-code": "Source", "url": "Homepage"}
    return {labels[key]: url for key, url in cited.items()} | {"Reference simulators": "https://github.com/galilai-group/stable-worldmodel"}


def main(library, launcher, fetched, version, dist):
    library, fetched, dist = Path(library), Path(fetched), Path(dist)
    files = contents(library, Path(launcher), fetched)
    tag = platform_tag([f for name, f in files if is_binary(name)])
    info = f"scalewm-{version}.dist-info"
    licensed = licences(fetched)
    files += [(f"{info}/licenses/{name}", f) for name, f in licensed]
    texts = {
        "scalewm/tasks.json": described(library, fetched),
        f"{info}/METADATA": METADATA.format(
            version=version,
            licences="\n".join(f"License-File: {name}" for name, _ in licensed),
            urls="\n".join(f"Project-URL: {label}, {url}" for label, url in urls().items()),
        ),
        f"{info}/entry_points.txt": SCRIPTS,
        f"{info}/WHEEL": WHEEL.format(tag=tag),
    }
    dist.mkdir(parents=True, exist_ok=True)
    for old in dist.glob("scalewm-*.whl"):
        old.unlink()
    out = dist / f"scalewm-{version}-{tag}.whl"
    record = ""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for name, data in [(n, f.read_bytes()) for n, f in files] + [(n, t.encode()) for n, t in texts.items()]:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
            write(z, name, data)
        write(z, f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode())
    print(f"{out} ({out.stat().st_size / 1e6:.1f} MB)")


def is_binary(name):
    """Returns whether a file of the wheel is a library or the program."""
    return ".so" in name or name == PROGRAM


def write(z, name, data):
    """Writes an entry with a fixed time and mode, so that the same contents give the same wheel. pip makes regular files executable whose mode says so."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.external_attr = (stat.S_IFREG | (0o755 if is_binary(name) else 0o644)) << 16
    z.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    main(*sys.argv[1:])
