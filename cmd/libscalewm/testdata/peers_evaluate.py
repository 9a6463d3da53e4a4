"""python peers_evaluate.py FOLDER DATA OUT: the checkpoint that `weights convert` left in FOLDER, made by stable-worldmodel's
own classes and loaded strictly, evaluated as the cost model that it is and, by way of the two methods of a
world model, as one. TestPeersEvaluate compares the cells with those of the native program."""

import copy
import sys
from pathlib import Path

import torch
from stable_worldmodel.wm.utils import load_pretrained

import scalewm

folder, data, out = sys.argv[1:]
EVALUATION = {"solver": "cem", "tier": "T3", "sets": "s101", "episodes": 60}
MEAN, STD = (torch.tensor(v).view(3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


class OfMain(torch.nn.Module):
    """A model with the interface of stable-worldmodel's main branch: infos in encode and rollout, and no cost."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def encode(self, info):
        return self.model.encode(info)

    def rollout(self, info, action_sequence):
        return self.model.rollout(info, action_sequence)


class AsWorld:
    """encode and rollout as scalewm.evaluate calls them, on the modules' own."""

    def __init__(self, model):
        self.model, self.frame_size = model, model.encoder.config.image_size

    def encode(self, frames):
        x = torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255
        return self.model.encode({"pixels": ((x - MEAN) / STD).unsqueeze(1)})["emb"][:, 0]

    def rollout(self, start, candidates):
        e, c = candidates.shape[:2]
        info = {"emb": torch.from_numpy(start)[:, None, None].expand(e, c, 1, -1), "pixels": torch.empty(e, c, 1)}
        return self.model.rollout(info, torch.from_numpy(candidates))["predicted_emb"][:, :, -1]


model = load_pretrained(str(Path(folder).resolve())).eval()
world = AsWorld(model)
scalewm.evaluate(model, "tworoom", data, out, name="torch", frame_size=world.frame_size, **EVALUATION)
scalewm.evaluate(world, "tworoom", data, out, name="torch", weights=scalewm.state_hash(model), **EVALUATION)
bare, small = OfMain(model).eval(), {**EVALUATION, "episodes": 3, "frame_size": world.frame_size, "name": "main"}
(cost,) = scalewm.evaluate(bare, "tworoom", data, out, **small)["cells"]
assert cost["method"] == "main@cost", cost
for wrapped in (torch.compile(bare), torch.nn.DataParallel(bare)):
    assert any("reused" in note for note in scalewm.evaluate(wrapped, "tworoom", data, out, **small)["notes"])
same = scalewm.evaluate(model, "tworoom", data, out, **{**small, "name": "mains"})["cells"][0]
assert cost["mean"] == same["mean"], (cost, same)
inner = copy.deepcopy(model)
inner.encoder = torch.compile(inner.encoder)
assert scalewm.state_hash(inner) == scalewm.state_hash(model)
for wrapped in (torch.compile(model), torch.nn.DataParallel(model), torch.nn.DataParallel(torch.compile(model))):
    assert scalewm.state_hash(wrapped) == scalewm.state_hash(model)

ours = scalewm.load(folder)  # the same modules in our kernels, on tensors
frames = torch.randint(0, 256, (6, world.frame_size, world.frame_size, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
plans = torch.randn(3, 20, 5, ours.action_width, generator=torch.Generator().manual_seed(1))
with torch.no_grad():
    z, last = world.encode(frames.numpy()), world.rollout(world.encode(frames.numpy())[:3].numpy(), plans.numpy())
torch.testing.assert_close(ours.encode(frames), z, rtol=1e-3, atol=1e-4)
torch.testing.assert_close(ours.rollout(z[:3], plans), last, rtol=1e-3, atol=1e-3)
torch.testing.assert_close(ours.cost(z[:3], z[3:], plans), (last - z[3:, None]).pow(2).sum(-1), rtol=1e-3, atol=1e-2)
