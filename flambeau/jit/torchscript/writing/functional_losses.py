"""nn.functional's losses in TorchScript. A reduction is a number in aten.

The writer turns `size_average` and `reduce` into a reduction.
"""

__all__ = ["LOSSES"]

LOSSES = '''
def mse_loss(input: Tensor, target: Tensor, size_average: Optional[bool]=None,
    reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.mse_loss(input, target, __torch__.torch.nn.functional._reduction(reduction))
def l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool]=None,
    reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.l1_loss(input, target, __torch__.torch.nn.functional._reduction(reduction))
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool]=None,
    reduce: Optional[bool]=None, reduction: str="mean", beta: float=1.0) -> Tensor:
  return torch.smooth_l1_loss(input, target, __torch__.torch.nn.functional._reduction(reduction),
      beta)
def huber_loss(input: Tensor, target: Tensor, reduction: str="mean", delta: float=1.0) -> Tensor:
  return torch.huber_loss(input, target, __torch__.torch.nn.functional._reduction(reduction), delta)
def cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor]=None,
    size_average: Optional[bool]=None, ignore_index: int=-100, reduce: Optional[bool]=None,
    reduction: str="mean", label_smoothing: float=0.0) -> Tensor:
  return torch.cross_entropy_loss(input, target, weight,
      __torch__.torch.nn.functional._reduction(reduction), ignore_index, label_smoothing)
def nll_loss(input: Tensor, target: Tensor, weight: Optional[Tensor]=None,
    size_average: Optional[bool]=None, ignore_index: int=-100, reduce: Optional[bool]=None,
    reduction: str="mean") -> Tensor:
  return torch.nll_loss_nd(input, target, weight,
      __torch__.torch.nn.functional._reduction(reduction), ignore_index)
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Optional[Tensor]=None,
    size_average: Optional[bool]=None, reduce: Optional[bool]=None,
    reduction: str="mean") -> Tensor:
  return torch.binary_cross_entropy(input, target, weight,
      __torch__.torch.nn.functional._reduction(reduction))
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Optional[Tensor]=None,
    size_average: Optional[bool]=None, reduce: Optional[bool]=None, reduction: str="mean",
    pos_weight: Optional[Tensor]=None) -> Tensor:
  return torch.binary_cross_entropy_with_logits(input, target, weight, pos_weight,
      __torch__.torch.nn.functional._reduction(reduction))
def kl_div(input: Tensor, target: Tensor, size_average: Optional[bool]=None,
    reduce: Optional[bool]=None, reduction: str="mean", log_target: bool=False) -> Tensor:
  if torch.eq(reduction, "batchmean"):
    return torch.div(torch.kl_div(input, target, 2, log_target=log_target), torch.size(input, 0))
  return torch.kl_div(input, target, __torch__.torch.nn.functional._reduction(reduction),
      log_target=log_target)
def soft_margin_loss(input: Tensor, target: Tensor, size_average: Optional[bool]=None,
    reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.soft_margin_loss(input, target, __torch__.torch.nn.functional._reduction(reduction))
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: Optional[bool]=None,
    reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.multilabel_margin_loss(input, target,
      __torch__.torch.nn.functional._reduction(reduction))
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float=1.0,
    size_average: Optional[bool]=None,
    reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.hinge_embedding_loss(input, target, margin,
      __torch__.torch.nn.functional._reduction(reduction))
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float=0.0,
    size_average: Optional[bool]=None,
    reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.margin_ranking_loss(input1, input2, target, margin,
      __torch__.torch.nn.functional._reduction(reduction))
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float=0.0,
    size_average: Optional[bool]=None,
    reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.cosine_embedding_loss(input1, input2, target, margin,
      __torch__.torch.nn.functional._reduction(reduction))
def multi_margin_loss(input: Tensor, target: Tensor, p: int=1, margin: float=1.0,
    weight: Optional[Tensor]=None, size_average: Optional[bool]=None,
    reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.multi_margin_loss(input, target, p, margin, weight,
      __torch__.torch.nn.functional._reduction(reduction))
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool=True, full: bool=False,
    size_average: Optional[bool]=None, eps: float=1e-08, reduce: Optional[bool]=None,
    reduction: str="mean") -> Tensor:
  return torch.poisson_nll_loss(input, target, log_input, full, eps,
      __torch__.torch.nn.functional._reduction(reduction))
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float=1.0,
    p: float=2.0, eps: float=1e-06, swap: bool=False, size_average: Optional[bool]=None,
    reduce: Optional[bool]=None, reduction: str="mean") -> Tensor:
  return torch.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap,
      __torch__.torch.nn.functional._reduction(reduction))
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor,
    blank: int=0, reduction: str="mean", zero_infinity: bool=False) -> Tensor:
  return torch.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank,
      __torch__.torch.nn.functional._reduction(reduction), zero_infinity)
def _reduced(loss: Tensor, reduction: str) -> Tensor:
  if torch.eq(reduction, "mean"):
    return torch.mean(loss)
  if torch.eq(reduction, "sum"):
    return torch.sum(loss)
  return loss
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Optional[Tensor]=None,
    size_average: Optional[bool]=None, reduce: Optional[bool]=None,
    reduction: str="mean") -> Tensor:
  positive = torch.mul(target, torch.log_sigmoid(input))
  negative = torch.mul(torch.sub(torch.ones_like(target), target),
      torch.log_sigmoid(torch.neg(input)))
  loss = torch.neg(torch.add(positive, negative))
  if weight is not None:
    loss = torch.mul(loss, weight)
  return __torch__.torch.nn.functional._reduced(torch.mean(loss, [-1]), reduction)
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor, full: bool=False,
    eps: float=1e-06, reduction: str="mean") -> Tensor:
  variance = var
  if torch.ne(torch.size(var), torch.size(input)):
    if torch.eq(torch.dim(var), torch.sub(torch.dim(input), 1)):
      variance = torch.unsqueeze(var, -1)
  bounded = torch.add(variance, torch.detach(torch.sub(torch.clamp_min(variance, eps), variance)))
  error = torch.sub(input, target)
  loss = torch.mul(torch.add(torch.log(bounded), torch.div(torch.mul(error, error), bounded)), 0.5)
  if full:
    loss = torch.add(loss, 0.9189385332046727)
  return __torch__.torch.nn.functional._reduced(loss, reduction)
'''
