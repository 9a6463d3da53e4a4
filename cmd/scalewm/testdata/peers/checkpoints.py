"""python checkpoints.py OUT CASE: saves the model of CASE (weights.pt, config.json of
model/lewm/testdata/lewm_paper.py) as trainers save it, each way in a folder of OUT, with
config.json next to it. A second model with other weights, "ema", is saved with it where a
trainer keeps a moving average. Writes OUT/expected.json, what each folder is expected to
hold: {"folder", "args": flags of scalewm, "want": the folder with the plain state dict, or
"" for an error, "say": words of the output}.

Made for torch 2.15, pytorch_lightning 2.6, omegaconf 2.3, stable_worldmodel 0.1.1.
"""
import argparse
import collections
import copy
import dataclasses
import datetime
import enum
import functools
import json
import os
import pathlib
import shutil
import sys
import warnings

import numpy as np
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from safetensors.torch import save_file

warnings.filterwarnings("ignore")
out, case = sys.argv[1:]
config = os.path.join(case, "config.json")
expected = []


def build():
    with open(config) as f:
        model = instantiate(json.load(f))
    state = torch.load(os.path.join(case, "weights.pt"), weights_only=True)["state_dict"]
    model.load_state_dict({k.removeprefix("model."): v for k, v in state.items() if k.startswith("model.")})
    return model


def clean(sd):
    return {k: v.detach().clone() for k, v in sd.items()}


model, ema = build(), build()
with torch.no_grad():
    for p in ema.parameters():
        p.mul_(0.5)
sd, ema_sd = clean(model.state_dict()), clean(ema.state_dict())


def folder(name):
    path = os.path.join(out, name)
    os.makedirs(path)
    shutil.copy(config, path)
    return path


def expect(name, want, *args, say=(), file=""):
    expected.append({"folder": os.path.join(name, file), "args": args, "want": want, "say": say})


def put(name, content, want="model", say=(), file="weights.pt", **how):
    torch.save(content, os.path.join(folder(name), file), **how)
    expect(name, want, say=say)


def pre(prefix, d):
    return {prefix + k: v for k, v in d.items()}


put("model", sd)
put("ema", ema_sd, "ema")

# Wrapped modules.
part = build()
part.encoder, part.predictor = torch.compile(part.encoder), torch.compile(part.predictor)
put("compiled_parts", part.state_dict())
put("compiled", torch.compile(model).state_dict())
put("parallel", torch.nn.DataParallel(model).state_dict())
put("parallel_compiled", torch.nn.DataParallel(torch.compile(model)).state_dict())
put("compiled_parallel", torch.compile(torch.nn.DataParallel(model)).state_dict())
part = build()
part.encoder = torch.nn.DataParallel(part.encoder)
put("parallel_encoder", part.state_dict())
for prefix in "model.", "world_model.", "net.", "model.world_model.", "module.net._orig_mod.", "student.backbone.lewm.":
    put("prefix_" + prefix, pre(prefix, sd) | {"sigreg.t": torch.zeros(3)}, say=["sigreg (1)"])
put("both_spellings", sd | {"encoder._orig_mod.embeddings.cls_token": sd["encoder.embeddings.cls_token"]}, "", ["are both", "(hint:"])

# Names of files.
for file in "last.ckpt", "lewm.pth", "best.pth.tar", "pytorch_model.bin", "epoch=9-step=1234.ckpt":
    put("file_" + file, sd, file=file)
save_file(sd, os.path.join(folder("safetensors"), "lewm.safetensors"), metadata={"format": "pt"})
expect("safetensors", "model")
save_file(pre("model.", sd) | pre("ema.", ema_sd), os.path.join(folder("safetensors_two"), "model.safetensors"))
expect("safetensors_two", "", say=["--key", "model", "ema"])
expect("safetensors_two", "ema", "--key", "ema", say=["model"])
put("two_files", sd, "", ["a.ckpt", "weights.pt", "(hint:"])
torch.save(sd, os.path.join(out, "two_files", "a.ckpt"))
expect("two_files", "model", file="a.ckpt")
put("no_config", sd, "", ["config.json", "(hint:"])
os.remove(os.path.join(out, "no_config", "config.json"))


# Objects in a trainer's dict that no weights need.
class Mode(enum.Enum):
    FAST = 1


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Settings:
    lr: float = 1e-3
    path: pathlib.Path = pathlib.Path("/data")


class Table(dict):
    pass


loop = [1]
loop.append(loop)
looped = (loop, {})
looped[1]["self"] = looped
objects = {
    "hyper_parameters": OmegaConf.create({"model": {"dim": 16, "betas": [0.9, 0.95]}, "lr": 5e-5, "name": "${lr}"}),
    "defaults": collections.defaultdict(list, a=[1]), "counter": collections.Counter("aab"), "deque": collections.deque([1, 2]),
    "enum": Mode.FAST, "point": Point(1, 2), "settings": Settings(), "args": argparse.Namespace(lr=1e-3), "table": Table(a=1),
    "path": pathlib.PurePosixPath("/data"), "time": datetime.datetime(2026, 1, 1), "partial": functools.partial(int, base=2), "type": torch.nn.Linear,
    "set": {1, 2}, "frozen": frozenset([3]), "bytes": b"ab" * 300, "array": bytearray(b"xyz"), "complex": 1j, "big": 2 ** 100, "negative": -2 ** 90,
    "huge": 1 << 3000, "many": list(range(3000)), "text": "é" * 300, "loop": loop, "looped": looped, "range": range(3), "slice": slice(1, 2), "none": None,
    "numpy": np.arange(6.0), "scalar": np.float32(1.5), "dtype": np.dtype("int8"), "random": np.random.get_state(), "rng": torch.get_rng_state(),
    "device": torch.device("cpu"), "torch_dtype": torch.bfloat16, "size": torch.Size([1, 2]), "loss": torch.nn.MSELoss(),
}
optimizer = torch.optim.AdamW(model.parameters())
for p in model.parameters():
    p.grad = torch.ones_like(p)
optimizer.step()
model.load_state_dict(sd)
tensors = {
    "sparse": torch.eye(3).to_sparse(), "csr": torch.eye(3).to_sparse_csr(), "complex": torch.zeros(2, dtype=torch.complex64), "bool": torch.ones(3) > 0,
    "expanded": torch.zeros(1).expand(1000), "quantized": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "u16": torch.zeros(2, dtype=torch.uint16),
    "f8": torch.zeros(2).to(torch.float8_e4m3fn), "meta": torch.zeros(5, device="meta"), "parameter": torch.nn.Parameter(torch.zeros(3)),
    "flipped": torch.arange(3).conj(), "buffer": torch.nn.Buffer(torch.zeros(2)),
}
marked = torch.nn.Parameter(torch.ones(2))
marked.note = "extra"
trainer = {"epoch": 3, "state_dict": pre("model.", sd), "optimizer_states": [optimizer.state_dict()], "lr_schedulers": [{"last_epoch": 3}],
           "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_score": torch.tensor(0.5)}}, **objects}
for protocol in 2, 3, 4, 5:
    put(f"objects_{protocol}", trainer, pickle_protocol=protocol, file="last.ckpt")
put("strange_tensors", {"marked": marked, "others": tensors, "model": sd}, say=["others"])
put("objects_first", {**objects, "weights": sd})

# A run of Lightning itself.
import lightning_fabric  # noqa: E402,F401
import pytorch_lightning as pl  # noqa: E402
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint  # noqa: E402


class Lit(pl.LightningModule):
    def __init__(self, cfg):
        super().__init__()
        self.save_hyperparameters()
        self.world_model = build()
        self.register_buffer("knots", torch.zeros(17))

    def training_step(self, batch, _):
        loss = sum((p * p).sum() for p in self.parameters()) + 0 * batch.sum()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        o = torch.optim.AdamW(self.parameters(), lr=1e-9)
        return {"optimizer": o, "lr_scheduler": torch.optim.lr_scheduler.StepLR(o, 1)}


def fit(name, *callbacks):
    lit = Lit(OmegaConf.create({"lr": 5e-5, "run": "${lr}"}))
    t = pl.Trainer(max_steps=1, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=out,
                   callbacks=[EarlyStopping("loss", check_on_train_epoch_end=True), ModelCheckpoint(os.path.join(out, "saved_" + name), monitor="loss", save_last=True), *callbacks])
    t.fit(lit, torch.utils.data.DataLoader(torch.zeros(2, 1)))
    t.save_checkpoint(os.path.join(folder(name), "last.ckpt"))
    return lit


lit = fit("lightning")
put("lightning_weights", lit.world_model.state_dict(), "lightning_weights")
expect("lightning", "lightning_weights", say=["knots"])
try:
    from pytorch_lightning.callbacks import EMAWeightAveraging
except ImportError:
    pass
else:
    lit = fit("averaging", EMAWeightAveraging())
    expect("averaging", "", say=["--key", "state_dict", "current_model_state"])

# Moving averages.
for a, b in ("model_state_dict", "ema_state_dict"), ("state_dict", "state_dict_ema"), ("model", "ema"), ("net", "model_ema"):
    name = f"keys_{a}_{b}"
    put(name, {"epoch": 1, a: sd, b: pre("module.", ema_sd) | {"n_averaged": torch.tensor(3)}, "optimizer": optimizer.state_dict()}, "", ["--key", a, b])
    expect(name, "model", "--key", a, say=[b])
    expect(name, "ema", "--key", b, say=[a])
put("nested", {"ckpt": {"model": sd, "step": 3}, "args": argparse.Namespace()})
put("nested_two", {"ckpt": {"model": sd, "ema": ema_sd}}, "", ["ckpt.model", "ckpt.ema"])
expect("nested_two", "ema", "--key", "ema", say=["ckpt.model"])
expect("nested_two", "model", "--key", "ckpt.model", say=["ckpt.ema"])
expect("nested_two", "", "--key", "best", say=["ckpt.model", "ckpt.ema"])
put("prefixes", {"state_dict": pre("model.", sd) | pre("ema_model.module.", ema_sd) | {"ema_model.n_averaged": torch.tensor(1)}}, "",
    ["state_dict.model", "state_dict.ema_model"])
expect("prefixes", "ema", "--key", "ema_model", say=["state_dict.model"])
expect("prefixes", "model", "--key", "state_dict.model", say=["state_dict.ema_model"])
put("inner", sd | pre("ema_model.", ema_sd), say=["ema_model"])
expect("inner", "ema", "--key", "ema_model")
put("shadow", {"model": sd, "ema": {"decay": 0.99, "shadow_params": list(ema_sd.values())}}, say=["ema.shadow_params"])
put("lit_ema", pre("model.", sd) | {"model_ema." + k.replace(".", ""): v for k, v in ema_sd.items()}, say=["model_ema"])
put("averaged", torch.optim.swa_utils.AveragedModel(model).state_dict(), say=["n_averaged"])
put("one_dict_twice", {"model": sd, "state_dict": sd})
put("statistics", {"model": sd, "action_stats": {"mean": torch.zeros(2), "std": torch.ones(2)}}, say=["action_stats"])
for key in "module", "generator", "my net":
    put("key_" + key, {key: sd, "epoch": 1})

# Heads.
put("heads", sd | {"actor.net.0.weight": torch.zeros(3, 3), "inverse_model.w": torch.zeros(2), "log_std": torch.zeros(2)}, say=["actor (1)", "inverse_model", "log_std"])
put("foreign_inside", sd | {"encoder.pooler.dense.weight": torch.zeros(3, 3)}, "", ["encoder.pooler", "(hint:"])
put("missing", {k: v for k, v in sd.items() if k != "projector.net.0.bias"}, "", ["projector.net.0.bias", "(hint:"])
put("missing_root", {k: v for k, v in pre("model.", sd).items() if k != "model.encoder.embeddings.cls_token"}, "", ["encoder.embeddings.cls_token", "(hint:"])
put("number_inside", sd | {"epoch": 3}, "", ["epoch", "(hint:"])
put("object_inside", sd | {"cfg": Settings()}, "", ["Settings", "(hint:"])

# Modules and old files.
line = ["torch.load(p, weights_only=False)", 'torch.save(m.state_dict(), "weights.pt")']
put("module", model, "", line)
put("module_compiled", torch.compile(model), "", line)
put("module_parallel", torch.nn.DataParallel(model), "", line, pickle_protocol=4)
put("module_in_dict", {"args": Settings(), "epoch": 1, "model": model, "optimizer": optimizer.state_dict()}, "", ["LeWM", '["model"]', line[1]])
put("modules", {"encoder": model.encoder, "predictor": model.predictor, "optimizer": optimizer}, "", ["encoder", "predictor", line[1]])
torch.jit.script(torch.nn.Linear(2, 2)).save(os.path.join(folder("script"), "weights.pt"))
expect("script", "", say=["torch.save"])
put("old", sd, "", ["1.6", "(hint:"], _use_new_zipfile_serialization=False)
put("half", {k: v.half() if v.is_floating_point() else v for k, v in sd.items()}, "half")
put("empty", {}, "", ["(hint:"])
put("list", [sd], "", ["(hint:"])
with open(os.path.join(folder("pointer"), "weights.pt"), "w") as f:
    f.write("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
expect("pointer", "", say=["git lfs pull"])
with open(os.path.join(out, "expected.json"), "w") as f:
    json.dump(expected, f)
