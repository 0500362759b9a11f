#!/usr/bin/env python3
"""PyTorch's nn.Transformer trained on the same work as `quern bench T T256`, for tools/compare_torch.py --peer.

  venv/bin/python tools/torch_encoder_decoder.py T eager-f32 --steps 60

One JSON line: milliseconds a step (minimum and median after warm-up), tokens of the target a second, seconds from
process start to the end of the first step, peak resident memory, the last loss. T (configs/dates.json's sizes): 2
encoder and 2 decoder layers, 4 heads, d_model 64, 32 tokens on both sides, batch 64, vocabulary 64. T256: 3 and 3
layers, 4 heads, d_model 256, 64 tokens, batch 32, vocabulary 8,000. Both post-norm, no dropout, AdamW, gradients
clipped at 1. Modes: eager-f32, eager-f32-fused (the fused AdamW), compile-f32.
"""
import argparse, json, math, resource, time

START = time.time()
import torch
import torch.nn as nn
import torch.nn.functional as F

WORKS = {"T": (2, 4, 64, 32, 64, 64), "T256": (3, 4, 256, 64, 32, 8000)}  # layers, heads, d_model, tokens, batch, vocabulary


class Translator(nn.Module):
    def __init__(self, layers, heads, d, length, vocabulary):
        super().__init__()
        self.table = nn.Embedding(vocabulary, d)
        self.transformer = nn.Transformer(d, heads, layers, layers, 4 * d, dropout=0.0, batch_first=True)
        self.transformer.encoder.norm = self.transformer.decoder.norm = None  # post-norm has none
        self.head = nn.Linear(d, vocabulary, bias=False)
        rates = 10000.0 ** (-2 * torch.arange(d // 2) / d)
        angles = torch.arange(length)[:, None] * rates
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], 1))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def embed(self, ids):
        return self.table(ids) * math.sqrt(self.table.embedding_dim) + self.positions

    def forward(self, source, inputs, targets):
        x = self.transformer(self.embed(source), self.embed(inputs), tgt_mask=self.mask, tgt_is_causal=True)
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("work", choices=WORKS)
    ap.add_argument("mode")
    ap.add_argument("--steps", type=int, default=20)
    args = ap.parse_args()
    layers, heads, d, length, batch, vocabulary = WORKS[args.work]
    torch.manual_seed(0)
    model = Translator(layers, heads, d, length, vocabulary)
    step_of = torch.compile(model) if args.mode.startswith("compile") else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), fused="fused" in args.mode)
    times, first = [], 0.0
    for i in range(args.steps):
        source, inputs, targets = torch.randint(0, vocabulary, (3, batch, length))
        begin = time.time()
        optimizer.zero_grad(set_to_none=True)
        loss = step_of(source, inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        value = loss.item()
        times.append(1000 * (time.time() - begin))
        first = first or time.time() - START
    times = sorted(times[3:] if args.steps >= 8 else times[1:])
    median = times[len(times) // 2]
    print(json.dumps({"work": args.work, "mode": args.mode, "ms_min": times[0], "ms_median": median,
                      "tokens_per_second": batch * length / median * 1000, "seconds_to_first_step": first,
                      "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "loss": value}))


main()
