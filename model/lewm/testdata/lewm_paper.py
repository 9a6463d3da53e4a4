"""Writes OUT/lewm_paper_NAME/{weights.pt,config.json,reference.h5}: the original
modules (stable_worldmodel.wm.lewm, Hugging Face's ViT) in evaluation mode, in
float64 and in float32, from random weights and inputs.

Made with Python 3.11, torch 2.15.0, transformers 4.57.6, stable-worldmodel
0.1.1, h5py 3.16.0:
    python lewm_paper.py reference tiny five odd one wide bare larger
The published geometry (72 MB, not kept; SCALEWM_REFERENCE_DIR=OUT runs it):
    python lewm_paper.py OUT full
"""
import functools
import json
import os
import re
import sys

import h5py
import numpy as np
import torch
from stable_worldmodel.wm.lewm.lewm import LeWM
from stable_worldmodel.wm.lewm.module import MLP, Embedder, Predictor
from torch import nn
from transformers import ViTConfig, ViTModel

FULL = {"image": 224, "patch": 14, "width": 192, "layers": 12, "heads": 3, "mlp": 768, "dim": 192, "hidden": 2048, "frames": 3,
        "depth": 6, "pheads": 16, "head_dim": 64, "pmlp": 2048, "block": 10, "b": 2, "t": 4, "s": 3}
SMALL = FULL | {"image": 16, "patch": 8, "width": 12, "layers": 2, "heads": 3, "mlp": 20, "dim": 6, "hidden": 14, "depth": 2,
                "pheads": 2, "head_dim": 5, "pmlp": 18}
CASES = {
    "full": FULL,
    "tiny": SMALL,
    # Names of transformers 5, in a Lightning module beside SIGReg's buffers.
    "five": SMALL | {"image": 20, "patch": 4, "heads": 4, "width": 20, "mlp": 24, "dim": 7, "pheads": 3, "block": 25, "spelling": 5},
    # An edge that the patch does not divide.
    "odd": SMALL | {"image": 30, "layers": 1, "depth": 1},
    # Blocks of the predictor that are wider than the latents; projectors unlike each other.
    "wide": SMALL | {"inside": 10, "pred_hidden": 11},
    # One predictor head as wide as its block has no output projection; predictions
    # narrower than the latents; an action embedder of another hidden width.
    "bare": SMALL | {"pheads": 1, "head_dim": 6, "out": 5, "scale": 2},
    # Frames of another size than the position table is for.
    "larger": SMALL | {"frame": 41},
    "one": SMALL | {"image": 18, "patch": 6, "frames": 1, "pheads": 5, "head_dim": 4, "block": 6, "dtype": torch.float64},
}


class AnyEmbedder(Embedder):
    """The original casts its input to float32, which a float64 model refuses."""

    def forward(self, x):
        return self.embed(self.patch_embed(x.permute(0, 2, 1)).permute(0, 2, 1))


def build(c):
    vit = ViTModel(ViTConfig(hidden_size=c["width"], num_hidden_layers=c["layers"], num_attention_heads=c["heads"],
                             intermediate_size=c["mlp"], image_size=c["image"], patch_size=c["patch"]),
                   add_pooling_layer=False, use_mask_token=False)
    d = c["dim"]
    predictor = Predictor(num_frames=c["frames"], input_dim=d, hidden_dim=c.get("inside", d), output_dim=c.get("out", d), depth=c["depth"],
                          heads=c["pheads"], mlp_dim=c["pmlp"], dim_head=c["head_dim"], dropout=.1, emb_dropout=0.)
    mlp = functools.partial(MLP, output_dim=d, norm_fn=nn.BatchNorm1d)
    model = LeWM(vit, predictor, AnyEmbedder(input_dim=c["block"], emb_dim=d, mlp_scale=c.get("scale", 4)), mlp(c["width"], c["hidden"]),
                 mlp(c.get("out", d), c.get("pred_hidden", c["hidden"]))).eval()
    with torch.no_grad():  # nothing stays at its initial zero or one
        for p in model.parameters():
            p += .03 * torch.randn_like(p)
        for m in (model.projector.net[1], model.pred_proj.net[1]):
            m.running_mean.normal_(0, .3)
            m.running_var.uniform_(.5, 1.5)
            m.num_batches_tracked.fill_(1234)
    return model


def config(c):
    swm, d = "stable_worldmodel.wm.lewm.", c["dim"]
    mlp = {"_target_": swm + "module.MLP", "output_dim": d, "hidden_dim": c["hidden"],
           "norm_fn": {"_target_": "torch.nn.BatchNorm1d", "_partial_": True}}
    vit = {"_target_": "stable_pretraining.backbone.utils.vit_hf", "size": "tiny", "patch_size": c["patch"],
           "image_size": c["image"], "pretrained": False, "use_mask_token": False}
    if c["width"] != 192:
        vit |= {"hidden_size": c["width"], "num_hidden_layers": c["layers"], "num_attention_heads": c["heads"], "intermediate_size": c["mlp"]}
    scale = {"mlp_scale": c["scale"]} if "scale" in c else {}
    return {"_target_": swm + "LeWM", "encoder": vit,
            "predictor": {"_target_": swm + "module.Predictor", "num_frames": c["frames"], "input_dim": d, "hidden_dim": c.get("inside", d),
                          "output_dim": c.get("out", d), "depth": c["depth"], "heads": c["pheads"], "mlp_dim": c["pmlp"], "dim_head": c["head_dim"], "dropout": .1,
                          "emb_dropout": 0.},
            "action_encoder": {"_target_": swm + "module.Embedder", "input_dim": c["block"], "emb_dim": d} | scale,
            "projector": mlp | {"input_dim": c["width"]}, "pred_proj": mlp | {"input_dim": c.get("out", d), "hidden_dim": c.get("pred_hidden", c["hidden"])}}


FIVE = {"attention.attention.query": "attention.q_proj", "attention.attention.key": "attention.k_proj",
        "attention.attention.value": "attention.v_proj", "attention.output.dense": "attention.o_proj",
        "intermediate.dense": "mlp.fc1", "output.dense": "mlp.fc2"}


def spell(name):
    for four, five in FIVE.items():
        name = re.sub(rf"encoder\.encoder\.layer\.(\d+)\.{four}\.", rf"encoder.layers.\1.{five}.", name)
    return re.sub(r"encoder\.encoder\.layer\.", "encoder.layers.", name)


def save(model, c, path):
    tensors = {k: v.to(c.get("dtype", torch.float32)) if v.is_floating_point() else v for k, v in model.state_dict().items()}
    if c.get("spelling") == 5:
        tensors = {"model." + spell(k): v for k, v in tensors.items()} | {"sigreg.t": torch.linspace(0, 3, 17)}
        tensors = {"epoch": 3, "state_dict": tensors}
    torch.save(tensors, path)


def inputs(c, seed):
    r, edge = np.random.default_rng(seed), c.get("frame", c["image"])
    x = {"pixels": r.integers(0, 256, (c["b"], c["t"], edge, edge, 3), np.uint8), "goal": r.integers(0, 256, (c["b"], 1, edge, edge, 3), np.uint8),
         "action": r.normal(size=(c["b"], c["t"], c["block"])).astype(np.float32),
         "candidates": r.normal(size=(c["b"], c["s"], 5, c["block"])).astype(np.float32)}
    x["action"][0, 1, 2] = x["candidates"][1, 2, 4, 0] = np.nan  # they become 0
    return x


@torch.no_grad()
def record(model, x, dtype):
    model = model.to(dtype)
    mean, std = (torch.tensor(v, dtype=dtype).view(3, 1, 1) for v in ([.485, .456, .406], [.229, .224, .225]))

    def pixels(name):
        return (torch.tensor(x[name]).permute(0, 1, 4, 2, 3).to(dtype) / 255 - mean) / std

    def actions(name):
        return torch.nan_to_num(torch.tensor(x[name]).to(dtype))

    info = model.encode({"pixels": pixels("pixels"), "action": actions("action")})
    out = {"emb": info["emb"], "act_emb": info["act_emb"]}
    out["cls"] = model.encoder(pixels("pixels").flatten(0, 1), interpolate_pos_encoding=True).last_hidden_state[:, 0].unflatten(0, out["emb"].shape[:2])
    k = min(3, model.predictor.num_frames)
    out["pred"] = model.predict(out["emb"][:, :k], out["act_emb"][:, :k])
    plans = actions("candidates")
    s = plans.shape[1]
    goal_emb, rollout, cost = [], [], []
    for b in range(len(plans)):  # 0.1.1 mixes environments up, one at a time it does not
        start = pixels("pixels")[b:b + 1, :1].unsqueeze(1).expand(-1, s, -1, -1, -1, -1)
        goal = pixels("goal")[b:b + 1].unsqueeze(1).expand(-1, s, -1, -1, -1, -1)
        info = {"pixels": start, "goal": goal, "action": plans[b:b + 1, :, :1]}
        cost.append(model.get_cost(info, plans[b:b + 1]))
        goal_emb.append(info["goal_emb"])
        rollout.append(info["predicted_emb"])
    return out | {"goal_emb": torch.cat(goal_emb), "rollout": torch.cat(rollout), "cost": torch.cat(cost)}


def main(out, names):
    for seed, name in enumerate(names):
        c, folder = CASES[name], os.path.join(out, "lewm_paper_" + name)
        os.makedirs(folder, exist_ok=True)
        torch.manual_seed(seed)
        model, x = build(c), inputs(c, seed)
        if c.get("dtype"):
            model = model.to(c["dtype"])
        save(model, c, os.path.join(folder, "weights.pt"))
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(config(c), f, indent=1)
        with h5py.File(os.path.join(folder, "reference.h5"), "w", libver=("v108", "v110")) as f:
            for k, v in x.items():
                f.create_dataset(f"input/{k}", data=v, compression="gzip", shuffle=True)
            for group, dtype in {"f64": torch.float64, "f32": torch.float32}.items():
                for k, v in record(model, x, dtype).items():
                    f.create_dataset(f"{group}/{k}", data=v.numpy(), compression="gzip", shuffle=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
