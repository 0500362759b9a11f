#!/usr/bin/env python3
"""The works of `quern bench` in plain PyTorch, for tools/compare_torch.py.

  python3 -m venv venv && venv/bin/pip install torch numpy
  venv/bin/python tools/torch_peer.py A eager-f32 --steps 60

Prints one JSON line: milliseconds a step (minimum and median, without the first step, or the first three of eight and
more, as quern bench counts), tokens a second at the median, seconds from start to the end of the first step, and peak
resident memory.

Works: A, B, B0, C64, C1024, L2k, L4k, L8k, L16k train a GPT: pre-norm blocks without biases, GELU by tanh, the head
tied to the embedding, F.scaled_dot_product_attention. T and T256 train an nn.Transformer, post-norm, with sinusoidal
positions. All take AdamW and clip the gradient at norm 1. `decode` is the GPT of C1024, one sequence, one token a
step, from an empty cache (see Decoder).

Modes: eager-f32, eager-bf16, compile-f32 and compile-bf16; with -fused appended, AdamW is PyTorch's fused one (not for
decode, which has no optimizer). bf16 is autocast in training, and weights and cache in bf16 in decode. The compile
modes are torch.compile and need a C++ compiler; PyTorch keeps what it compiled on disk, so that the first step of a
second run comes sooner.
"""
import argparse, json, math, resource, time

START = time.perf_counter()
import torch
import torch.nn as nn
import torch.nn.functional as F

GPTS = {  # layers, heads, d_model, context, batch, vocabulary, dropout
    "A": (4, 4, 128, 64, 12, 65, 0.0), "B": (6, 6, 384, 256, 64, 65, 0.2), "B0": (6, 6, 384, 256, 64, 65, 0.0),
    "C64": (12, 12, 768, 64, 4, 50304, 0.0), "C1024": (12, 12, 768, 1024, 4, 50304, 0.0),
    "L2k": (2, 4, 256, 2048, 1, 256, 0.0), "L4k": (2, 4, 256, 4096, 1, 256, 0.0),
    "L8k": (2, 4, 256, 8192, 1, 256, 0.0), "L16k": (2, 4, 256, 16384, 1, 256, 0.0),
    "decode": (12, 12, 768, 1024, 1, 50304, 0.0),
}
TRANSLATORS = {"T": (2, 4, 64, 32, 64, 64), "T256": (3, 4, 256, 64, 32, 8000)}  # the same, without dropout
MODES = [f"{how}-{precision}{fused}" for how in ("eager", "compile") for precision in ("f32", "bf16")
         for fused in ("", "-fused")]


class Block(nn.Module):
    def __init__(self, heads, d, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.attention_norm, self.feed_norm = nn.LayerNorm(d, bias=False), nn.LayerNorm(d, bias=False)
        self.qkv, self.attended = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.widen, self.narrow = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)

    def drop(self, x):
        return F.dropout(x, self.dropout) if self.dropout else x

    def forward(self, x, cache=None, at=0):
        qkv = self.qkv(self.attention_norm(x)).unflatten(2, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each batch, heads, tokens, channels
        if cache is not None:  # one token, at position `at`
            cache[:, :, :, at : at + 1] = torch.stack((k, v))
            k, v = cache[:, :, :, : at + 1]
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None, dropout_p=self.dropout)
        x = x + self.drop(self.attended(mixed.transpose(1, 2).flatten(2)))
        return x + self.drop(self.narrow(F.gelu(self.widen(self.feed_norm(x)), approximate="tanh")))


class GPT(nn.Module):
    def __init__(self, layers, heads, d, context, vocabulary, dropout):
        super().__init__()
        with torch.device("meta"):  # skips the default initialisation, which would only be overwritten
            self.tokens, self.positions = nn.Embedding(vocabulary, d), nn.Embedding(context, d)
            self.blocks = nn.ModuleList(Block(heads, d, dropout) for _ in range(layers))
            self.norm = nn.LayerNorm(d, bias=False)
        self.dropout = dropout
        self.to_empty(device="cpu")
        for name, p in self.named_parameters():
            ends_branch = name.endswith(("attended.weight", "narrow.weight"))
            nn.init.ones_(p) if p.dim() == 1 else p.data.normal_(0, 0.02 / math.sqrt(2 * layers if ends_branch else 1))

    def forward(self, inputs, targets):
        x = self.tokens(inputs) + self.positions.weight
        x = F.dropout(x, self.dropout) if self.dropout else x
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(F.linear(self.norm(x), self.tokens.weight).flatten(0, 1), targets.flatten())


class Decoder(nn.Module):
    """Greedy decoding in a plain loop: a token goes in, its keys and values into a cache that was allocated for the
    whole context, and the likeliest next token comes out. Attention reads the filled part of the cache only."""

    def __init__(self, gpt, heads, d, context, dtype):
        super().__init__()
        self.gpt = gpt
        self.cache = [torch.zeros(2, 1, heads, context, d // heads, dtype=dtype) for _ in gpt.blocks]

    def forward(self, token, at):
        x = self.gpt.tokens(token) + self.gpt.positions.weight[at : at + 1]
        for block, cache in zip(self.gpt.blocks, self.cache):
            x = block(x, cache, at)
        return F.linear(self.gpt.norm(x), self.gpt.tokens.weight).argmax(-1)


class Translator(nn.Module):
    def __init__(self, layers, heads, d, length, vocabulary):
        super().__init__()
        self.table = nn.Embedding(vocabulary, d)
        self.transformer = nn.Transformer(d, heads, layers, layers, 4 * d, dropout=0.0, batch_first=True)
        self.transformer.encoder.norm = self.transformer.decoder.norm = None  # post-norm has none
        self.head = nn.Linear(d, vocabulary, bias=False)
        angles = torch.arange(length)[:, None] * 10000.0 ** (-2 * torch.arange(d // 2) / d)
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], 1))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def embed(self, ids):
        return self.table(ids) * math.sqrt(self.table.embedding_dim) + self.positions

    def forward(self, source, inputs, targets):
        x = self.transformer(self.embed(source), self.embed(inputs), tgt_mask=self.mask, tgt_is_causal=True)
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


def training(model, mode, batch):
    """A function that trains one step on what batch() returns."""
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), fused=True if "fused" in mode else None)
    loss_of = torch.compile(model) if "compile" in mode else model

    def step(_):
        with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in mode):
            loss = loss_of(*batch())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    return step


def gpt_training(work, mode):
    layers, heads, d, context, rows, vocabulary, dropout = GPTS[work]
    data = torch.randint(0, vocabulary, (1_000_000,))

    def batch():
        windows = torch.stack([data[i : i + context + 1] for i in torch.randint(len(data) - context, (rows,))])
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()

    return training(GPT(layers, heads, d, context, vocabulary, dropout), mode, batch), rows * context


def translator_training(work, mode):
    layers, heads, d, length, rows, vocabulary = TRANSLATORS[work]
    model = Translator(layers, heads, d, length, vocabulary)
    return training(model, mode, lambda: torch.randint(0, vocabulary, (3, rows, length))), rows * length


def decoding(work, mode):
    layers, heads, d, context, _, vocabulary, _ = GPTS[work]
    dtype = torch.bfloat16 if "bf16" in mode else torch.float32
    torch.set_default_dtype(dtype)
    decoder = Decoder(GPT(layers, heads, d, context, vocabulary, 0.0), heads, d, context, dtype)
    next_of = torch.compile(decoder, dynamic=True) if "compile" in mode else decoder
    with torch.inference_mode():  # as all later tokens; else torch.compile compiles once more
        token = torch.zeros(1, 1, dtype=torch.long)

    @torch.inference_mode()
    def step(at):
        nonlocal token
        token = next_of(token, at)
        return token.item()

    return step, 1


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("work", choices=[*GPTS, *TRANSLATORS])
    ap.add_argument("mode", choices=MODES)
    ap.add_argument("--steps", type=int, default=8)
    args = ap.parse_args()
    if args.work == "decode" and "fused" in args.mode:
        ap.error("decode has no optimizer that could be fused")
    torch.manual_seed(1337)
    prepare = decoding if args.work == "decode" else gpt_training if args.work in GPTS else translator_training
    step, tokens = prepare(args.work, args.mode)
    times, first = [], None
    for i in range(args.steps):
        begin = time.perf_counter()
        step(i)
        end = time.perf_counter()
        times.append(1000 * (end - begin))
        first = first or end - START
    times = sorted(times[3:] if args.steps >= 8 else times[1:] or times)
    median = times[len(times) // 2]
    print(json.dumps({"torch": torch.__version__, "work": args.work, "mode": args.mode,
                      "threads": torch.get_num_threads(), "ms_min": times[0], "ms_median": median,
                      "tokens_per_second": 1000 * tokens / median, "seconds_to_first_step": first,
                      "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
