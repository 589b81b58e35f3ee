#!/usr/bin/python3
"""Trains the storyteller and exports it as a Hugging Face Llama folder.

    python3 train.py --minutes 100                # needs the tokenizer of train_tokenizer.py

The learning rate warms up and then follows a cosine down to a twentieth of its peak, as a
function of the part of the budget spent: of --minutes, or of --steps (reproducible up to
the order of sums).  The run saves its state to --work and continues from there when started again.
A run with --init begins with the weights of an exported folder instead of random ones: another
round of training, with a schedule of its own.
"""
import argparse
import json
import math
import pathlib
import time

import torch

from bpe import Tokenizer
from checkpoint import load_weights, save_model
from corpus import DEFAULT_MODEL, add_corpus_flag, encode_documents, read_documents
from heldout import document_nats, held_out
from llama import Llama, keep_freed_memory
from workers import Workers

LENGTH = 512    # tokens in a window, and the longest context of the model


def model_config(tokenizer):
    """The content of config.json."""
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
            "vocab_size": tokenizer.size, "hidden_size": 256, "intermediate_size": 768,
            "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 4,
            "head_dim": 32, "hidden_act": "silu", "max_position_embeddings": LENGTH,
            "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
            "attention_bias": False, "mlp_bias": False, "torch_dtype": "bfloat16",
            "bos_token_id": tokenizer.end_of_text, "eos_token_id": tokenizer.end_of_text}


class Windows:
    """Training windows of LENGTH + 1 tokens: inputs and, one later, targets.

    Every epoch shuffles the documents into one stream and cuts windows at each document's start
    and then at every LENGTH tokens from a random position in the first window, so that beginnings
    are seen from position 0 and the rest at changing positions.  A window that runs past the end
    of its document continues into the next one.
    """

    def __init__(self, documents, seed):
        self.documents = [torch.tensor(document, dtype=torch.int16) for document in documents]
        self.seed = seed
        self.epoch = -1
        self.starts, self.next = [], 0

    def start_epoch(self, epoch):
        random = torch.Generator().manual_seed(self.seed * 1000 + epoch)
        order = torch.randperm(len(self.documents), generator=random).tolist()
        self.stream = torch.cat([self.documents[index] for index in order])
        starts, begin = [], 0
        for index in order:
            end = begin + len(self.documents[index])
            first = begin + int(torch.randint(1, LENGTH + 1, (), generator=random))
            starts += [begin, *range(first, end, LENGTH)]
            begin = end
        starts = torch.tensor([start for start in starts if start + LENGTH < len(self.stream)])
        self.starts = starts[torch.randperm(len(starts), generator=random)].tolist()
        self.epoch, self.next = epoch, 0

    def batch(self, count):
        """[count, LENGTH + 1] int64: inputs are all tokens but the last, targets all but first."""
        windows = []
        while len(windows) < count:
            if self.next == len(self.starts):
                self.start_epoch(self.epoch + 1)
            start = self.starts[self.next]
            windows.append(self.stream[start:start + LENGTH + 1])
            self.next += 1
        return torch.stack(windows).long()


def learning_rate(peak, spent, warmup=0.02, floor=0.05):
    """The rate when the part `spent`, 0 to 1, of the budget is gone."""
    if spent < warmup:
        return peak * max(spent / warmup, 0.01)
    cosine = 0.5 + 0.5 * math.cos(math.pi * min((spent - warmup) / (1 - warmup), 1.0))
    return peak * (floor + (1 - floor) * cosine)


def make_optimizer(model, weight_decay):
    """AdamW; norms are not decayed."""
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() == 2], "weight_decay": weight_decay},
              {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8, foreach=True)


def held_out_loss(model, documents):
    """Nats per token with windows that do not overlap; evaluate.py gives tokens more context."""
    model.eval()
    nats = sum(document_nats(model, document, LENGTH, stride=LENGTH) for document in documents)
    model.train()
    return nats / sum(len(document) - 1 for document in documents)


class Run:
    """A training run: everything that is saved and restored, and the loop over it."""

    def __init__(self, args):
        self.args = args
        tokenizer = Tokenizer(args.out / "tokenizer.json")
        training = encode_documents(tokenizer, read_documents(args.corpus, "train"))
        self.windows = Windows(training, args.seed)
        self.held_out, _ = held_out(tokenizer, args.corpus)
        torch.manual_seed(args.seed)
        self.model = Llama(model_config(tokenizer), args.dropout)
        if args.init:
            load_weights(self.model, args.init)
        self.workers = Workers(self.model, args.processes, args.batch, LENGTH)
        self.optimizer = make_optimizer(self.model, args.weight_decay)
        self.step, self.seconds = 0, 0.0
        self.state_path = args.work / "state.pt"
        if self.state_path.exists():
            self.restore()

    def save(self):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                 "step": self.step, "seconds": self.seconds, "epoch": self.windows.epoch,
                 "next": self.windows.next}
        torch.save(state, self.state_path.with_suffix(".new"))
        self.state_path.with_suffix(".new").rename(self.state_path)
        save_model(self.model, self.args.work / "export")

    def restore(self):
        state = torch.load(self.state_path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = state["step"], state["seconds"]
        self.windows.start_epoch(state["epoch"])
        self.windows.next = state["next"]
        print(f"resumed step={self.step} minutes={self.seconds / 60:.1f}", flush=True)

    def spent(self):
        """The part of the budget that is gone."""
        if self.args.steps:
            return self.step / self.args.steps
        return self.seconds / (60 * self.args.minutes)

    def train_step(self):
        """One optimizer step; returns the training loss in nats per token."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.args.lr, self.spent())
        loss = self.workers.gradients(self.windows.batch(self.args.batch),
                                      seed=self.args.seed * 10**6 + self.step)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return loss

    def loop(self):
        losses, reported, began = [], 0.0, time.perf_counter()
        while self.spent() < 1:
            losses.append(self.train_step())
            if self.step % self.args.eval_every == 0:
                print(f"step={self.step} heldout={held_out_loss(self.model, self.held_out):.4f}",
                      flush=True)
                self.save()
            now = time.perf_counter()
            self.seconds, reported, began = (self.seconds + now - began, reported + now - began,
                                             now)
            if reported > 20:
                self.report(losses, reported)
                losses, reported = [], 0.0
        loss = held_out_loss(self.model, self.held_out)
        print(f"done step={self.step} minutes={self.seconds / 60:.1f} heldout={loss:.4f}")
        self.save()

    def report(self, losses, seconds):
        spent = self.spent()
        left = self.seconds * (1 / spent - 1) / 60
        print(f"step={self.step} epoch={self.windows.epoch} loss={sum(losses) / len(losses):.4f} "
              f"lr={self.optimizer.param_groups[0]['lr']:.2e} "
              f"tokens_per_s={len(losses) * self.args.batch * LENGTH / seconds:.0f} "
              f"minutes_left={left:.1f}", flush=True)


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_corpus_flag(parser)
    budget = parser.add_mutually_exclusive_group(required=True)
    budget.add_argument("--minutes", type=float, help="training time, over all resumed parts")
    budget.add_argument("--steps", type=int, help="optimizer steps instead of a time")
    parser.add_argument("--init", type=pathlib.Path, metavar="FOLDER",
                        help="exported folder to take the first weights from (default: random)")
    parser.add_argument("--batch", type=int, default=16,
                        help=f"windows of {LENGTH} tokens a step (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=2e-3, help="peak rate (default: %(default)s)")
    parser.add_argument("--weight-decay", type=float, default=0.1, help="(default: %(default)s)")
    parser.add_argument("--dropout", type=float, default=0.1, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--processes", type=int, default=2,
                        help="single-threaded workers (default: %(default)s)")
    parser.add_argument("--eval-every", type=int, default=300, metavar="STEPS",
                        help="held-out loss and checkpoint (default: %(default)s)")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/storyteller"),
                        help="folder of the run's state (default: %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, default=DEFAULT_MODEL, metavar="FOLDER",
                        help="has tokenizer.json; gets the other files at the end")
    return parser.parse_args()


def main():
    args = parse_flags()
    args.work.mkdir(parents=True, exist_ok=True)
    keep_freed_memory()
    torch.set_num_threads(1)
    run = Run(args)
    print(json.dumps({name: str(value) for name, value in vars(args).items()}), flush=True)
    run.loop()
    save_model(run.model, args.out)


if __name__ == "__main__":
    main()
