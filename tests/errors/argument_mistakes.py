"""More mistakes that newcomers make: arguments of a wrong kind, length or range.

They are run as those of mistakes.py are, after them: `net` and `x` are set there.
"""


def nll_one_sample():
    F.nll_loss(torch.ones(3), torch.ones(3).long())


def pad_away():
    F.pad(torch.ones(1, 1, 3), (0, -4))


def pad_away_first():
    F.pad(torch.ones(1, 1, 3), (-4, 2))


def ctc_lengths():
    F.ctc_loss(torch.ones(5, 2, 3).log_softmax(2), torch.ones(2, 4).long(), (5, 5, 5), (4, 4))


def matmul_vector():
    torch.ones(4, 2, 3) @ torch.ones(2)


def randint_float():
    torch.randint(0, 3.5, (2,))


def randint_float_high():
    torch.randint(3.0, (2,))


def opt_nonleaf():
    torch.optim.SGD([torch.ones(3, requires_grad=True) * 2], lr=0.1)


def mask_float():
    x.masked_fill(torch.ones(64, 10), 0)


def where_float():
    torch.where(x, 1, 0)


def one_hot_dtype():
    F.one_hot(torch.ones(3), 3)


def to_dtype_name():
    x.to("float32")


def numpy_of_list():
    torch.from_numpy([1, 2])


def parameter_replaced():
    net[0].weight = torch.ones(16, 10)


def truth_of_many():
    if x > 0:
        pass


def bce_swapped():
    F.binary_cross_entropy(torch.ones(64, 3, dtype=torch.long), torch.sigmoid(net(x)))


def optimizer_of_modules():
    torch.optim.SGD([net[0]], 0.1)


def state_of_a_module():
    net.load_state_dict(net)


def sequential_and_list():
    net + net[0]
