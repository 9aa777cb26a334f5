"""One torch thread for every test: the machine's cores are few, and results repeat to the bit."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

torch.set_num_threads(1)
