"""The embedded trainer: a byte-level GPT under a charged clock, small enough to read in one sitting.

`ffsim.train.worker` is the process that a contest launches; `ffsim.train.loop` is the training itself.

`TRAINER_VERSION` is the lineage of the trainer. It is bumped by hand whenever numerics or speed change, for
then steps or scores of old runs no longer say what a new run would do; a refactor keeps it. Contest files
say which versions are comparable in quality (``trainers.eras``).

Importing this package does not import torch: reading the version must stay cheap.
"""

TRAINER_VERSION = "t2"
