"""Loads the folder DIR, which `scalewm weights convert` wrote, as stable-worldmodel does:
the modules of its config.json, every tensor by name and shape. Prints what the model
predicts of four frames of stripes, the numbers of a token that are not the action's.

    python load_strict.py DIR
"""
import json
import sys

import torch
from stable_worldmodel.wm.utils import load_pretrained

model = load_pretrained(sys.argv[1]).eval()
edge = round(model.predictor.num_patches**.5) * model.backbone.config.patch_size
pixels = (torch.arange(4 * edge * edge * 3) * 7919 >> 3 & 255).reshape(1, 4, edge, edge, 3).movedim(-1, -3) / 255
mean, std = (torch.tensor(v).view(3, 1, 1) for v in ([.485, .456, .406], [.229, .224, .225]))
info = {"pixels": (pixels - mean) / std}
for key, embedder in model.extra_encoders.items():
    info[key] = torch.sin(torch.arange(4. * embedder.in_chans)).reshape(1, 4, -1)
with torch.no_grad():
    tokens = model.encode(info)["emb"]
    state = tokens.shape[-1] - model.extra_encoders["action"].emb_dim
    print(json.dumps(model.predict(tokens[:, :3])[..., :state].flatten().tolist()))
