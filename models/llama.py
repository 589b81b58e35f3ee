"""The storyteller's network: a Llama decoder in torch, written to train fast on a CPU.

Master weights, residual stream, norms and the loss are float32; every matrix product, forward and
backward, is in the "compute dtype": bfloat16 for training, float32 for exact evaluation.
Dimensions: B sequences, T positions, N = B*T rows, H hidden, V vocabulary, A query heads, K
key/value heads, D head size.
"""
import ctypes
import math

import torch
from torch.autograd import Function
import torch.nn.functional as F

QUERY_BLOCK = 128    # attention is computed for so many query positions at a time
LOSS_ROWS = 1024     # logits exist for so many rows at a time


def keep_freed_memory():
    """Tells glibc to reuse large freed blocks instead of returning them to the kernel.

    Without this, most elementwise operations spend their time on page faults.
    """
    libc = ctypes.CDLL(None)
    M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
    libc.mallopt(M_MMAP_MAX, 0)
    libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    libc.mallopt(M_TOP_PAD, 2**28)


class RmsNorm(Function):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis of float32 x; result of type dtype."""

    @staticmethod
    def forward(ctx, x, weight, eps, dtype):
        inverse = torch.rsqrt(x.square().mean(-1, keepdim=True).add_(eps))
        normed = x * inverse
        ctx.save_for_backward(normed, inverse, weight)
        return (normed * weight).to(dtype)

    @staticmethod
    def backward(ctx, grad):
        normed, inverse, weight = ctx.saved_tensors
        grad = grad.float()
        grad_weight = (grad * normed).sum(0)
        grad = grad * weight
        along = (grad * normed).mean(-1, keepdim=True)
        return grad.addcmul_(normed, along, value=-1).mul_(inverse), grad_weight, None, None


class SwiGlu(Function):
    """silu(gate) * up, where the input's rows are [gate, up]; in the compute dtype."""

    @staticmethod
    def forward(ctx, gate_up):
        gate, up = gate_up.chunk(2, dim=-1)
        gate = gate.float()
        activated = F.silu(gate).to(up.dtype)
        ctx.save_for_backward(gate, up, activated)
        return activated * up

    @staticmethod
    def backward(ctx, grad):
        gate, up, activated = ctx.saved_tensors
        grad_gate = torch.ops.aten.silu_backward((grad * up).float(), gate)
        return torch.cat([grad_gate.to(grad.dtype), grad * activated], dim=-1)


def rotate(x, cos, sin):
    """RoPE on pairs (i, i + D/2).  x [B, T, heads, D] float32; cos, sin [T, 1, D/2]."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def heads_first(x):
    """[B, T, heads, D] -> [B * heads, T, D], contiguous."""
    return x.transpose(1, 2).reshape(-1, x.shape[1], x.shape[3])


class Attention(Function):
    """RoPE and causal grouped-query attention.

    qkv [B, T, A + 2K, D] -> [B, T, A, D], in the compute dtype.  The A/K query heads from g*A/K on
    share key/value head g, so their rows are stacked and multiplied with it at once: "rows" below
    are A/K * (positions in the block), for each of B*K batches.
    """

    @staticmethod
    def forward(ctx, qkv, cos, sin, kv_heads):
        batch, length, heads, size = qkv.shape
        q_heads = heads - 2 * kv_heads
        group, scale = q_heads // kv_heads, size ** -0.5
        turned = rotate(qkv[:, :, :-kv_heads].float(), cos, sin)
        q = turned[:, :, :q_heads].mul(scale).to(qkv.dtype)
        q = q.view(batch, length, kv_heads, group, size).permute(0, 2, 3, 1, 4)
        k = heads_first(turned[:, :, q_heads:].to(qkv.dtype))
        v = heads_first(qkv[:, :, -kv_heads:])
        out = torch.empty(batch, kv_heads, group, length, size, dtype=qkv.dtype)
        blocks = []
        for start in range(0, length, QUERY_BLOCK):
            end = min(start + QUERY_BLOCK, length)
            rows = q[:, :, :, start:end].reshape(batch * kv_heads, -1, size)
            scores = torch.bmm(rows, k[:, :end].transpose(1, 2))
            diagonal = scores.view(-1, group, end - start, end)[..., start:]
            diagonal.add_(future_mask(end - start, qkv.dtype))
            weights = torch.softmax(scores, dim=-1)
            out[:, :, :, start:end] = torch.bmm(weights, v[:, :end]).view(
                batch, kv_heads, group, end - start, size)
            blocks += [rows, weights]
        ctx.save_for_backward(cos, sin, k, v, *blocks)
        ctx.dims = batch, length, kv_heads, group, size
        return out.permute(0, 3, 1, 2, 4).reshape(batch, length, q_heads, size)

    @staticmethod
    def backward(ctx, grad):
        cos, sin, k, v, *blocks = ctx.saved_tensors
        batch, length, kv_heads, group, size = ctx.dims
        q_heads = kv_heads * group
        grad = grad.reshape(batch, length, kv_heads, group, size).permute(0, 2, 3, 1, 4)
        grad_q = torch.empty(batch, kv_heads, group, length, size)
        grad_k = torch.zeros(batch * kv_heads, length, size)
        grad_v = torch.zeros(batch * kv_heads, length, size)
        for index, start in enumerate(range(0, length, QUERY_BLOCK)):
            end = min(start + QUERY_BLOCK, length)
            rows, weights = blocks[2 * index:2 * index + 2]
            grad_out = grad[:, :, :, start:end].reshape(batch * kv_heads, -1, size)
            grad_v[:, :end] += torch.bmm(grad_out.transpose(1, 2), weights).transpose(1, 2)
            grad_weights = torch.bmm(grad_out, v[:, :end].transpose(1, 2))
            grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
            grad_q[:, :, :, start:end] = torch.bmm(grad_scores, k[:, :end]).view(
                batch, kv_heads, group, end - start, size)
            grad_k[:, :end] += torch.bmm(rows.transpose(1, 2), grad_scores).transpose(1, 2)
        grad_q = grad_q.mul_(size ** -0.5).permute(0, 3, 1, 2, 4).reshape(
            batch, length, q_heads, size)
        grad_k, grad_v = (x.view(batch, kv_heads, length, size).transpose(1, 2)
                          for x in (grad_k, grad_v))
        turned_back = rotate(torch.cat([grad_q, grad_k], dim=2), cos, -sin)
        return torch.cat([turned_back, grad_v], dim=2).to(grad.dtype), None, None, None


def future_mask(length, dtype):
    """[length, length]: -inf where the key is later than the query, else 0."""
    return torch.full((length, length), -math.inf, dtype=dtype).triu_(1)


class NextTokenLoss(Function):
    """Mean negative log-likelihood in nats of `targets` [N] under logits x @ embedding^T.

    x [N, H] and embedding [V, H] are in the compute dtype.  The gradients are computed in the
    forward pass, a slice of rows at a time, so that all logits never exist at once.
    """

    @staticmethod
    def forward(ctx, x, embedding, targets):
        total = 0.0
        grad_x = torch.empty_like(x)
        grad_embedding = torch.zeros(embedding.shape)
        for start in range(0, len(x), LOSS_ROWS):
            rows, truth = x[start:start + LOSS_ROWS], targets[start:start + LOSS_ROWS, None]
            log_probs = torch.log_softmax((rows @ embedding.t()).float(), dim=-1)
            total -= log_probs.gather(1, truth).sum()
            grad = log_probs.exp_()
            grad.scatter_add_(1, truth, torch.full(truth.shape, -1.0))
            grad = grad.mul_(1 / len(x)).to(x.dtype)
            grad_x[start:start + LOSS_ROWS] = grad @ embedding
            grad_embedding += grad.t() @ rows
        ctx.save_for_backward(grad_x, grad_embedding.to(x.dtype))
        return total / len(x)

    @staticmethod
    def backward(ctx, grad):
        grad_x, grad_embedding = ctx.saved_tensors
        return grad_x * grad, grad_embedding * grad, None


class MaskPool:
    """Dropout masks as random slices of one drawn in advance: drawing each anew costs too much."""

    def __init__(self, rate, size=2**23):
        self.rate, self.size = rate, size
        self.redraw(0)

    def redraw(self, seed):
        """Draws the pool that is sliced from now on."""
        generator = torch.Generator().manual_seed(seed)
        keep = torch.rand(self.size, generator=generator) >= self.rate
        self.pool = keep.float().div_(1 - self.rate).bfloat16()

    def apply(self, x):
        """x with each entry zeroed with probability `rate` and else scaled by 1/(1 - rate)."""
        start = int(torch.randint(self.size - x.numel(), ()))
        return x * self.pool[start:start + x.numel()].view_as(x)


class Llama(torch.nn.Module):
    """The decoder.  Parameters are float32; q, k, v and gate, up are kept as one matrix each."""

    def __init__(self, config, dropout=0.0, dtype=torch.bfloat16):
        """config: the content of config.json; dtype: the compute dtype."""
        super().__init__()
        self.config, self.dtype = config, dtype
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.head_dim, self.eps = config["head_dim"], config["rms_norm_eps"]
        attended = self.heads * self.head_dim
        depth_scale = (2 * config["num_hidden_layers"]) ** -0.5
        self.embedding = matrix(config["vocab_size"], hidden, 0.02)
        self.norm = torch.nn.Parameter(torch.ones(hidden))
        self.layers = torch.nn.ModuleList(torch.nn.ParameterDict({
            "input_norm": torch.nn.Parameter(torch.ones(hidden)),
            "qkv": matrix(attended + 2 * self.kv_heads * self.head_dim, hidden, hidden ** -0.5),
            "out": matrix(hidden, attended, depth_scale * attended ** -0.5),
            "mlp_norm": torch.nn.Parameter(torch.ones(hidden)),
            "gate_up": matrix(2 * inner, hidden, hidden ** -0.5),
            "down": matrix(hidden, inner, depth_scale * inner ** -0.5),
        }) for _ in range(config["num_hidden_layers"]))
        self.cos, self.sin = rope_tables(config)
        self.masks = MaskPool(dropout) if dropout else None

    def drop(self, x):
        return self.masks.apply(x) if self.masks and self.training else x

    def attend(self, layer, x, batch):
        """One attention block without its residual: x [N, H] float32 -> [N, H]."""
        normed = RmsNorm.apply(x, layer["input_norm"], self.eps, self.dtype)
        length = len(x) // batch
        qkv = F.linear(normed, layer["qkv"].to(self.dtype))
        mixed = Attention.apply(qkv.view(batch, length, -1, self.head_dim), self.cos[:length],
                                self.sin[:length], self.kv_heads)
        return self.drop(F.linear(mixed.reshape(len(x), -1), layer["out"].to(self.dtype)))

    def feed_forward(self, layer, x):
        """One MLP block without its residual: x [N, H] float32 -> [N, H]."""
        normed = RmsNorm.apply(x, layer["mlp_norm"], self.eps, self.dtype)
        inner = SwiGlu.apply(F.linear(normed, layer["gate_up"].to(self.dtype)))
        return self.drop(F.linear(inner, layer["down"].to(self.dtype)))

    def hidden(self, tokens):
        """tokens [B, T] int64 -> what is multiplied with the embedding, [N, H]."""
        x = self.drop(F.embedding(tokens.reshape(-1), self.embedding))
        for layer in self.layers:
            x = x + self.attend(layer, x, len(tokens))
            x = x + self.feed_forward(layer, x)
        return RmsNorm.apply(x, self.norm, self.eps, self.dtype)

    def loss(self, tokens, targets):
        """Mean next-token loss in nats; tokens, targets [B, T] int64."""
        return NextTokenLoss.apply(self.hidden(tokens), self.embedding.to(self.dtype),
                                   targets.reshape(-1))

    def logits(self, tokens):
        """tokens [T] int64 -> [T, V] float32."""
        return F.linear(self.hidden(tokens[None]), self.embedding.to(self.dtype)).float()


def matrix(rows, columns, deviation):
    return torch.nn.Parameter(torch.randn(rows, columns) * deviation)


def rope_tables(config):
    """cos, sin of position * theta^(-2i/D): [max positions, 1, D/2] float32."""
    size = config["head_dim"]
    inverse = config["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.outer(torch.arange(config["max_position_embeddings"], dtype=torch.float64),
                         inverse)
    return angles.cos().float()[:, None], angles.sin().float()[:, None]
