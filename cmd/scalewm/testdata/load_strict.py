"""python load_strict.py DIR CASE: loads DIR's weights.pt and config.json as
stable-worldmodel does (torch.load that runs nothing, modules from the Hydra
tree, strict), and compares with the latents that the original made of CASE
(model/lewm/testdata/lewm_paper.py) before its weights came to DIR. Prints
"equal".

Hydra and stable_pretraining are used where they are installed; otherwise the
tree is walked here and the encoder made with transformers.
"""
import importlib
import json
import os
import sys

import h5py
import torch

folder, case = sys.argv[1:]


def encoder(size, patch_size, image_size, pretrained, use_mask_token, **more):
    from transformers import ViTConfig, ViTModel

    sizes = {"tiny": {"hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768}}
    return ViTModel(ViTConfig(**(sizes[size] | {"patch_size": patch_size, "image_size": image_size} | more)),
                    add_pooling_layer=False, use_mask_token=use_mask_token)


def make(tree):
    if not isinstance(tree, dict):
        return tree
    args = {k: make(v) for k, v in tree.items() if not k.startswith("_")}
    module, name = tree["_target_"].rsplit(".", 1)
    target = encoder if name == "vit_hf" else getattr(importlib.import_module(module), name)
    return target if tree.get("_partial_") else target(**args)


state = torch.load(os.path.join(folder, "weights.pt"), weights_only=True)
try:
    import hydra, stable_pretraining  # noqa: E401,F401
    from stable_worldmodel.wm.utils import load_pretrained

    model = load_pretrained(os.path.abspath(folder))
except ImportError:
    with open(os.path.join(folder, "config.json")) as f:
        model = make(json.load(f))
    model.load_state_dict(state)
model.eval()
with h5py.File(os.path.join(case, "reference.h5")) as f, torch.no_grad():
    px, want = torch.tensor(f["input/pixels"][:]), torch.tensor(f["f32/emb"][:])
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ([.485, .456, .406], [.229, .224, .225]))
    got = model.encode({"pixels": (px.permute(0, 1, 4, 2, 3).float() / 255 - mean) / std})["emb"]
print("equal" if torch.allclose(got, want, atol=1e-5) else f"differ by {(got - want).abs().max()}")
