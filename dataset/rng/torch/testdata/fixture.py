"""Draws of torch's CPU generator, written to draws.json by hand:
python fixture.py > draws.json (PyTorch 2.15.0, x86-64 with AVX2).

Floats are their bits, so that the file says what was drawn and not what was printed.
"""
import json
import torch


def bits(t):
    return t.flatten().view(torch.int32).tolist()


out = {"torch": torch.__version__, "uniform": [], "normal": []}
for seed, n in ((0, 40), (7, 33), (3072, 700)):
    g = torch.Generator().manual_seed(seed)
    out["uniform"].append({"seed": seed, "from": -0.125, "to": 0.125, "bits": bits(torch.empty(n).uniform_(-0.125, 0.125, generator=g))})
for seed, n in ((0, 16), (7, 1600), (3072, 37), (42, 100)):
    g = torch.Generator().manual_seed(seed)
    out["normal"].append({"seed": seed, "bits": bits(torch.randn(n, generator=g))})
# The candidates of the rollout analysis: sums of the bits and a few of them.
g = torch.Generator().manual_seed(7)
c = torch.randn(20, 64, 5, 10, generator=g)
b = bits(c)
out["candidates"] = {"shape": list(c.shape), "sum_of_bits": sum(b), "first": b[:16], "last": b[-16:]}
# nn.Linear's default initialisation in module order (probe of 192 numbers, 256 hidden, 4 targets).
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(192, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4))
out["linear"] = [{"name": k, "shape": list(v.shape), "sum_of_bits": sum(bits(v.detach())), "first": bits(v.detach())[:8]} for k, v in net.state_dict().items()]
print(json.dumps(out))
