"""Trains a small transformer with data parallelism on CPUs, under torchrun: real enough to show a job from start to loss.

    torchrun --nproc-per-node 8 train.py --steps 300

The data is a language made of a seed, in which each token depends on the two before it: the loss falls from ln 64 = 4.16 towards
what is left to chance. With the same seed and the same number of processes the losses are the same everywhere; set
OMP_NUM_THREADS=1, since threads add in another order. Each process prints one JSON line at its start, rank 0 then the loss of each
step, averaged over the ranks, and the progress of the job into the file $ASTERISM_PROGRESS_FILE.
"""

import argparse
import json
import os
import socket
import time
import warnings

warnings.filterwarnings("ignore", message=".*NumPy.*")

import torch  # noqa: E402
import torch.distributed as distributed  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

TOKENS = 64
CONTEXT = 48
WIDTH = 64
HEADS = 4
LAYERS = 2


class Language:
    """Sequences in which each token is drawn from a few that its two predecessors allow."""

    def __init__(self, seed):
        generator = torch.Generator().manual_seed(seed)
        self._logits = 2.5 * torch.randn(TOKENS, TOKENS, generator=generator)
        self._second = 2.5 * torch.randn(TOKENS, TOKENS, generator=generator)

    def batch(self, count, seed):
        """`count` sequences of CONTEXT + 1 tokens; the same for the same seed."""
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.randint(TOKENS, (count, 2), generator=generator)
        while tokens.shape[1] <= CONTEXT:
            chances = torch.softmax(self._logits[tokens[:, -1]] + self._second[tokens[:, -2]], dim=1)
            tokens = torch.cat([tokens, torch.multinomial(chances, 1, generator=generator)], dim=1)
        return tokens[:, :-1], tokens[:, 1:]


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, TOKENS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, tokens):
        inner = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.out(self.layers(inner, mask=self.mask, is_causal=True))


def say(**values):
    # At once, since the processes of a pod share one stream.
    os.write(1, json.dumps(values).encode() + b"\n")


class Progress:
    """Appends to the file that the launcher reads; nothing where nobody asked for it."""

    def __init__(self, rank):
        path = os.environ.get("ASTERISM_PROGRESS_FILE")
        self._file = open(path, "a", encoding="utf-8", buffering=1) if path and rank == 0 else None

    def step(self, number, seconds, tokens):
        if self._file:
            self._file.write(json.dumps({"step": number, "stepTimeMilliseconds": round(1000 * seconds, 3), "tokensPerSecond": round(tokens / seconds)}) + "\n")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=8, help="sequences for each process and step")
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="the least that a step takes")
    trouble = parser.add_argument_group("trouble on purpose, to see what the cluster makes of it")
    trouble.add_argument("--trouble-rank", type=int, default=0)
    trouble.add_argument("--trouble-step", type=int, default=None, help="when")
    trouble.add_argument("--trouble", choices=("exit", "hang", "kill", "memory"), default="exit")
    trouble.add_argument("--exit-code", type=int, default=1)
    return parser.parse_args()


def make_trouble(options):
    if options.trouble == "exit":
        os._exit(options.exit_code)
    if options.trouble == "kill":
        os.kill(os.getpid(), 9)
    kept = []
    while True:
        if options.trouble == "memory":
            kept.append(bytearray(os.urandom(1 << 24)))
        else:
            time.sleep(60)


def main():
    options = parse()
    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    say(event="start", rank=rank, worldSize=world, host=socket.gethostname(), devices=os.environ.get("NVIDIA_VISIBLE_DEVICES", ""))
    torch.manual_seed(options.seed)
    language = Language(options.seed)
    model = DistributedDataParallel(Transformer())
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
    progress = Progress(rank)
    mean = torch.zeros(1)
    for step in range(1, options.steps + 1):
        began = time.monotonic()
        if step == options.trouble_step and rank == options.trouble_rank:
            make_trouble(options)
        inputs, targets = language.batch(options.batch, options.seed + 1 + step * world + rank)
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        distributed.all_reduce(mean)
        mean /= world
        time.sleep(max(0.0, options.step_seconds - (time.monotonic() - began)))
        seconds = time.monotonic() - began
        progress.step(step, seconds, options.batch * CONTEXT * world)
        if rank == 0:
            say(step=step, loss=round(mean.item(), 8), milliseconds=round(1000 * seconds, 1))
    if rank == 0:
        say(event="end", steps=options.steps, worldSize=world, loss=f"{mean.item():.6f}")
    distributed.destroy_process_group()


main()
