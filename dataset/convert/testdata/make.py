"""Writes the .npz episodes of the tests, with NumPy 2.4.6: a.npz plain, b.npz compressed.

Row t of an episode with key k has pixels (t*16 + y*8 + x + c + k) % 256, action [t + 0.5 k, NaN in the last row],
int16 state [[t, -t]], a flag, an index to be left out and a seed that is no column.
"""

import numpy as np

for save, name, rows, k in ((np.savez, "a.npz", 5, 0), (np.savez_compressed, "b.npz", 3, 1)):
    t, y, x, c = np.ogrid[:rows, :8, :8, :3]
    action = np.arange(rows, dtype=np.float32)[:, None] + np.float32(0.5 * k)
    action[-1] = np.nan
    state = np.stack([np.arange(rows), -np.arange(rows)], 1).astype(np.int16)
    save(name, pixels=((t * 16 + y * 8 + x + c + k) % 256).astype(np.uint8), action=action, state=state,
         flag=np.arange(rows) % 2 == 0, step_idx=np.arange(rows), seed=np.int64(7))
