MODEL = build().train()
B, T = SPEC["batch"], M["history"] + 1
OPT = torch.optim.AdamW(MODEL.parameters(), lr=5e-5, weight_decay=1e-3, fused=True)
PIXELS, ACTION = frames(B, T), torch.randn(B, T, BLOCK, device=DEVICE)
KNOTS = torch.linspace(0, 3, 17, device=DEVICE)
PHI = torch.exp(-KNOTS.square() / 2)
WEIGHTS = torch.full((17,), 2 * 3 / 16, device=DEVICE)
WEIGHTS[[0, -1]] = 3 / 16
WEIGHTS *= PHI


def sigreg(z):
    a = torch.randn(z.size(-1), SPEC["directions"], device=DEVICE)
    x = (z.float().transpose(0, 1) @ (a / a.norm(p=2, dim=0))).unsqueeze(-1) * KNOTS
    err = (x.cos().mean(-3) - PHI).square() + x.sin().mean(-3).square()
    return ((err @ WEIGHTS) * z.size(0)).mean()


def loss(pixels, action):
    info = MODEL.encode({"pixels": pixels, "action": action})
    emb, act = info["emb"], info["act_emb"]
    pred = MODEL.predict(emb[:, :-1], act[:, :-1])
    return (pred - emb[:, 1:]).square().mean() + .09 * sigreg(emb)


def step(f, half):
    OPT.zero_grad(set_to_none=True)
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=half):
        v = f(PIXELS, ACTION)
    v.backward()
    torch.nn.utils.clip_grad_norm_(MODEL.parameters(), 1.0)
    OPT.step()
    finish()


compiled = compiles(loss)
WIDE = {"fp32": lambda: step(loss, False), "compile": lambda: step(compiled, False)}
HALF = {"autocast": lambda: step(loss, True), "compile_autocast": lambda: step(compiled, True)}
if DEVICE.type == "cuda":
    # Compiling takes a minute per variant. On a GPU, compile only the variant that is fastest by
    # default and, on request, the one that autotunes kernels and uses CUDA graphs, which takes several.
    del WIDE["compile"]
    HALF["tf32"] = lambda: in_tf32(lambda: step(loss, False))
    if os.environ.get("PEER_AUTOTUNE"):
        TUNED = compiles(loss, mode="max-autotune")
        HALF["autotune_autocast"] = lambda: step(TUNED, True)
serve({"fp32": WIDE, "bf16": in_bf16(HALF)}, version=VERSION, params=params(MODEL))
