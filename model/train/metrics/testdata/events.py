"""Writes events.tfevents, the rows of TestEvents through TensorBoard's own messages
and writer, with steps in place of times: python events.py (tensorboard 2.20.0)."""
import os

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

ROWS = [
    (0, "train", {"effective_rank": 13, "loss": 1.5, "obj": 0, "obj_grad": 0, "pred": 0.25, "pred_grad": 0, "sigreg": 0, "sigreg_grad": 0, "z_norm": 0, "z_norm_std": 0}),
    (300, "val", {"loss": 1, "obj": 0, "pred": 0, "sigreg": -2}),
]
with open(os.path.join(os.path.dirname(__file__), "events.tfevents"), "wb") as f:
    w = RecordWriter(f)
    w.write(Event(file_version="brain.Event:2").SerializeToString())
    for step, split, numbers in ROWS:
        values = [Summary.Value(tag=f"{name}/{split}", simple_value=v) for name, v in numbers.items()]
        w.write(Event(wall_time=step, step=step, summary=Summary(value=values)).SerializeToString())
