"""Makes torch_made.pth with PyTorch and the published code; see make_reference.py for both.

python make_torch_file.py
"""

from pathlib import Path

import numpy as np
import torch
from TTS.tts.configs.xtts_config import XttsConfig


def main() -> None:
    count = torch.arange(24, dtype=torch.float32)
    whole = count.reshape(4, 6)
    optimizer = torch.optim.AdamW([torch.nn.Parameter(count.clone())], lr=5e-6)
    optimizer.param_groups[0]["params"][0].grad = torch.ones(24)
    optimizer.step()
    model = torch.nn.Sequential(torch.nn.Linear(2, 3)).state_dict()  # has metadata
    model.clear()
    model["whole"] = whole
    model["transposed"] = whole.T
    model["middle"] = whole[1:3, 2:5]  # of the storage of `whole`
    model["every_other"] = count[1::2]
    model["expanded"] = torch.tensor([7.0]).expand(3, 2)
    model["parameter"] = torch.nn.Parameter(count[:3])
    model["half"] = count.half()
    model["bfloat16"] = count.bfloat16()
    model["double"] = count.double()
    model["counted"] = torch.tensor(5)
    model["empty"] = torch.zeros(0, 3)
    model["flags"] = torch.tensor([True, False])
    content = {
        "model": model,
        "config": XttsConfig(),
        "optimizer": [optimizer.state_dict()],
        "model_loss": np.float64(1.5),
        "step": 1000,
    }
    torch.save(content, Path(__file__).parent / "torch_made.pth")


if __name__ == "__main__":
    main()
