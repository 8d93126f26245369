"""ResNet50 in PyTorch as torchvision writes it, and the training loop of PyTorch's tutorials.

It is v1.5, as torchvision has it and as the template is: the stride is in the second convolution of a block. With
bfloat16 it is the way that PyTorch's documentation calls the fastest on CPUs: channels_last and autocast.
"""

from __future__ import annotations

import torch
from torch import nn

from tests.bench.training import training_script

STAGES = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))  # blocks, width, stride of the first


class Bottleneck(nn.Module):  # type: ignore[misc]
    """Three convolutions and a way around them."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.around: nn.Module = nn.Identity()
        if channels != out or stride > 1:
            self.around = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Features (batch, channels, height, width) to (batch, 4 · width, height / stride, width / stride)."""
        return self.relu(self.body(images) + self.around(images))


def resnet50(classes: int) -> nn.Sequential:
    """The network for images (batch, 3, size, size)."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    channels = 64
    for blocks, width, first in STAGES:
        for number in range(blocks):
            layers.append(Bottleneck(channels, width, first if number == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def main() -> None:
    """Train on one batch of noise."""
    asked = training_script.arguments()
    fast = asked.precision == "bfloat16"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    layout = torch.channels_last if fast else torch.contiguous_format
    model = resnet50(1000).to(device, memory_format=layout).train()
    images = torch.rand(asked.batch_size, 3, asked.image_size, asked.image_size) * 2 - 1
    images = images.to(device, memory_format=layout)
    labels = torch.randint(0, 1000, (asked.batch_size,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=5e-5)
    loss_of = nn.CrossEntropyLoss()

    def train(steps: int) -> float:
        for _ in range(steps):
            optimizer.zero_grad()
            with torch.autocast(device, torch.bfloat16, enabled=fast):
                loss = loss_of(model(images), labels)
            loss.backward()
            optimizer.step()
        return float(loss)

    training_script.serve(train)


if __name__ == "__main__":
    main()
