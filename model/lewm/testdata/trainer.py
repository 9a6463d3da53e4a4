"""Writes trainer/: a tiny LeWM of stable_worldmodel, saved with a moving average of its
weights, an optimiser and hyper-parameters as Lightning saves them. expected.json has one
tensor of both models: {KEY: values of encoder.embeddings.cls_token}.

Made with Python 3.11, torch 2.15.0, stable_worldmodel 0.1.1 and omegaconf 2.3:
    python trainer.py
"""
import json
import os

import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trainer")
swm = "stable_worldmodel.wm.lewm."
mlp = {"_target_": swm + "module.MLP", "hidden_dim": 6, "output_dim": 4, "norm_fn": {"_target_": "torch.nn.BatchNorm1d", "_partial_": True}}
config = {
    "_target_": swm + "LeWM",
    "encoder": {"_target_": "stable_pretraining.backbone.utils.vit_hf", "size": "tiny", "patch_size": 4, "image_size": 8, "pretrained": False,
                "use_mask_token": False, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8},
    "predictor": {"_target_": swm + "module.Predictor", "num_frames": 3, "input_dim": 4, "hidden_dim": 4, "output_dim": 4, "depth": 1, "heads": 1,
                  "mlp_dim": 4, "dim_head": 4, "dropout": 0.1, "emb_dropout": 0.0},
    "action_encoder": {"_target_": swm + "module.Embedder", "input_dim": 10, "smoothed_dim": 10, "emb_dim": 4, "mlp_scale": 1},
    "projector": {**mlp, "input_dim": 8}, "pred_proj": {**mlp, "input_dim": 4},
}
torch.manual_seed(0)
model, ema = instantiate(config), instantiate(config)
optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
os.makedirs(HERE, exist_ok=True)
torch.save({"epoch": 3, "hyper_parameters": OmegaConf.create({"lr": 5e-5, "name": "${lr}"}), "optimizer_states": [optimizer.state_dict()],
            "state_dict": {"model." + k: v for k, v in torch.compile(model).state_dict().items()} | {"model.actor.weight": torch.ones(2), "knots": torch.zeros(3)},
            "ema": {"decay": 0.99, "weights": torch.optim.swa_utils.AveragedModel(ema).state_dict()}},
           os.path.join(HERE, "last.ckpt"))
name = "encoder.embeddings.cls_token"
for file, content in ("config.json", config), ("expected.json", {k: m.state_dict()[name].double().flatten().tolist() for k, m in (("state_dict", model), ("ema.weights", ema))}):
    with open(os.path.join(HERE, file), "w") as f:
        json.dump(content, f, indent=1)
