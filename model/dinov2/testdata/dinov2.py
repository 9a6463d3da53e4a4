"""Writes OUT/NAME/{model.safetensors or weights.pth, config.json, reference.h5}:
Dinov2Model of transformers in evaluation mode, from random weights and frames,
in float64 (f32: in float32).

Made with Python 3.11, torch 2.15.0, transformers 5.23.0, h5py 3.16.0:
    python dinov2.py reference dinov2_tiny dinov2_stored dinov2_hub
The published geometry (88 MB each, not kept; SCALEWM_REFERENCE_DIR=OUT runs them):
    python dinov2.py OUT dinov2_small dinov2_small_hub

The hub's code itself is not needed: its names are those of `hub_names`, and its
features those of Dinov2Model with the position table resampled as it asks PyTorch.
"""
import os
import re
import sys

import h5py
import numpy as np
import torch
from transformers import Dinov2Config, Dinov2Model

SMALL = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6, "mlp_ratio": 4, "image_size": 518, "patch_size": 14,
         "frames": [224, 196], "n": 2}
TINY = SMALL | {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "image_size": 28, "patch_size": 4, "n": 3}
CASES = {
    "dinov2_small": SMALL,
    "dinov2_small_hub": SMALL | {"hub": True},
    # A table of 7 x 7 for frames of 4 x 4, 6 x 6 (and an edge that is left over) and 9 x 9 patches.
    "dinov2_tiny": TINY | {"frames": [16, 27, 36]},
    # Frames that the table is for; heads of another width than 64 need the config.json.
    "dinov2_stored": TINY | {"frames": [28], "num_attention_heads": 4, "num_hidden_layers": 1},
    # The hub's names in a file of torch.save: no config.json, so heads of 64.
    "dinov2_hub": TINY | {"hidden_size": 64, "num_attention_heads": 1, "mlp_ratio": 1, "num_hidden_layers": 1, "frames": [20], "hub": True},
}


def build(c):
    keys = ["hidden_size", "num_hidden_layers", "num_attention_heads", "mlp_ratio", "image_size", "patch_size"]
    model = Dinov2Model(Dinov2Config(**{k: c[k] for k in keys})).eval()
    with torch.no_grad():  # nothing stays at its initial zero or one; layers scale unlike each other
        for name, p in model.named_parameters():
            p += (.3 if "lambda" in name or "norm" in name else .03) * torch.randn_like(p)
        model.embeddings.position_embeddings += .5 * torch.randn_like(model.embeddings.position_embeddings)
    return model


def hub_names(state):
    out = {}
    for name, v in state.items():
        name = re.sub(r"^encoder\.layer\.", "blocks.", name)
        for a, b in [("embeddings.patch_embeddings.projection", "patch_embed.proj"), ("embeddings.position_embeddings", "pos_embed"), ("embeddings.", ""),
                     ("layernorm.", "norm."), ("attention.attention.", "attn."), ("attention.output.dense", "attn.proj"),
                     ("attention.o_proj", "attn.proj"), ("attention.q_proj", "attn.query"), ("attention.k_proj", "attn.key"),
                     ("attention.v_proj", "attn.value"), ("layer_scale1.lambda1", "ls1.gamma"), ("layer_scale2.lambda1", "ls2.gamma")]:
            name = name.replace(a, b)
        out[name] = v
    for name in [n for n in out if ".attn.query." in n]:
        parts = [out.pop(name.replace("query", q)) for q in ("query", "key", "value")]
        out[name.replace("query", "qkv")] = torch.cat(parts)
    return out


def hub_table(self, embeddings, height, width):
    """The factor (n + 0.1) / M instead of the size n."""
    pos, m = self.position_embeddings, round((self.position_embeddings.shape[1] - 1) ** .5)
    n = height // self.patch_size
    if n == m:
        return pos
    grid = pos[:, 1:].reshape(1, m, m, -1).permute(0, 3, 1, 2).float()
    s = (n + .1) / m
    grid = torch.nn.functional.interpolate(grid, mode="bicubic", antialias=False, scale_factor=(s, s)).to(pos.dtype)
    assert grid.shape[-1] == n
    return torch.cat((pos[:, :1], grid.permute(0, 2, 3, 1).reshape(1, n * n, -1)), 1)


def normalised(px, dtype):
    x = torch.from_numpy(px).to(dtype).permute(0, 3, 1, 2) / 255
    mean, std = (torch.tensor(v, dtype=dtype).view(3, 1, 1) for v in ([.485, .456, .406], [.229, .224, .225]))
    return (x - mean) / std


def write(out, name, seed):
    c = CASES[name]
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    model = build(c)
    if c.get("hub"):
        type(model.embeddings).interpolate_pos_encoding = hub_table
        torch.save(hub_names(model.state_dict()), os.path.join(folder, "weights.pth"))
    else:
        model.save_pretrained(folder)
    suffix = "_hub" if c.get("hub") else ""
    with h5py.File(os.path.join(folder, "reference.h5"), "w") as h:
        for size in c["frames"]:
            px = random.integers(0, 256, (c["n"], size, size, 3), dtype=np.uint8)
            px[0, : size // 2] = 255 - px[0, : size // 2] // 8  # not all noise
            g = h.create_group(f"px{size}{suffix}")
            put = lambda k, v: g.create_dataset(k, data=v, compression="gzip", shuffle=True)
            put("pixels", px)
            with torch.no_grad():
                m = model.double()
                x = normalised(px, torch.float64)
                last = m(pixel_values=x).last_hidden_state
                put("patch_tokens", last[:, 1:].numpy())
                put("cls", last[:, 0].numpy())
                rows = m.embeddings.patch_embeddings(x)
                put("position_table", m.embeddings.interpolate_pos_encoding(torch.cat((rows[:, :1], rows), 1), size, size)[0].numpy())
            model.float()


if __name__ == "__main__":
    for i, case in enumerate(sys.argv[2:]):
        write(sys.argv[1], case, 100 + i)
