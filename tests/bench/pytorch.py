"""Step times of simexec beside PyTorch's on this processor: the same model, shapes and optimizer, in fp32.

    python3 tests/bench/pytorch.py --simexec build/release/bin/simexec -o figures.json

PyTorch's side is what its user would write: modules, eager mode, scaled_dot_product_attention, torch.optim.AdamW. Both train on random
tokens; a step is all its microbatches and the update, with the loss read. Rounds alternate between the two, so that what else the machine
does meets both; with one thread each is bound to one core. On a machine with other work add --before "chrt -f 20" (as root): two threads
that wait for each other lose most where another process has one of their cores. A figure is the median (and the least) of all steps of all
rounds but each round's first ones. PyTorch is not needed by anything else here.
"""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

SCENARIOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scenarios")
GPT2 = dict(layers=12, hidden=768, heads=12, vocabulary=50257)
TINY = dict(layers=4, hidden=128, heads=4, vocabulary=256)
# name: model, sequences a step, of a microbatch, their length, steps a round, the scenario file, what else it needs
CASES = {
    "tiny-gpt": (TINY, 16, 4, 128, 20, "tiny-gpt.json", []),
    "tiny-gpt, micro batch 16": (TINY, 16, 16, 128, 20, "tiny-gpt.json", []),
    "gpt2-124m, 4 x 256": (GPT2, 4, 4, 256, 3, "gpt2-124m-1-gpu.json", []),
    "gpt2-124m, 1 x 1024": (GPT2, 1, 1, 1024, 3, "gpt2-124m-1-gpu.json", []),
}


def model_of(layers, hidden, heads, vocabulary, length):
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
            self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
            self.fc1, self.fc2 = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

        def forward(self, x):
            batch, tokens, _ = x.shape
            q, k, v = (t.view(batch, tokens, heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(hidden, dim=2))
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(o.transpose(1, 2).reshape(batch, tokens, hidden))
            return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(length, hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(hidden), nn.Linear(hidden, vocabulary, bias=False)
            for p in self.parameters():
                if p.dim() > 1:
                    nn.init.normal_(p, std=0.02)
            self.head.weight = self.embedding.weight

        def forward(self, tokens, labels):
            x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            logits = self.head(self.norm(x))
            return F.cross_entropy(logits.view(-1, vocabulary), labels.reshape(-1))

    return Gpt()


def pytorch_round(case, threads):
    """Seconds of each step, printed as JSON: runs in a process of its own."""
    import torch

    shape, batch, micro, length, steps, _, _ = CASES[case]
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = model_of(**shape, length=length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    seconds = []
    for _ in range(steps):
        text = torch.randint(0, shape["vocabulary"], (batch, length + 1))
        began = time.perf_counter()
        optimizer.zero_grad()
        total = 0.0
        for part in text.split(micro):
            loss = model(part[:, :-1], part[:, 1:]) * (micro / batch)
            loss.backward()
            total += loss.item()
        optimizer.step()
        seconds.append(time.perf_counter() - began)
    print(json.dumps(seconds))


def bound(threads, before):
    return before.split() + ["taskset", "-c", "0" if threads == 1 else "0-%d" % (threads - 1)]


def run_pytorch(case, threads, before):
    command = bound(threads, before) + [sys.executable, os.path.abspath(__file__), "--child", case, "--threads", str(threads)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def run_simexec(simexec, case, threads, before):
    _, batch, micro, length, steps, scenario, more = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "steps.json")
        fields = ["cluster.preset=local-cpu", "cluster.nodes=1", "cluster.devices_per_node=1", "training.precision=fp32", "model.dropout=0",
                  "training.optimizer=adamw", f"training.global_batch_size={batch}", f"training.micro_batch_size={micro}",
                  f"training.sequence_length={length}", *more]
        if scenario.startswith("gpt2"):
            fields = ["cluster=" + json.dumps({"preset": "local-cpu", "nodes": 1, "devices_per_node": 1})] + fields[3:]
        command = bound(threads, before) + [simexec, "run", os.path.join(SCENARIOS, scenario), "-q", "--steps", str(steps), "--log", log]
        command += ["--threads", str(threads)] if threads else []
        for f in fields:
            command += ["--set", f]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return [json.loads(line)["seconds"] for line in open(log)]


def versions(simexec):
    import torch

    doctor = subprocess.run([simexec, "doctor"], capture_output=True, text=True).stdout
    return {"pytorch": torch.__version__, "pytorch_blas": "MKL" if torch.backends.mkl.is_available() else "other",
            "simexec": subprocess.run([simexec, "--version"], capture_output=True, text=True).stdout.strip(),
            "simexec_blas": next((line.strip() for line in doctor.splitlines() if "BLAS" in line), "")}


def processor():
    for line in open("/proc/cpuinfo"):
        if line.startswith(("model name", "cpu family", "model\t")):
            yield line.split(":")[1].strip()
        if line == "\n":
            return


def measure(options):
    figures = {"measured": datetime.date.today().isoformat(), "processor": ", ".join(processor()), "cores": os.cpu_count(),
               "system": platform.platform(), **versions(options.simexec), "before": options.before, "steps": []}
    for case in options.cases.split(";") if options.cases else CASES:
        for threads in [int(t) for t in options.threads.split(",")]:
            ours, theirs = [], []
            for _ in range(options.rounds):
                skip = max(1, CASES[case][4] // 4)
                theirs += run_pytorch(case, threads, options.before)[skip:]
                ours += run_simexec(options.simexec, case, threads, options.before)[skip:]
            row = {"case": case, "threads": threads, "rounds": options.rounds}
            for name, values in (("simexec", ours), ("pytorch", theirs)):
                row[name + "_median_s"], row[name + "_least_s"] = (round(f(values), 6) for f in (statistics.median, min))
            row["ratio_of_medians"] = round(row["simexec_median_s"] / row["pytorch_median_s"], 3)
            row["ratio_of_least"] = round(row["simexec_least_s"] / row["pytorch_least_s"], 3)
            figures["steps"].append(row)
            print("%-26s %d threads: simexec %.4f s, PyTorch %.4f s, ratio %.3f (of the least %.3f)" % (
                case, threads, row["simexec_median_s"], row["pytorch_median_s"], row["ratio_of_medians"], row["ratio_of_least"]), file=sys.stderr)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simexec", default="build/release/bin/simexec")
    parser.add_argument("--threads", default="1,2", help="numbers of threads, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", help="some of: " + "; ".join(CASES))
    parser.add_argument("--before", default="", help="a command that both run under, such as: chrt -f 20")
    parser.add_argument("-o", "--output")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return pytorch_round(options.child, int(options.threads))
    text = json.dumps(measure(options), indent=1)
    if options.output:
        open(options.output, "w").write(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
