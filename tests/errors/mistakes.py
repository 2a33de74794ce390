"""Mistakes that newcomers make, a function each.

`torch`, `nn`, `F`, `D` and `DataLoader` are flambeau's or PyTorch's: test_texts.py sets them.
"""

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3))
x, y = torch.randn(64, 10), torch.randint(0, 3, (64,))


def view_t():
    torch.ones(2, 3).t().view(6)


def inplace():
    w = torch.ones(2, requires_grad=True)
    a = w.exp()
    a += 1
    a.sum().backward()


def twice():
    l = net(x).sum()
    l.backward()
    l.backward()


def nograd():
    torch.ones(2).sum().backward()


def nograd_argmax():
    l = net(x).argmax(1).float().mean()
    l.backward()


def nograd_ctx():
    with torch.no_grad():
        l = net(x).sum()
    l.backward()


def nograd_item():
    l = torch.tensor(net(x).sum().item())
    l.backward()


def nograd_detach():
    out = net(x).detach()
    loss = out.sum()
    loss.backward()


def emptyparams():
    torch.optim.SGD([], lr=0.1)


def listmods():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = [nn.Linear(2, 2)]

    torch.optim.SGD(M().parameters(), lr=0.1)


def require_grad():
    torch.ones(2).require_grad


def embedding():
    nn.Embedding(3, 4)(torch.tensor([[0, 1, 2, 0, 3]]))


def emb_float():
    nn.Embedding(3, 4)(torch.ones(2))


def ce_target():
    F.cross_entropy(torch.randn(4, 20), torch.tensor([1, 2, 20, 3]))


def ce_target1():
    nn.CrossEntropyLoss()(torch.randn(4, 3), torch.tensor([1, 2, 3, 3]))


def ce_neg():
    F.cross_entropy(torch.randn(4, 3), torch.tensor([1, 2, -1, 0]))


def linear():
    nn.Sequential(nn.Linear(10, 2), nn.ReLU(), nn.Linear(4, 1))(x)


def linear_img():
    net(torch.ones(8, 1, 28, 28))


def linear_img784():
    nn.Sequential(nn.Linear(784, 10))(torch.ones(8, 1, 28, 28))


def dtypes():
    net(x.double())


def dtypes_int():
    net(torch.ones(4, 10, dtype=torch.long))


def cuda():
    net.to("cuda")


def prefix():
    net.load_state_dict({"module." + k: v for k, v in net.state_dict().items()})


def sizes():
    nn.Linear(2, 3).load_state_dict(nn.Linear(2, 4).state_dict())


def bn1():
    nn.BatchNorm1d(3)(torch.ones(1, 3))


def bn1nested():
    nn.Sequential(nn.BatchNorm1d(3))(torch.ones(1, 3))


def bn_c():
    nn.BatchNorm2d(3)(torch.ones(2, 4, 5, 5))


def bn_dim():
    nn.BatchNorm2d(3)(torch.ones(2, 3))


def label_float():
    F.cross_entropy(net(x), y.float())


def label_int32():
    F.cross_entropy(net(x), y.int())


def label_n1():
    F.cross_entropy(net(x), y[:, None])


def label_onehot_long():
    F.cross_entropy(net(x), F.one_hot(y, 3))


def bcel_long():
    F.binary_cross_entropy_with_logits(torch.randn(4), torch.tensor([0, 1, 0, 1]))


def bcel_cls():
    nn.BCEWithLogitsLoss()(torch.randn(4), torch.tensor([0, 1, 0, 1]))


def bce_long():
    F.binary_cross_entropy(torch.rand(4), torch.tensor([0, 1, 0, 1]))


def bce_shape():
    F.binary_cross_entropy(torch.rand(64, 1), torch.rand(64))


def bcel_shape():
    F.binary_cross_entropy_with_logits(torch.rand(64, 1), torch.rand(64))


def bce_range():
    F.binary_cross_entropy(torch.randn(64) * 3, torch.rand(64))


def bce_range_target():
    F.binary_cross_entropy(torch.rand(64), torch.rand(64) + 1)


def leaf_inplace():
    w = torch.ones(2, requires_grad=True)
    w += 1


def numpy_grad():
    net(x).numpy()


def swapped():
    F.cross_entropy(y, net(x))


def swapped_cls():
    nn.CrossEntropyLoss()(y, net(x))


def swapped_nll():
    F.nll_loss(y, net(x).log_softmax(1))


def swapped_mse():
    F.mse_loss(y, x)


def losscls():
    nn.CrossEntropyLoss(net(x), y)


def losscls_mse():
    nn.MSELoss(net(x), x)


def losscls_bce():
    nn.BCELoss(net(x), x)


def vector():
    net(x).backward()


def batch_mismatch():
    F.cross_entropy(net(x), y[:32])


def uneven():
    next(iter(DataLoader([torch.ones(2), torch.ones(3)], batch_size=2)))


def nonesample():
    next(iter(DataLoader([torch.ones(2), torch.ones(2), None], batch_size=3)))


def conv_last():
    nn.Conv2d(3, 8, 3)(torch.ones(2, 28, 28, 3))


def conv_small():
    nn.Conv2d(3, 8, 5)(torch.ones(2, 3, 3, 3))


def conv_ch():
    nn.Conv2d(1, 8, 3)(torch.ones(2, 28, 28))


def conv_ch2():
    nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(16, 8, 3))(torch.ones(2, 3, 28, 28))


def kwconv():
    nn.Conv2d(3, 8, kernal_size=3)


def kwlstm():
    nn.LSTM(3, 8, batchfirst=True)


def kwlin():
    nn.Linear(3, 8, bais=True)


def kwbn():
    nn.BatchNorm2d(3, epsilon=1)


def kwpool():
    nn.MaxPool2d(2, strides=2)


def kwadam():
    torch.optim.Adam(net.parameters(), learning_rate=1)


def kwsgd():
    torch.optim.SGD(net.parameters(), lr=1, momentun=1)


def kwdl():
    DataLoader([1], batchsize=2)


def kwdropout():
    nn.Dropout(rate=0.5)


def kwce():
    nn.CrossEntropyLoss(weights=None)


def kwceF():
    F.cross_entropy(net(x), y, weights=None)


def kwsched():
    torch.optim.lr_scheduler.StepLR(torch.optim.SGD(net.parameters(), lr=0.1), stepsize=1)


def kwgru():
    nn.GRU(3, 8, num_layer=2)


def kwemb():
    nn.Embedding(3, 8, paddingidx=0)


def kwmha():
    nn.MultiheadAttention(8, 2, batchfirst=True)


def kwtel():
    nn.TransformerEncoderLayer(8, 2, dim_ff=2)


def kwzeros():
    torch.zeros(2, dtyp=torch.float32)


def attr_mod():
    torch.soft_max


def attr_nn():
    nn.Relu


def attr_nnl():
    nn.LinearLayer


def attr_F():
    F.crossentropy


def attr_optim():
    torch.optim.Adamw


def attr_net():
    net.paramaters()


def attr_net2():
    net.fc


def add_shape():
    net(x) + y


def add_shape2():
    torch.ones(3) + torch.ones(4)


def mul_shape():
    torch.ones(3) * torch.ones(4)


def mse_shape():
    F.mse_loss(torch.ones(3), torch.ones(4))


def item_backward():
    net(x).sum().item().backward()


def if_tensor():
    if x > 0:
        pass


def item_many():
    x.item()


def int_reqgrad():
    torch.tensor([1, 2], requires_grad=True)


def ragged():
    torch.tensor([[1, 2], [3]])


def cat():
    torch.cat([torch.ones(2, 3), torch.ones(2, 4)])


def cat1():
    torch.cat([torch.ones(2, 3), torch.ones(2, 3, 4)])


def cat2():
    torch.cat([torch.ones(2, 3), torch.ones(3, 3)], 1)


def stack():
    torch.stack([torch.ones(2), torch.ones(3)])


def matmul():
    torch.ones(2, 3) @ torch.ones(2, 3)


def matmul1():
    torch.ones(3) @ torch.ones(2, 3)


def bmm():
    torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 3, 4))


def mm3():
    torch.mm(torch.ones(2, 3, 4), torch.ones(2, 3, 4))


def viewbad():
    torch.ones(2, 3).view(4, 2)


def reshapebad():
    torch.ones(2, 3).reshape(4, 2)


def reshape_neg():
    torch.ones(2, 3).reshape(-1, 4)


def index():
    torch.ones(2, 3)[2]


def index2():
    torch.ones(2, 3)[:, 5]


def index3():
    torch.ones(2)[0, 1]


def indext():
    torch.ones(2, 3)[torch.tensor([0, 5])]


def lstm():
    nn.LSTM(4, 8)(torch.ones(3, 2, 5))


def lstmh():
    nn.LSTM(4, 8)(torch.ones(3, 2, 4), (torch.ones(1, 3, 8), torch.ones(1, 3, 8)))


def layernorm():
    nn.LayerNorm(4)(torch.ones(2, 5))


def groupnorm():
    nn.GroupNorm(3, 4)


def groupnorm2():
    nn.GroupNorm(2, 4)(torch.ones(2, 6, 3))


def heads():
    nn.MultiheadAttention(10, 3)


def clsweight():
    F.cross_entropy(net(x), y, weight=torch.ones(4))


def dimrange():
    x.sum(5)


def squeeze_dim():
    x.softmax(3)


def permute():
    x.permute(0, 1, 2)


def transpose():
    x.transpose(0, 2)


def expand():
    torch.ones(2, 3).expand(4, 3)


def gather():
    x.gather(1, y)


def gather2():
    x.gather(1, y[:, None] + 10)


def scatter():
    torch.zeros(2, 3).scatter(1, torch.tensor([[5]]), 1.0)


def onehot():
    F.one_hot(torch.tensor([0, 5]), 3)


def onehotf():
    F.one_hot(torch.ones(2))


def splitb():
    x.split([3, 3], 1)


def chol():
    torch.linalg.cholesky(-torch.eye(2))


def inv():
    torch.linalg.inv(torch.zeros(2, 2))


def addstr():
    torch.ones(2) + "a"


def addnone():
    torch.ones(2) + None


def nonelayer():
    nn.Linear(2, 2)(None)


def listlayer():
    nn.Linear(2, 2)([1.0, 2.0])


def assignmod():
    class M(nn.Module):
        def __init__(s):
            s.l = nn.Linear(2, 2)

    M()


def noforward():
    class M(nn.Module):
        def Forward(s, x):
            return x

    M()(x)


def forward_args():
    net(x, x)


def catlin():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.fc = nn.Linear(2, 2)

        def forward(s, x):
            return s.fc1(x)

    M()(x)


def probs():
    D.Categorical(probs=torch.tensor([-1.0, 2.0]))


def normal():
    D.Normal(torch.zeros(2), -torch.ones(2))


def maxpool():
    nn.MaxPool2d(5)(torch.ones(1, 1, 3, 3))


def interp():
    F.interpolate(torch.ones(2, 3), size=4)


def nll_dim():
    F.nll_loss(torch.ones(3, 4, 5), torch.zeros(3, dtype=torch.long))


def ctc():
    F.ctc_loss(
        torch.randn(5, 2, 3),
        torch.ones(2, 2, dtype=torch.long),
        torch.tensor([5, 5]),
        torch.tensor([2, 3]),
    )


def cosine():
    F.cosine_embedding_loss(torch.ones(2, 3), torch.ones(2, 4), torch.ones(2))


def triplet():
    F.triplet_margin_loss(torch.ones(2, 3), torch.ones(2, 4), torch.ones(2, 3))


def clip():
    nn.utils.clip_grad_norm_(net, 1.0)


def sched():
    torch.optim.lr_scheduler.StepLR(net, 1)


def opt_load():
    torch.optim.SGD(net.parameters(), lr=0.1).load_state_dict(
        torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1).state_dict()
    )


def lr_neg():
    torch.optim.SGD(net.parameters(), lr=-1)


def half():
    torch.ones(2).halff()


def retain():
    h = net(x)
    a = h.sum()
    b = h.mean()
    a.backward()
    b.backward()


def reqgrad_nonleaf():
    (nn.Parameter(torch.ones(2)) * 2).requires_grad_(False)


def deepcopy():
    import copy

    copy.deepcopy(net(x))


def bool_idx():
    x[torch.ones(3, dtype=torch.bool)]


def arange():
    torch.arange(5, 0)


def embed_neg():
    nn.Embedding(3, 4)(torch.tensor([-1]))


def pad():
    F.pad(torch.ones(2), (1, 1, 1, 1))


def mha():
    nn.MultiheadAttention(8, 2)(torch.ones(3, 2, 8), torch.ones(4, 2, 6), torch.ones(4, 2, 8))
