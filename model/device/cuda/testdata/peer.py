"""What gpu/bench_test.go measures, by PyTorch on the same GPU: LeWM's training step at
the published geometry (128 clips of 4 frames of 224 pixels, resident) and CEM
plans of tier T1, eager and compiled, in fp32 (TF32 products) and bf16 autocast.

The model is written here with PyTorch's own layers so that nothing but torch is
needed; its shapes are those of model/lewm, its values do not matter. One JSON
object a line: {"what", "mode", "ms", "rate"}.

    python peer.py [train] [plan] [peak]
"""
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, LAYERS, HEADS, MLP, D, HIDDEN, A = 192, 12, 3, 768, 192, 2048, 10
PDEPTH, PHEADS, PDIM, PMLP, DROP, H = 6, 16, 64, 2048, 0.1, 3


class Attention(nn.Module):
    def __init__(self, width, heads, dim, drop, causal):
        super().__init__()
        self.heads, self.drop, self.causal = heads, drop, causal
        self.qkv, self.out = nn.Linear(width, 3 * heads * dim), nn.Linear(heads * dim, width)

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, dropout_p=self.drop if self.training else 0.0)
        return F.dropout(self.out(y.transpose(1, 2).reshape(b, n, -1)), self.drop, self.training)


def mlp(width, hidden, drop):
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(drop), nn.Linear(hidden, width), nn.Dropout(drop))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.LayerNorm(WIDTH, 1e-12), nn.LayerNorm(WIDTH, 1e-12)
        self.att, self.mlp = Attention(WIDTH, HEADS, WIDTH // HEADS, 0.0, False), mlp(WIDTH, MLP, 0.0)

    def forward(self, x):
        x = x + self.att(self.a(x))
        return x + self.mlp(self.b(x))


class Conditional(nn.Module):
    """A predictor block: attention and MLP, modulated and gated by the action's embedding."""

    def __init__(self):
        super().__init__()
        self.att, self.mlp = Attention(D, PHEADS, PDIM, DROP, True), mlp(D, PMLP, DROP)
        self.inner_a, self.inner_b = nn.LayerNorm(D), nn.LayerNorm(D)
        self.mod = nn.Sequential(nn.SiLU(), nn.Linear(D, 6 * D))

    def forward(self, x, c):
        s1, t1, g1, s2, t2, g2 = self.mod(c).chunk(6, -1)
        norm = lambda v: F.layer_norm(v, (D,), eps=1e-6)
        x = x + g1 * self.att(self.inner_a(norm(x) * (1 + s1) + t1))
        return x + g2 * self.mlp(self.inner_b(norm(x) * (1 + s2) + t2))


def projector(n):
    return nn.Sequential(nn.Linear(n, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.GELU(), nn.Linear(HIDDEN, D))


class LeWM(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 14, 14)
        self.cls, self.pos = nn.Parameter(torch.zeros(1, 1, WIDTH)), nn.Parameter(torch.randn(1, 257, WIDTH) * 0.02)
        self.layers, self.norm = nn.ModuleList(Layer() for _ in range(LAYERS)), nn.LayerNorm(WIDTH, 1e-12)
        self.projector, self.pred_proj = projector(WIDTH), projector(D)
        self.embed = nn.Sequential(nn.Linear(A, 10), nn.Linear(10, 4 * D), nn.SiLU(), nn.Linear(4 * D, D))
        self.ppos, self.blocks = nn.Parameter(torch.randn(1, H, D) * 0.02), nn.ModuleList(Conditional() for _ in range(PDEPTH))
        self.pnorm = nn.LayerNorm(D)

    def encode(self, px):
        mean, std = (torch.tensor(v, device=px.device).view(3, 1, 1) for v in ([.485, .456, .406], [.229, .224, .225]))
        x = self.patch((px.permute(0, 3, 1, 2).float() / 255 - mean) / std).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.projector(self.norm(x[:, 0]))

    def predict(self, z, act):
        x = F.dropout(z + self.ppos[:, :z.shape[1]], DROP, self.training)
        for block in self.blocks:
            x = block(x, act)
        return self.pred_proj(self.pnorm(x).flatten(0, 1)).view(z.shape)

    def loss(self, px, actions, directions):
        b, t = actions.shape[:2]
        z = self.encode(px.flatten(0, 1)).view(b, t, D)
        pred = self.predict(z[:, :H], self.embed(actions)[:, :H])
        return (pred - z[:, 1:]).square().mean() + 0.09 * sigreg(z, directions)


def sigreg(z, raw):
    with torch.autocast("cuda", enabled=False):
        a = raw / raw.norm(p=2, dim=0)
        t = torch.linspace(0, 3, 17, device=z.device)
        phi, w = torch.exp(-t.square() / 2), torch.full((17,), 2 * 3 / 16, device=z.device)
        w[[0, -1]] = 3 / 16
        x = (z.float().transpose(0, 1) @ a).unsqueeze(-1) * t
        err = (x.cos().mean(-3) - phi).square() + x.sin().mean(-3).square()
        return ((err @ (w * phi)) * z.size(0)).mean()


def timed(what, mode, run, each=1, budget=8.0):
    for _ in range(4):
        run()
    torch.cuda.synchronize()
    n, start = 0, time.perf_counter()
    while time.perf_counter() - start < budget and n < 200 or n < 5:
        run()
        torch.cuda.synchronize()
        n += 1
    ms = (time.perf_counter() - start) / n / each * 1000
    print(json.dumps({"what": what, "mode": mode, "ms": round(ms, 4), "rate": round(1000 / ms, 2)}), flush=True)


def train(mode, bf16, compiled):
    torch.manual_seed(0)
    model = LeWM().cuda().train()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=1e-3, fused=True)
    px = torch.randint(0, 256, (128, 4, 224, 224, 3), dtype=torch.uint8, device="cuda")
    actions = torch.randn(128, 4, A, device="cuda")
    loss = torch.compile(model.loss) if compiled else model.loss

    def step():
        directions = torch.randn(D, 1024, device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
            v = loss(px, actions, directions)
        opt.zero_grad(set_to_none=True)
        v.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        v.item()

    timed("train", mode, step)


def plan(mode, bf16, compiled, episodes):
    torch.manual_seed(0)
    model = LeWM().cuda().eval()
    start, goal = torch.randn(episodes, D, device="cuda"), torch.randn(episodes, D, device="cuda")

    def iteration(mean, std):
        noise = torch.randn(episodes, 300, 5, A, device="cuda")
        noise[:, 0] = 0
        cand = mean[:, None] + std[:, None] * noise
        act = model.embed(cand.flatten(0, 1))
        z = [start[:, None].expand(-1, 300, -1).reshape(-1, D)]
        for t in range(5):
            lo = max(0, t + 1 - H)
            z.append(model.predict(torch.stack(z[lo:], 1), act[:, lo:t + 1])[:, -1].float())
        cost = (z[-1].view(episodes, 300, D) - goal[:, None]).square().sum(-1)
        best = cost.topk(30, largest=False).indices
        elite = cand.gather(1, best[:, :, None, None].expand(-1, -1, 5, A))
        return elite.mean(1), elite.std(1)

    one = torch.compile(iteration, mode="reduce-overhead") if compiled else iteration

    @torch.no_grad()
    def run():
        mean, std = torch.zeros(episodes, 5, A, device="cuda"), torch.ones(episodes, 5, A, device="cuda")
        with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
            for _ in range(30):
                mean, std = (v.clone() for v in one(mean, std))
        mean.cpu()

    timed(f"plan{episodes}", mode, run, episodes)


def main():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    what = sys.argv[1:] or ["peak", "train", "plan"]
    if "peak" in what:
        a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in "ab")
        timed("product8192", "bf16", lambda: a @ b, budget=2.0)
    for mode, bf16, compiled in [("eager fp32", False, False), ("eager bf16", True, False), ("compiled bf16", True, True)]:
        try:
            if "train" in what:
                train(mode, bf16, compiled)
            if "plan" in what:
                plan(mode, bf16, compiled, 1)
                plan(mode, bf16, compiled, 100)
        except Exception as e:  # the others still count
            print(json.dumps({"what": "failed", "mode": mode, "error": repr(e)[:300]}), flush=True)
        torch._dynamo.reset()


main()
