"""Constructs the policy in the config.json of the folder DIR, which `scalewm weights
convert` wrote, and loads its tensors strictly. Prints its action from the latent 0, .1,
..., .5 to the goal .6, ..., 1.1.

    python load_strict.py DIR
"""
import json
import os
import sys

import torch
from hydra.utils import instantiate

with open(os.path.join(sys.argv[1], "config.json")) as f:
    policy = instantiate(json.load(f)["policy"]).eval()
tensors = torch.load(os.path.join(sys.argv[1], "weights.pt"))
policy.load_state_dict({k.removeprefix("policy."): v for k, v in tensors.items() if k.startswith("policy.")})
with torch.no_grad():
    print(json.dumps(policy(torch.arange(6.).reshape(1, 1, 6) / 10, torch.arange(6., 12.).reshape(1, 1, 6) / 10).flatten().tolist()))
