"""Writes maze/ and pusht/ beside it: two episodes of 3 and 4 rows in the layouts of DINO-WM's PointMaze and Push-T,
padded with 99 to five rows. In row t of episode k, state = (t, k, 10 t), velocities = (-t, k), action =
(t + k / 2, -t), and rel_actions are 100 times that. Frame t of the maze is one colour, (20 + 30 t, 200 - 40 k, 90),
as float32 in episode 0 and as uint8 with the colours first in episode 1. The films of pusht/ are those of films/:
copy films/pixels/ep_I.mp4 to obses/episode_00I.mp4.
Needs torch."""

import pickle
from pathlib import Path

import torch

HERE = Path(__file__).parent
LENGTHS = [3, 4]


def padded(row):
    x = torch.full((2, 5, len(row(0, 0))), 99.0)
    for k, n in enumerate(LENGTHS):
        for t in range(n):
            x[k, t] = torch.tensor(row(t, k))
    return x


for name in ("maze", "pusht"):
    d = HERE / name
    d.mkdir(exist_ok=True)
    # Of another type than velocities, and not contiguous.
    torch.save(padded(lambda t, k: (t, k, 10.0 * t)).double().transpose(0, 1).contiguous().transpose(0, 1), d / "states.pth")
(HERE / "maze/obses").mkdir(exist_ok=True)
action = padded(lambda t, k: (t + k / 2, -1.0 * t))
torch.save(action, HERE / "maze/actions.pth")
torch.save(torch.tensor(LENGTHS), HERE / "maze/seq_lengths.pth")
torch.save(torch.full((2, 5), 7), HERE / "maze/door_locations.pth")
torch.save(torch.tensor([1, 2]), HERE / "maze/seeds.pth")
for k, n in enumerate(LENGTHS):
    t = torch.arange(n)
    x = torch.stack([20 + 30 * t, torch.full((n,), 200 - 40 * k), torch.full((n,), 90)], 1)[:, None, None].expand(n, 8, 8, 3)
    torch.save(x.float().contiguous() if k == 0 else x.byte().permute(0, 3, 1, 2).contiguous(), HERE / f"maze/obses/episode_00{k}.pth")
torch.save(action * 100, HERE / "pusht/rel_actions.pth")
torch.save(action * 300, HERE / "pusht/abs_actions.pth")
torch.save(padded(lambda t, k: (-1.0 * t, k)), HERE / "pusht/velocities.pth")
(HERE / "pusht/seq_lengths.pkl").write_bytes(pickle.dumps(LENGTHS))
(HERE / "pusht/shapes.pkl").write_bytes(pickle.dumps(["T", "L"]))
