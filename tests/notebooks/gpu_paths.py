"""What was seen of each template's path on GPUs. No machine of the tests has one."""

from __future__ import annotations

NONE = "none"  # it has no such path
READ = "only read"
EMULATED = "emulated"  # a part of it, by what docs/howto/kernels.md says; the rest is only read
RUN = "run"  # on a GPU; the docs say when, and on which

GPU_PATHS = {
    "cluster/beyond_one_node": NONE,
    "cluster/checkpoint_resume": READ,
    "cluster/know_your_node": EMULATED,
    "cluster/sweep": READ,
    "dask/slurm_cluster": NONE,
    "data/bigger_than_memory": NONE,
    "horovod/mnist": READ,
    "horovod/pytorch_mnist": READ,
    "horovod/resnet50": READ,
    "inference/resnet50": READ,
    "inference/server": NONE,
    "kernels/container": READ,
    "kernels/own_environment": NONE,
    "llm/finetune_and_serve": READ,
    "mxnet/mnist": NONE,
    "pytorch/ddp": READ,
    "pytorch/mnist": READ,
    "pytorch/resnet50": READ,
    "r/mnist": NONE,
    "ray/slurm_cluster": NONE,
    "tensorflow/mnist": READ,
    "tensorflow/resnet50": EMULATED,
    "tensorflow/tensorboard": READ,
    "tensorflow/tfrecord_or_jpeg": NONE,
}
