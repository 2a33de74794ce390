"""A number, a list or None in a tensor's place raises PyTorch's TypeError, in composites too."""

import pytest

import flambeau as torch

MATRIX = torch.ones(2, 2)
CALLS = {
    "wrapped for autocast": (lambda: torch.dot(1.0, MATRIX),
                             "dot(): argument 'input' (position 1) must be Tensor, not float"),
    "a second argument": (lambda: torch.kron(MATRIX, 2),
                          "kron(): argument 'other' (position 2) must be Tensor, not int"),
    "by name": (lambda: torch.kron(input=[1.0], other=MATRIX),
                "kron(): argument 'input' must be Tensor, not list"),
    "explained in its body": (lambda: torch.mm(MATRIX, None),
                              "mm(): argument 'mat2' (position 2) must be Tensor, not NoneType"),
    "in place": (lambda: torch.exp_(1.0),
                 "exp_(): argument 'input' (position 1) must be Tensor, not float"),
    "an element of a list": (lambda: torch.block_diag(MATRIX, 1.0),
                             "expected Tensor as element 1 in argument 0, but got float"),
    "a namespace": (lambda: torch.fft.fft(1.0),
                    "fft_fft(): argument 'input' (position 1) must be Tensor, not float"),
    "a factory": (lambda: torch.zeros_like(1.0),
                  "zeros_like(): argument 'input' (position 1) must be Tensor, not float"),
    "a question": (lambda: torch.is_complex(1.0),
                   "is_complex(): argument 'input' (position 1) must be Tensor, not float"),
    "a draw": (lambda: torch.poisson(1.0),
               "poisson(): argument 'input' (position 1) must be Tensor, not float"),
    "a copy of a view": (lambda: torch.detach_copy(1.0),
                         "detach_copy(): argument 'input' (position 1) must be Tensor, not float"),
    "under another name": (lambda: torch.unique(1.0),
                           "_unique2(): argument 'input' (position 1) must be Tensor, not float"),
    "a condition": (lambda: torch.where(1.0),
                    "where(): argument 'condition' (position 1) must be Tensor, not float"),
    "bounds": (lambda: torch.clamp(1.0, 0),
               "clamp(): argument 'input' (position 1) must be Tensor, not float"),
    "a loss of torch's own": (
        lambda: torch.margin_ranking_loss(1.0, 2.0, 3.0),
        "margin_ranking_loss(): argument 'input1' (position 1) must be Tensor, not float"),
    "a step of a recurrent layer": (
        lambda: torch.rnn_tanh_cell(1.0, MATRIX, MATRIX, MATRIX),
        "rnn_tanh_cell(): argument 'input' (position 1) must be Tensor, not float"),
    "NumPy's names": (lambda: torch.squeeze(1.0, axis=0),
                      "squeeze(): argument 'input' (position 1) must be Tensor, not float"),
}


@pytest.mark.parametrize("case", CALLS)
def test_type_error_names_the_argument(case):
    call, message = CALLS[case]
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value) == message


def test_an_attribute_error_of_other_code_passes():
    class Missing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, kinds, args=(), kwargs=None):
            raise AttributeError("a word of the user's")

    with pytest.raises(AttributeError, match="a word of the user's"):
        torch.kron(torch.ones(2).as_subclass(Missing), MATRIX)
