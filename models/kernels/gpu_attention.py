"""Attention on a GPU: which of PyTorch's ways it goes."""

import torch


def avoid_plans_for_shapes() -> None:
    """Let attention on a GPU go any way but cuDNN's, in this process.

    cuDNN makes a plan for every shape that it has not seen, and here shapes change at every token
    and batch. `benchmarks/gpu.py --parts attention` measures both.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
