"""What users write between layers, from harmless to nasty, as pieces of source code."""

from __future__ import annotations

from fuzz.layers import Piece


def row(
    *lines: str, init: str = "", slots: tuple[tuple[str, ...], ...] = (), jump: bool = False
) -> Piece:
    """A piece that treats every row by itself."""
    return Piece("\n".join(lines), init, slots, jump, row=True)


def far(
    *lines: str, init: str = "", slots: tuple[tuple[str, ...], ...] = (), jump: bool = False
) -> Piece:
    """A piece whose rows depend on other rows, on sizes or on the past."""
    return Piece("\n".join(lines), init, slots, jump)


LINEAR = "self.l{i} = nn.Linear(8, 8)"
FEW = ("0.5", "0.1", "1.0", "2.0")
N = "h.size(0)"

PLAIN = {
    "tanh": row("h = h.tanh()"),
    "relu": row("h = F.relu(h)"),
    "elu": row("h = F.elu(h)"),
    "leaky": row("h = F.leaky_relu(h, 0.2)"),
    "prelu": row("h = self.a{i}(h)", init="self.a{i} = nn.PReLU()"),
    "dropout": row("h = F.dropout(h, 0.5, training=self.training)"),
    "linear": row("h = self.l{i}(h)", init=LINEAR),
    "residual": row("h = h + h0"),
    "initial": row("h = 0.9 * h + 0.1 * h0"),
    "concatenate": row(
        "h = self.l{i}(torch.cat([h, h0], dim=1))", init="self.l{i} = nn.Linear(16, 8)"
    ),
    "gate": row("g = self.l{i}(h).sigmoid()", "h = g * h + (1 - g) * h0", init=LINEAR),
    "glu": row("h = F.glu(self.l{i}(h), dim=-1)", init="self.l{i} = nn.Linear(8, 16)"),
    "GRUCell": row("h = self.g{i}(h, h0)", init="self.g{i} = nn.GRUCell(8, 8)"),
    "sequential": row(
        "h = self.l{i}(h)",
        init="self.l{i} = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.3))",
    ),
    "normalize": row("h = F.normalize(h, dim={0})", slots=(("1", "-1"),)),
    "softmax": row("h = h.softmax(dim=-1) + h"),
    "clamp": row("h = h.clamp(-{0}, {0})", slots=(FEW,)),
    "where": row("h = torch.where(h > 0, h, h0)", jump=True),
    "masked fill": row("h = h.masked_fill(h.abs() > {0}, 0.5)", slots=(FEW,), jump=True),
    "round": row("h = (4 * h).round() / 4 + 0.1 * h", jump=True),
    "sign": row("h = h.sign() * h.abs().log1p()"),
    "argmax": row("h = h + F.one_hot(h.argmax(dim=-1), 8).to(h.dtype)", jump=True),
    "topk": row("h = h * (h >= h.topk(3, dim=1).values[:, -1:])", jump=True),
    "sort columns": row("h = h.sort(dim=1).values"),
    "scatter columns": row("h = torch.zeros_like(h).scatter_(1, h.argsort(dim=1), h0)", jump=True),
    "standardise rows": row("h = (h - h.mean(1, keepdim=True)) / (h.std(1, keepdim=True) + 0.01)"),
    "detach": row("h = h.detach().clone().mul_(2)"),
    "nan": row("h = torch.nan_to_num(h.abs().log().clamp(min=-3), neginf=0.0)"),
    "degree": row(
        "d = degree(edge_index[{0}], h.size(0), dtype=h.dtype)",
        "h = h + self.d{i}(d.view(-1, 1)).tanh()",
        init="self.d{i} = nn.Linear(1, 8)",
        slots=(("1", "0"),),
    ),
    "degree scale": row(
        "d = torch.zeros(h.size(0), dtype=h.dtype).scatter_add_(0, edge_index[1], edge_weight)",
        "h = h / (1 + d.abs()).view(-1, 1)",
    ),
    "degree class": row(
        "d = torch.bincount(edge_index[{0}], minlength=h.size(0)).clamp(max=3)",
        "h = h + self.e{i}(d)",
        init="self.e{i} = nn.Embedding(4, 8)",
        slots=(("1", "0"),),
    ),
    "embedding": row("h = h + self.e{i}(n_id)", init="self.e{i} = nn.Embedding(300, 8)"),
    "node type": row("h = h + self.e{i}(node_type)", init="self.e{i} = nn.Embedding(2, 8)"),
    "position": row("h = h + self.p{i}(pos)", init="self.p{i} = nn.Linear(3, 8)"),
    "dead layer": row("self.c{i}(h.detach(), edge_index)", init="self.c{i} = GCNConv(8, 8)"),
    "dead mean": row("unused = h.mean(dim=0)"),
}

IN_PLACE = {
    "clamp_": row("h = h.clone()" + "\nh.clamp_(-{0}, {0})", slots=(FEW,)),
    "clamp_ bare": row("h.clamp_(-{0}, {0})", slots=(FEW,)),
    "relu_": row("h = F.relu_(h) + h0"),
    "relu inplace": row("h = self.r{i}(h)", init="self.r{i} = nn.ReLU(inplace=True)"),
    "+=": row("h += 0.5 * h0"),
    "*=": row("h *= {0}", slots=(FEW,)),
    "masked_fill_": row("h.masked_fill_(h > {0}, 0.5)", slots=(FEW,), jump=True),
    "write columns": row("h[:, :2] = h[:, 2:4].tanh()"),
    "write column": row("h[:, 0] += 1.0"),
    "write by list": row("h[:, [1, 3]] = 0.25"),
    "write by mask": row("h[h > {0}] = 0.5", slots=(FEW,), jump=True),
    "write view": row("v = h.view(-1, 2, 4)", "v[:, 0] *= 2.0"),
    "write transposed": row("h.t().mul_(0.5)"),
    "write chunk": row("a, b = h.chunk(2, dim=1)", "a.add_(b.tanh())"),
    "alias": row("before = h", "h.tanh_()", "h = h + before"),
    "clone": row("before = h.clone()", "h.add_(1.0)", "h = h - 0.5 * before"),
    "copy_": row("h.copy_(h.tanh())"),
    "out": row("torch.add(h, 1.0, out=h)"),
    "fill buffer": row(
        "b = torch.empty_like(h)", "b[:, :4] = h[:, 4:]", "b[:, 4:] = h0[:, :4]", "h = b"
    ),
    "index_fill_": row("h.index_fill_(1, torch.tensor([0, 2]), 0.5)"),
    "write rows": far("h[0] = 0.0"),
    "write where": far("h[node_type == 1] = h[node_type == 1].tanh()"),
    "write targets": far("h[edge_index[1]] = 0.5"),
}

LAYOUT = {
    "transpose": row("h = (self.l{i}.weight @ h.t()).t()", init=LINEAR),
    "heads": row("h = h.view(-1, 2, 4).transpose(1, 2).reshape(-1, 8)"),
    "heads first": row(
        "h = h.view(-1, 2, 4).permute(1, 0, 2).tanh().permute(1, 0, 2).reshape(-1, 8)"
    ),
    "head softmax": row(
        "h = (h.view(-1, 4, 2).softmax(dim=1) + 1).view({0}, 8)", slots=(("-1", N),)
    ),
    "einsum": row('h = torch.einsum("nf,fk->nk", h, self.l{i}.weight)', init=LINEAR),
    "stack": row("h = torch.stack([h, h0], dim={0}).amax(dim={0})", slots=(("0", "1", "-1"),)),
    "flatten": row("h = h.reshape(-1).view(-1, 8).abs().sqrt()"),
    "reverse columns": row("h = h.flip(1)"),
    "conv over columns": row(
        "h = self.l{i}(h.unsqueeze(1)).squeeze(1)", init="self.l{i} = nn.Conv1d(1, 1, 3, padding=1)"
    ),
    "bmm": row(
        "h = torch.bmm(h.unsqueeze(1), self.l{i}.weight.expand(h.size(0), 8, 8)).squeeze(1)",
        init=LINEAR,
    ),
    "batched heads": row(
        "h = torch.matmul(h.view(-1, 2, 4).transpose(0, 1), self.w{i}).transpose(0, 1).reshape(-1, 8)",
        init="self.w{i} = nn.Parameter(torch.randn(2, 4, 4))",
    ),
    "unbind": row("h = torch.stack([c.tanh() for c in h.unbind(1)], dim=1)"),
    "split": row("a, b = h.split([3, 5], dim=1)", "h = torch.cat([b, a], dim=1)"),
    "wide": row("w = h.t()", "w = w * w.sigmoid()", "h = w.t().contiguous()"),
    "attention in rows": row(
        "t = h.view(-1, 4, 2)",
        "h = (t + self.m{i}(t, t, t)[0]).reshape(-1, 8)",
        init="self.m{i} = nn.MultiheadAttention(2, 1, batch_first=True)",
    ),
    "own attention in rows": row(
        "t = h.view(-1, 4, 2)",
        "h = (torch.softmax(t @ t.transpose(1, 2), dim=-1) @ t).reshape(-1, 8)",
    ),
    "LSTM in rows": row(
        "h = self.m{i}(h.view(-1, 4, 2))[0].reshape(-1, 8)",
        init="self.m{i} = nn.LSTM(2, 2, batch_first=True)",
    ),
    "vmap": row("h = torch.vmap(self.l{i})(h)", init=LINEAR),
    "attention over nodes": far(
        "t = h.unsqueeze(0)",
        "h = h + self.m{i}(t, t, t)[0].squeeze(0)",
        init="self.m{i} = nn.MultiheadAttention(8, 2, batch_first=True)",
    ),
    "scaled attention": far(
        "t = h.unsqueeze(0)", "h = h + F.scaled_dot_product_attention(t, t, t)[0]"
    ),
    "gram": far("h = h @ (h.t() @ h) / 100"),
    "distances": far("h = h + torch.cdist(h, h).mean(dim=1, keepdim=True)"),
    "LSTM over nodes": far(
        "h = self.m{i}(h.unsqueeze(0))[0].squeeze(0)",
        init="self.m{i} = nn.LSTM(8, 8, batch_first=True)",
    ),
    "conv over nodes": far(
        "h = self.l{i}(h.t().unsqueeze(0))[0].t()", init="self.l{i} = nn.Conv1d(8, 8, 3, padding=1)"
    ),
}

GLOBAL = {
    "mean": far("h = h - h.mean(dim=0{0})", slots=(("", ", keepdim=True"),)),
    "max": far("h = h + h.{0}(dim=0)", slots=(("amax", "amin", "logsumexp", "norm"),)),
    "normalize nodes": far("h = F.normalize(h, dim=0)"),
    "softmax nodes": far("h = h * h.softmax(dim=0)"),
    "guard": far("h = h / h.abs().max().clamp(min={0})", slots=(("3.0", "0.5", "10.0"),)),
    "min-max": far("h = (h - h.min()) / (h.max() - h.min() + 1)"),
    "deviation": far("h = h / (h.std(dim=0, unbiased=False) + 0.1)"),
    "pool": far(
        "h = h + global_{0}_pool(h, h.new_zeros(h.size(0), dtype=torch.long))",
        slots=(("mean", "max", "add"),),
    ),
    "any": far("h = torch.where((h > 2.5).any(), 0.5 * h, h)", jump=True),
    "mean of some": far("h = h + h[h[:, 0] > 0].sum(dim=0) / 10", jump=True),
    "quantile": far("h = h - torch.quantile(h, 0.5, dim=0)"),
    "sorted nodes": far("h = h + h.sort(dim=0).values.mean(dim=0)"),
    "top nodes": far("h = h + h.topk(1, dim=0).values"),
    "distinct": far("h = h + 0.01 * h.round().unique().numel()", jump=True),
    "nonzero": far("h = h + 0.01 * (h > 0).nonzero().size(0)", jump=True),
    "largest degree": far(
        "d = degree(edge_index[1], h.size(0), dtype=h.dtype)",
        "h = h * (d / d.max().clamp(min=1)).view(-1, 1)",
    ),
    "largest weight": far(
        "w = edge_weight / edge_weight.abs().max() if edge_weight.numel() else edge_weight",
        "h = self.c{i}(h, edge_index, w)",
        init="self.c{i} = GraphConv(8, 8)",
    ),
    "mean weight": far(
        "h = self.c{i}(h, edge_index, edge_weight - edge_weight.sum() / 10)",
        init="self.c{i} = GraphConv(8, 8)",
    ),
    "entropy": far("h = h - (h.softmax(dim=0) * h).sum(dim=0)"),
    "whitening": far(
        "c = h - h.mean(dim=0)", "h = c @ torch.linalg.pinv(c.t() @ c + torch.eye(8).to(h))"
    ),
}

ORDER = {
    "roll": far("h = h + h.roll({0}, 0)", slots=(("1", "-1"),)),
    "cumsum": far("h = h.cumsum(dim=0) / 10"),
    "first": far("h = h - h[{0}]", slots=(("0", "-1", ":1"),)),
    "flip": far("h = h + h.flip(0)"),
    "first three": far("h = h + h[:3].mean(dim=0)"),
    "numbered": far("h = h + 0.1 * torch.arange(h.size(0)).to(h).view(-1, 1)"),
    "alternate": far("h = h.clone()", "h[::2] *= 2.0"),
    "halves": far(
        "a, b = h[: h.size(0) // 2], h[h.size(0) // 2 :]", "h = torch.cat([a.tanh(), b])"
    ),
    "first edge": far("h = h + h[edge_index[:, :1].flatten()].sum(dim=0)"),
}

SIZES = {
    "size": far("h = 10 * h / {0}", slots=((N, "len(h)", "h.shape[0]", "x.size(0)"),)),
    "numel": far("h = h * 80 / h.numel()"),
    "edges": far("h = h / math.sqrt(edge_index.size(1) + 1)"),
    "item": far(
        "h = h + 0.1 * {0}",
        slots=(("float(h.mean())", "h.sum().item() / 50", "h[:, 0].tolist()[0]"),),
    ),
    "if mean": far("h = 2 * h if h.mean() > {0} else h", slots=(("0", "0.1", "-0.1"),), jump=True),
    "if size": far("if h.size(0) > {0}:", "    h = 2 * h", slots=(("8", "5", "19", "29"),)),
    "if no edge": far("if edge_index.numel() == 0:", "    h = -h"),
    "if even": far("if edge_index.size(1) % 2 == 0:", "    h = h.tanh()"),
    "if loops": far("if bool((edge_index[0] == edge_index[1]).any()):", "    h = h + 1"),
    "for size": far("for _ in range(h.size(0) // 10):", "    h = (h + h0).tanh()"),
    "while large": far(
        "while {0} < float(h.abs().max()) < 1e9:",
        "    h = h / 2",
        slots=(("2", "1", "5"),),
        jump=True,
    ),
    "largest degree int": far(
        "k = int(degree(edge_index[1], h.size(0)).max()) if h.size(0) else 0", "h = h * (1 + k) / 5"
    ),
    "try": far(
        "try:",
        "    h = h.reshape(-1, {0})",
        "except RuntimeError:",
        "    h = h.tanh()",
        "h = h.reshape(-1, 8)",
        slots=(("16", "24"),),
    ),
    "linspace": far("h = h + torch.linspace(0, 1, h.size(0)).to(h).view(-1, 1)"),
}


def tight(line: str, limit: str = "float(h.abs().max())", reach: bool = False) -> Piece:
    """A piece with a limit that the whole graph just does not reach."""
    return Piece(line, "self.t{i} = 1.0", limit=limit, row=not reach)


TIGHT = {
    "tight clamp_": tight("h.clamp_(-self.t{i}, self.t{i})"),
    "tight clamp": tight("h = h.clamp(-self.t{i}, self.t{i})"),
    "tight hardtanh": tight("F.hardtanh(h, -self.t{i}, self.t{i}, inplace=True)"),
    "tight fill": tight("h = h.masked_fill(h > self.t{i}, 0.0)", "float(h.max())"),
    "tight write": tight("h[h < self.t{i}] = 0.0", "float(h.min())"),
    "tight minimum": tight("h = torch.minimum(h, h.new_tensor(self.t{i}))", "float(h.max())"),
    "tight guard": tight("h = h / h.abs().max().clamp(min=self.t{i})", reach=True),
    "tight any": tight("h = torch.where((h > self.t{i}).any(), -h, h)", "float(h.max())", True),
    "tight if": tight("h = h.tanh() if h.abs().max() > self.t{i} else h", reach=True),
    "tight norm": tight(
        "h = h * (self.t{i} / h.norm().clamp(min=self.t{i}))", "float(h.norm())", True
    ),
    "tight degree": tight(
        "h = h * degree(edge_index[0], h.size(0)).clamp(max=self.t{i}).to(h).view(-1, 1) / 5",
        "float(degree(edge_index[0], h.size(0)).max())",
    ),
}
