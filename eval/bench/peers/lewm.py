import shutil

import torch
import transformers
from stable_worldmodel.wm.lewm.lewm import LeWM
from stable_worldmodel.wm.lewm.module import MLP, Embedder, Predictor

M = SPEC["model"]
DEVICE = torch.device("cuda" if SPEC["device"] != "cpu" and torch.cuda.is_available() else "cpu")
torch.set_num_threads(SPEC["threads"])
torch.manual_seed(0)
VERSION = f"torch {torch.__version__}, {DEVICE}"
BLOCK = M["frame_skip"] * M["action_dim"]


class AnyEmbedder(Embedder):
    """stable-worldmodel's Embedder casts its input to float32, which fails with bf16 weights."""

    def forward(self, x):
        x = x.to(self.patch_embed.weight.dtype)
        return self.embed(self.patch_embed(x.permute(0, 2, 1)).permute(0, 2, 1))


def build():
    """Returns the published modules with the geometry of the spec."""
    vit = transformers.ViTModel(transformers.ViTConfig(hidden_size=M["width"], num_hidden_layers=M["layers"], num_attention_heads=M["heads"],
        intermediate_size=M["mlp"], image_size=M["image_size"], patch_size=M["patch"]), add_pooling_layer=False, use_mask_token=False)
    d = M["dim"]
    predictor = Predictor(num_frames=M["history"], input_dim=d, hidden_dim=d, output_dim=d, depth=M["predictor_depth"], heads=M["predictor_heads"],
        mlp_dim=M["predictor_mlp"], dim_head=M["predictor_head_dim"], dropout=M["dropout"], emb_dropout=0.)

    def projector(width):
        if M["projector"] == 0:
            return torch.nn.Sequential(torch.nn.Linear(width, d), torch.nn.BatchNorm1d(d))
        return MLP(input_dim=width, hidden_dim=M["projector"], output_dim=d, norm_fn=torch.nn.BatchNorm1d)

    return LeWM(vit, predictor, AnyEmbedder(input_dim=BLOCK, smoothed_dim=M["smoothed_dim"], emb_dim=d),
        projector(M["width"]), projector(d)).to(DEVICE)


def frames(*shape):
    px = torch.randint(0, 256, (*shape, 3, M["image_size"], M["image_size"]), dtype=torch.uint8, device=DEVICE)
    mean, std = (torch.tensor(v, device=DEVICE).view(3, 1, 1) for v in ([.485, .456, .406], [.229, .224, .225]))
    return (px / 255 - mean) / std


def finish():
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def in_tf32(work):
    """Runs work with float32 GEMMs on tensor cores (TF32), as most people train. The default is
    plain float32, like ours."""
    torch.set_float32_matmul_precision("high")
    try:
        work()
    finally:
        torch.set_float32_matmul_precision("highest")


def params(model):
    return sum(p.numel() for p in model.parameters())


def compiles(f, **how):
    """Returns f compiled by torch.compile. A failure surfaces only when it is called."""
    fast = torch.compile(f, **how)

    def call(*a):
        if DEVICE.type == "cpu" and not (os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")):
            raise RuntimeError("torch.compile needs a C++ compiler")
        return fast(*a)

    return call


def in_bf16(variants):
    """Returns the variants, which use bf16. If oneDNN has no bf16 GEMM for this CPU, PyTorch falls back to a scalar
    loop (23 times slower than fp32 with AVX2). Such variants then fail at once instead of being measured."""
    if DEVICE.type != "cpu" or torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return variants

    def refuse():
        raise RuntimeError("PyTorch has no fast bf16 GEMM for this CPU")

    return dict.fromkeys(variants, refuse)
