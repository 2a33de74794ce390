"""The pieces of random training programs: what steps consist of, and what changes around them.

Each piece is source. It finds its objects by the names that `TrainingProgram` puts into the step's
globals.
"""

from __future__ import annotations

# Pieces with any of these words keep a step's Python.
KEEPING = (
    "manual_seed", "rng", "np.", "random.", "next(", "lookup", "gain", "try:", "suppress", "mode.",
    "floor", "low", "norms", "if loss", "isfinite", "last.", "warn", "logger",
    "mean['tensor']", "results", "clip_grad_value_", "norm.count <", "p.grad for", "best", "seen",
    "votes", "net.train", "waiting", "table", "['lr'] =", "target(x)",
)
NETS = {
    "perceptron": "nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))",
    "batch norm": "nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), "
                  "nn.Dropout(0.2), nn.Linear(8, 1))",
    "layer norm": "nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 1))",
    "deep": "nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Sigmoid(), "
            "nn.Linear(4, 1))",
    "parametrized": "nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 5)), "
                    "nn.SiLU(), nn.Linear(5, 1))",
    "convolution": "nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 3, padding=1), "
                   "nn.ReLU(), nn.Flatten(), nn.Linear(12, 1))",
}
OPTIMIZERS = (
    "torch.optim.SGD(net.parameters(), lr=0.05)",
    "torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)",
    "torch.optim.Adam(net.parameters(), lr=0.02)",
    "torch.optim.AdamW(net.parameters(), lr=0.02, amsgrad=True)",
    "torch.optim.RMSprop(net.parameters(), lr=0.01)",
    "torch.optim.Adagrad(net.parameters(), lr=0.05)",
    "torch.optim.NAdam(net.parameters(), lr=0.02)",
    "torch.optim.SGD([{'params': [p]} for p in net.parameters()], lr=0.05, weight_decay=0.1)",
)
BEFORE = (
    "x = x * cfg['scale']",
    "x = x + cfg['noise'] * torch.randn_like(x)",
    "x = x.flip(0) if cfg['flip'] and st['i'] % 2 else x",
    "x = F.dropout(x, cfg['drop']) if cfg['drop'] else x",
    "x = (x - norm.mean) / norm.std",
    "buffer.mul_(0.9).add_(x.detach().mean(0), alpha=0.1); x = x - buffer",
    "x, y = x[: cfg['take']], y[: cfg['take']]",
    "torch.manual_seed(cfg['seed'])",
    "x = x.requires_grad_() if cfg['inputs'] else x",
    "x = x + torch.from_numpy(rng.standard_normal(4).astype('float32'))",
    "share = float(np.random.beta(1.0, 1.0)); x = share * x + (1 - share) * x.flip(0)",
    "x = x * random.choice(cfg['factors'])",
    "x = augment(x)",
    "x = x * next(factors)",
    "x = x * conf.scale if conf.enabled else x",
    "x = x * lookup(cfg['key'])",
    "x = x * gain.get()",
    "if st['i'] == cfg['stop']:\n    st['i'] += 1\n    return None",
    "try:\n    x = x * cfg['rare']\nexcept KeyError:\n    log.append('absent')",
    "x[:, 0].clamp_(-cfg['bound'], cfg['bound'])",
    "x = x.to(next(net.parameters()).dtype); y = y.to(x.dtype)",
    "x = x / x.std() if x.std().item() > cfg['floor'] else x",
    "x = x[x[:, 0] > cfg['low']]; y = y[: len(x)]",
    "x = x + numpy_shift",
    "with contextlib.suppress(ZeroDivisionError): x = x + 1 / cfg['divisor']",
    "x = getattr(F, cfg['name'])(x)",
    "x = [torch.tanh, torch.sin][mode.value](x)",
)
LOSSES = (
    "loss = F.mse_loss(net(x), y)",
    "loss = F.smooth_l1_loss(net(x), y)",
    "loss = norm.loss(net(x), y)",
    "loss = ((net(x) - y) ** 2 * cfg['weight']).mean()",
    "loss = F.mse_loss(net(x), y) + cfg['decay'] * sum(p.pow(2).sum() for p in net.parameters())",
    "with torch.autocast('cpu', dtype=torch.bfloat16, enabled=cfg['half']): z = net(x)\n"
    "loss = F.mse_loss(z.float(), y.float())",
    "with torch.no_grad(): z = target(x)\n"
    "loss = F.mse_loss(net(x), y) + F.mse_loss(net(x), z)",
    "loss = F.mse_loss(net(x.detach()), y) * scaler.value",
    "z = x\nfor part in net: z = part(z)\nloss = F.mse_loss(z, y)",
)
ZERO = (
    "opt.zero_grad()", "opt.zero_grad()", "net.zero_grad()", "opt.zero_grad(set_to_none=False)",
    "if st['i'] % cfg['cycle'] == 0: opt.zero_grad()",
    "for p in net.parameters(): p.grad = None",
)
BETWEEN = (
    "nn.utils.clip_grad_norm_(net.parameters(), cfg['clip'])",
    "nn.utils.clip_grad_value_(net.parameters(), cfg['clip'])",
    "for p in net.parameters():\n    if p.grad is not None: p.grad.mul_(cfg['factor'])",
    "norms = [float(p.grad.norm()) for p in net.parameters() if p.grad is not None]\n"
    "log.append(sum(norms))",
    "if st['i'] % cfg['every'] == 0: log.append(loss.item())",
    "if loss.item() > cfg['limit']: log.append('large')",
    "if not torch.isfinite(loss): return loss",
    "for p in net.parameters():\n    if p.grad is not None: p.grad = p.grad.sign() * cfg['factor']",
    "pass",
)
AFTER = (
    "st['i'] += 1",
    "norm.count += 1; st['i'] += 2",
    "log.append(loss.item())",
    "mean['number'] = 0.9 * mean['number'] + 0.1 * loss.item()",
    "mean['tensor'] = 0.9 * mean['tensor'] + 0.1 * loss.detach()",
    "total[0] += loss.item() * len(x)",
    "if st['i'] % cfg['every'] == 0: print('at', st['i'], len(log))",
    "if st['i'] % cfg['every'] == 1: print('loss', loss.item(), 'step', st['i'])",
    "print(f\"{st['i']:>3d} {loss.item():e} {cfg['name']}\", end=cfg['end'])",
    "print('%s %e' % (cfg['name'], loss.item()))\nst['i'] += 1",
    "with torch.no_grad():\n"
    "    for a, b in zip(target.parameters(), net.parameters()): a.lerp_(b, cfg['rate'])",
    "scheduler.step()",
    "last.append(loss.item())",
    "log.append(next(count) % 3)",
    "log.append((st['i'], opt.param_groups[0]['lr']))",
    "results.append(loss)",
    "results.append(loss.detach())",
    "place = next(count)\nif place % cfg['every'] == 1: log.append(place)",
    "conf.calls = conf.calls + 1",
    "st['last'] = loss.detach()",
    "st['i'] = st['i'] + 1 if norm.count < 5 else 0",
    "logger.info('step %d', st['i'])",
    "best['value'] = min(best['value'], loss.item())",
    "if loss.item() < best['value']:\n"
    "    best['value'] = loss.item(); best['state'] = copy.deepcopy(net.state_dict())",
    "seen[len(x)] = seen.get(len(x), 0) + 1",
    "votes[round(loss.item()) % 3] += 1",
    "opt.param_groups[0]['lr'] = 0.05 / (1 + st['i'] % 4)",
    "net.train(st['i'] % cfg['cycle'] != 0)",
    "waiting.append(st['i']); log.append(sum(waiting))",
    "table[st['i'] % 4] = loss.detach()",
    "gain.set(gain.get() * 0.9)",
    "warnings.warn('a step')",
)
RETURNS = (
    "return loss", "return loss.item()", "return loss.detach(), x",
    "return {'loss': loss, 'length': len(log)}", "return None",
    "return [p.grad for p in net.parameters()]",
)
# What is assigned becomes a global of the step.
CHANGES = (
    "cfg['scale'] = 0.5", "cfg['noise'] = 0.0", "cfg['flip'] = not cfg['flip']",
    "cfg['drop'] = 0.3", "cfg['take'] = 4", "cfg['seed'] = 3", "cfg['inputs'] = True",
    "cfg['weight'] = 3.0", "cfg['decay'] = 0.0", "cfg['half'] = True", "cfg['clip'] = 0.01",
    "cfg['factor'] = 0.5", "cfg['every'] = 2", "cfg['limit'] = 0.1", "cfg['rate'] = 1.0",
    "cfg['rare'] = 2.0", "cfg['bound'] = 0.2", "cfg['floor'] = 9.0", "cfg['low'] = 0.3",
    "cfg['divisor'] = 2", "cfg['name'] = 'relu'", "cfg['cycle'] = 3", "cfg['key'] = 'b'",
    "cfg['factors'].append(3.0)", "cfg['stop'] = st['i'] + 1", "cfg = {**cfg, 'scale': 2.0}",
    "cfg = types.MappingProxyType(cfg)", "mode = Mode.SIN",
    "norm.mean = 0.5", "norm.std = torch.tensor(2.0)", "norm.loss = F.l1_loss", "norm.count = 0",
    "norm = types.SimpleNamespace(mean=0.0, std=1.0, count=3, loss=F.smooth_l1_loss)",
    "buffer.zero_()", "buffer = torch.ones(4)", "buffer.data = torch.ones(4)",
    "numpy_shift[:] = torch.ones(4)", "shift_memory += 0.5",
    "st['i'] = 7", "st = {'i': 0}", "log.clear()", "mean['number'] = 0.0",
    "mean['tensor'] = torch.zeros(())", "total[0] = 0.0", "last.clear()", "waiting.clear()",
    "results.clear()", "next(count)", "count = itertools.count(5)", "conf.calls = -5",
    "conf = dataclasses.replace(conf, scale=0.5)", "conf.enabled = False",
    "Configuration.scale = 3.0; del conf.__dict__['scale']", "gain.set(2.0)",
    "lookup.cache_clear()", "FACTORS['a'] = 0.5", "augment = make_augment(0.5)",
    "factors = iter([0.5] * 40)",
    "next(factors)", "random.seed(1)", "np.random.seed(1)", "rng = np.random.default_rng(5)",
    "torch.manual_seed(1)", "logger.setLevel(logging.ERROR)", "scaler.value = torch.tensor(2.0)",
    "scaler.value.mul_(0.5)", "best['value'] = 9.0",
    "best['state'] and net.load_state_dict(best['state'])",
    "table = [torch.zeros(())] * 4", "seen.clear()", "votes = collections.Counter()",
    # models
    "net.eval()", "net.train()", "first.requires_grad_(False)", "first.requires_grad_(True)",
    "handles.append(first.register_forward_hook(lambda m, i, o: o * 1.5))",
    "handles.append(first.register_forward_hook(lambda m, i, o: log.append(tuple(o.shape))))",
    "handles.append(first.register_full_backward_hook(lambda m, a, b: log.append(len(b))))",
    "handles.append(next(net.parameters()).register_hook(lambda g: g * 0.5))",
    "handles.append(net.register_forward_pre_hook(lambda m, i: (i[0] * 0.5,)))",
    "handles and handles.pop().remove()", "first._forward_hooks.clear()",
    "net.load_state_dict({k: v * 0.5 for k, v in net.state_dict().items()})",
    "net.load_state_dict({k: v * 0.5 for k, v in net.state_dict().items()}, assign=True)",
    "next(net.parameters()).data.mul_(1.1)", "next(net.parameters()).data = torch.ones_like("
    "next(net.parameters()))", "net[-1] = nn.Linear(net[-1].in_features, 1)",
    "net.append(nn.Tanh())", "net.insert(0, nn.Identity())", "del net[1]",
    "net[-1].bias = None", "net[-1].weight = nn.Parameter(net[-1].weight.detach().clone())",
    "target[-1].weight = net[-1].weight", "net = copy.deepcopy(net)", "copy.deepcopy(net)",
    "net, opt = copy.deepcopy((net, opt))", "target = copy.deepcopy(net)",
    "net = pickle.loads(pickle.dumps(net))", "net.double()", "net.double(); net.float()",
    "net.to(memory_format=torch.channels_last if isinstance(first, nn.Conv2d) else None)",
    "net.__class__ = type('Scaled', (nn.Sequential,), "
    "{'forward': lambda self, x: nn.Sequential.forward(self, x) * 0.9})",
    "net.forward = lambda x: nn.Sequential.forward(net, x) * 0.8",
    "net[0].forward = lambda x, f=net[0].forward: f(x) * 0.9",
    "nn.utils.parametrizations.spectral_norm(net[-1])", "nn.init.ones_(net[-1].weight)",
    "net[-1].weight.requires_grad_(False)", "net[-1].register_buffer('extra', torch.ones(1))",
    "net.share_memory()", "torch.compiler.reset()",
    # optimizers
    "opt.param_groups[0]['lr'] = 0.001", "opt.param_groups[0]['weight_decay'] = 0.5",
    "opt.param_groups[-1]['lr'] *= 0.1", "opt.zero_grad(set_to_none=False)", "opt.zero_grad()",
    "opt.state.clear()", "opt.load_state_dict(copy.deepcopy(opt.state_dict()))",
    "saved = copy.deepcopy((net.state_dict(), opt.state_dict()))",
    "saved and (net.load_state_dict(saved[0]), opt.load_state_dict(saved[1]))",
    "opt.register_step_post_hook(lambda *a: log.append('post'))",
    "opt.register_step_pre_hook(lambda *a: log.append('pre'))",
    "opt.add_param_group({'params': [extra], 'lr': 0.1})", "opt.param_groups.reverse()",
    "opt.param_groups[0]['params'].pop()", "opt.param_groups[0] = dict(opt.param_groups[0])",
    "opt = torch.optim.SGD(net.parameters(), lr=0.01)",
    "opt = torch.optim.Adam(net.parameters(), lr=0.01)",
    "scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)",
    "scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda n: 1 / (1 + n))",
    "scheduler.last_epoch = 0", "scheduler.base_lrs = [0.2 for _ in scheduler.base_lrs]",
    "for s in opt.state.values():\n    for v in s.values():\n        v.zero_() if "
    "isinstance(v, torch.Tensor) else 0",
    "opt.step = lambda f=opt.step: (log.append('patched'), f())[1]",
    "for p in net.parameters():\n    if p.grad is not None: p.grad.zero_()",
    "for p in net.parameters():\n    p.grad = torch.ones_like(p)",
    # the library and Python
    "F = types.SimpleNamespace(**{**vars(F), 'mse_loss': F.l1_loss})", "print = log.append",
    "len = lambda _: 3", "min = max", "torch.set_num_threads(1)", "gc.collect()",
    "step.__defaults__ = None", "warnings.simplefilter('ignore')",
)
