"""Weights to and from the transformers library: the loss of held-back text, by simexec and by the library, of the same files.

    python3 tests/agree/pytorch/hugging_face.py --simexec build/release/bin/simexec

Of each family a small random model is saved by the library (save_pretrained, safetensors), read by simexec and evaluated (--weights); then
simexec trains it for some steps and writes it (--export-weights), and the library loads that. Both losses are in fp32, and are printed with
their relative differences. A run by hand: no test needs the library.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import torch
import transformers

LENGTH, BATCH, HELD, BATCHES = 64, 4, 0.2, 4
TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "LICENSE")
ROTARY = dict(vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
              max_position_embeddings=256, tie_word_embeddings=False)


def families():
    t = transformers
    yield "GPT-2", t.GPT2Config(vocab_size=256, n_embd=64, n_layer=3, n_head=4, n_positions=256, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    yield "Llama", t.LlamaConfig(**ROTARY)
    yield "Mistral", t.MistralConfig(**ROTARY, sliding_window=None)
    yield "Qwen 2", t.Qwen2Config(**ROTARY)
    yield "Qwen 3", t.Qwen3Config(**ROTARY, head_dim=16)
    yield "Mixtral", t.MixtralConfig(**ROTARY, num_local_experts=4, num_experts_per_tok=2, sliding_window=None)


def held_loss(folder):
    """The mean loss of the batches that simexec evaluates: sequences one behind the other at the text's end."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    text = open(TEXT, "rb").read()
    begin, n = len(text) - round(len(text) * HELD), LENGTH + 1
    total, tokens = 0.0, 0
    with torch.no_grad():
        for i in range(min(BATCHES, round(len(text) * HELD) // (BATCH * n)) * BATCH):
            ids = torch.tensor(list(text[begin + i * n : begin + (i + 1) * n])).unsqueeze(0)
            logits = model(ids[:, :-1]).logits.double()
            total += torch.nn.functional.cross_entropy(logits[0], ids[0, 1:], reduction="sum").item()
            tokens += LENGTH
    return total / tokens


def run(simexec, scenario, *more):
    command = [simexec, "run", scenario, "--json", "-q", "--text", TEXT, "--eval-every", "1000000", "--eval-fraction", str(HELD), *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s\n%s" % (" ".join(command), done.stderr))
    return json.loads(done.stdout)["eval_loss"]


def check(simexec, name, config, folder):
    torch.manual_seed(1)
    theirs, ours, scenario = (os.path.join(folder, x) for x in ("theirs", "ours", "job.json"))
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():  # biases and norms that a fresh model has at 0 and 1 would prove nothing
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(0.1 * torch.randn_like(p))
    model.save_pretrained(theirs)
    json.dump({"name": name, "model": {"hf_config": os.path.join(theirs, "config.json")},
               "cluster": {"preset": "local-cpu", "nodes": 1, "devices_per_node": 1},
               "training": {"global_batch_size": BATCH, "sequence_length": LENGTH, "precision": "fp32", "optimizer": "adamw"},
               "strategy": {"framework": "megatron"}}, open(scenario, "w"))
    still = run(simexec, scenario, "--weights", theirs, "--steps", "1", "--set", "training.learning_rate=1e-12")
    trained = run(simexec, scenario, "--weights", theirs, "--steps", "10", "--export-weights", ours, "--set", "training.learning_rate=0.003")
    rows = [("read", still, held_loss(theirs)), ("trained and written", trained, held_loss(ours))]
    for what, mine, library in rows:
        print("%-8s %-20s simexec %.7f   transformers %.7f   off by %.1e" % (name, what, mine, library, abs(mine / library - 1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simexec", default="build/release/bin/simexec")
    options = parser.parse_args()
    print("transformers %s, PyTorch %s" % (transformers.__version__, torch.__version__))
    for name, config in families():
        with tempfile.TemporaryDirectory() as folder:
            check(options.simexec, name, config, folder)


if __name__ == "__main__":
    main()
