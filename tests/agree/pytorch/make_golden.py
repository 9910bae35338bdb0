"""Golden tensors from PyTorch on the CPU: loss and gradients of one-block GPT-2 and Llama models, in fp64, for golden_test.cpp.

    python3 tests/agree/pytorch/make_golden.py        writes gpt2.golden and llama.golden beside this file

The models are written with torch.nn.functional alone and know nothing of the plan: separate q, k, v (Llama), gate and up; GPT-2's fused
c_attn. Only when stored are weights and gradients put in the plan's layouts (exec/kernels/kernel.hpp): q, k, v by group of a key head,
gate and up in alternate rows. A file is a line of JSON (shapes, offsets), then fp32 little-endian; weights are fp32 numbers, so exact.
"""
import json
import pathlib

import torch
import torch.nn.functional as F

BATCH, SEQUENCE, HIDDEN, HEADS, FFN, VOCAB = 2, 12, 32, 4, 48, 61


def weight(*shape, scale=0.3, base=0.0):
    x = (base + scale * torch.randn(*shape, dtype=torch.float64)).float().double()
    return x.requires_grad_()


def attend(q, k, v, heads, kv_heads):
    """[batch, sequence, columns] each; causal, keys shared by groups of heads."""
    split = lambda x, n: x.view(BATCH, SEQUENCE, n, -1).transpose(1, 2)
    o = F.scaled_dot_product_attention(split(q, heads), split(k, kv_heads), split(v, kv_heads), is_causal=True, enable_gqa=kv_heads != heads)
    return o.transpose(1, 2).reshape(BATCH, SEQUENCE, -1)


def by_group(q, k, v, heads, kv_heads):
    """Rows of q, k and v together, by group: its queries, its key, its value."""
    rows = lambda x, n: x.view(n, x.shape[0] // n, *x.shape[1:])
    parts = [rows(q, kv_heads), rows(k, kv_heads), rows(v, kv_heads)]
    return torch.cat(parts, dim=1).reshape(-1, *q.shape[1:])


def alternate(gate, up):
    return torch.stack([gate, up], dim=1).reshape(-1, gate.shape[1])


def gpt2(tokens, labels):
    p = {
        "wte": weight(VOCAB, HIDDEN), "wpe": weight(SEQUENCE, HIDDEN),
        "ln1.w": weight(HIDDEN, base=1), "ln1.b": weight(HIDDEN), "ln2.w": weight(HIDDEN, base=1), "ln2.b": weight(HIDDEN),
        "lnf.w": weight(HIDDEN, base=1), "lnf.b": weight(HIDDEN),
        "c_attn.w": weight(3 * HIDDEN, HIDDEN), "c_attn.b": weight(3 * HIDDEN), "c_proj.w": weight(HIDDEN, HIDDEN), "c_proj.b": weight(HIDDEN),
        "fc.w": weight(FFN, HIDDEN), "fc.b": weight(FFN), "out.w": weight(HIDDEN, FFN), "out.b": weight(HIDDEN),
    }
    norm = lambda x, n: F.layer_norm(x, (HIDDEN,), p[n + ".w"], p[n + ".b"], 1e-5)
    x = p["wte"][tokens] + p["wpe"]
    q, k, v = F.linear(norm(x, "ln1"), p["c_attn.w"], p["c_attn.b"]).chunk(3, dim=-1)
    x = x + F.linear(attend(q, k, v, HEADS, HEADS), p["c_proj.w"], p["c_proj.b"])
    x = x + F.linear(F.gelu(F.linear(norm(x, "ln2"), p["fc.w"], p["fc.b"]), approximate="tanh"), p["out.w"], p["out.b"])
    loss = F.cross_entropy(F.linear(norm(x, "lnf"), p["wte"]).view(-1, VOCAB), labels.reshape(-1))
    qkv = lambda t: by_group(*t.chunk(3, dim=0), HEADS, HEADS)
    names = {
        "embedding.weight": lambda g: g("wte"), "positions.weight": lambda g: g("wpe"),
        "l0.norm1.weight": lambda g: g("ln1.w"), "l0.norm1.bias": lambda g: g("ln1.b"), "l0.norm2.weight": lambda g: g("ln2.w"),
        "l0.norm2.bias": lambda g: g("ln2.b"), "final_norm.weight": lambda g: g("lnf.w"), "final_norm.bias": lambda g: g("lnf.b"),
        "l0.qkv.weight": lambda g: qkv(g("c_attn.w")), "l0.qkv.bias": lambda g: qkv(g("c_attn.b")), "l0.proj.weight": lambda g: g("c_proj.w"),
        "l0.proj.bias": lambda g: g("c_proj.b"), "l0.fc1.weight": lambda g: g("fc.w"), "l0.fc1.bias": lambda g: g("fc.b"),
        "l0.fc2.weight": lambda g: g("out.w"), "l0.fc2.bias": lambda g: g("out.b"),
    }
    return p, loss, names


def rotate(x, heads):
    """Llama's rotary embedding as Hugging Face has it: the two halves of a head."""
    dim = x.shape[-1] // heads
    angle = torch.outer(torch.arange(SEQUENCE, dtype=torch.float64), 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim))
    cos, sin = (torch.cat([f(angle)] * 2, dim=-1)[None, :, None, :] for f in (torch.cos, torch.sin))
    h = x.view(BATCH, SEQUENCE, heads, dim)
    low, high = h.chunk(2, dim=-1)
    return (h * cos + torch.cat([-high, low], dim=-1) * sin).view(BATCH, SEQUENCE, -1)


def llama(tokens, labels):
    kv_heads, dim = 2, HIDDEN // HEADS
    p = {
        "embed": weight(VOCAB, HIDDEN), "head": weight(VOCAB, HIDDEN), "n1": weight(HIDDEN, base=1), "n2": weight(HIDDEN, base=1), "nf": weight(HIDDEN, base=1),
        "q": weight(HIDDEN, HIDDEN), "k": weight(kv_heads * dim, HIDDEN), "v": weight(kv_heads * dim, HIDDEN), "o": weight(HIDDEN, HIDDEN),
        "gate": weight(FFN, HIDDEN), "up": weight(FFN, HIDDEN), "down": weight(HIDDEN, FFN),
    }
    norm = lambda x, n: F.rms_norm(x, (HIDDEN,), p[n], 1e-5)
    x = p["embed"][tokens]
    n = norm(x, "n1")
    q, k, v = F.linear(n, p["q"]), F.linear(n, p["k"]), F.linear(n, p["v"])
    x = x + F.linear(attend(rotate(q, HEADS), rotate(k, kv_heads), v, HEADS, kv_heads), p["o"])
    n = norm(x, "n2")
    x = x + F.linear(F.silu(F.linear(n, p["gate"])) * F.linear(n, p["up"]), p["down"])
    loss = F.cross_entropy(F.linear(norm(x, "nf"), p["head"]).view(-1, VOCAB), labels.reshape(-1))
    names = {
        "embedding.weight": lambda g: g("embed"), "head.weight": lambda g: g("head"), "l0.norm1.weight": lambda g: g("n1"),
        "l0.norm2.weight": lambda g: g("n2"), "final_norm.weight": lambda g: g("nf"),
        "l0.qkv.weight": lambda g: by_group(g("q"), g("k"), g("v"), HEADS, kv_heads), "l0.proj.weight": lambda g: g("o"),
        "l0.fc1.weight": lambda g: alternate(g("gate"), g("up")), "l0.fc2.weight": lambda g: g("down"),
    }
    return p, loss, names


def write(name, model):
    torch.manual_seed(1)
    text = torch.randint(0, VOCAB, (BATCH, SEQUENCE + 1))
    tokens, labels = text[:, :-1], text[:, 1:]
    p, loss, names = model(tokens, labels)
    loss.backward()
    header = {"torch": torch.__version__, "loss": loss.item(), "tokens": tokens.flatten().tolist(), "labels": labels.flatten().tolist(), "tensors": []}
    data = []
    for tensor, of in names.items():
        w, g = of(lambda n: p[n].detach()), of(lambda n: p[n].grad)
        header["tensors"].append({"name": tensor, "elements": w.numel()})
        data += [w.numpy().astype("<f4").tobytes(), g.numpy().astype("<f4").tobytes()]
    path = pathlib.Path(__file__).parent / (name + ".golden")
    path.write_bytes(json.dumps(header).encode() + b"\n" + b"".join(data))
    print(path, path.stat().st_size, "bytes, loss", loss.item())


if __name__ == "__main__":
    write("gpt2", gpt2)
    write("llama", llama)
