"""torch._assert_tensor_metadata: what it compares and what it says."""

import pytest

MISMATCHES = {
    "Tensor sizes mismatch! Expected: [3], Got: [2, 3]": {"size": [3]},
    "Tensor dtype mismatch! Expected: Int, Got: float": {"dtype": "int32"},
    "Tensor dtype mismatch! Expected: ComplexFloat, Got: float": {"dtype": "complex64"},
    "Tensor device mismatch! Expected: meta, Got: cpu": {"device": "meta"},
    "Tensor layout mismatch! Expected: Sparse, Got: Strided": {"layout": "sparse_coo"},
}


@pytest.mark.parametrize("text", MISMATCHES)
def test_a_mismatch_is_named(torch, text):
    options = {name: getattr(torch, value) if name in ("dtype", "layout") else value
               for name, value in MISMATCHES[text].items()}
    for function in (torch._assert_tensor_metadata, torch.ops.aten._assert_tensor_metadata):
        with pytest.raises(RuntimeError) as info:
            function(torch.ones(2, 3), **options)
        assert str(info.value) == text


def test_what_agrees_or_is_not_asked_passes(torch):
    x = torch.ones(2, 3)
    torch._assert_tensor_metadata(x, [2, 3], [3, 1], torch.float32, device="cpu",
                                  layout=torch.strided)
    torch._assert_tensor_metadata(x, None, None, None)
    with pytest.raises(RuntimeError, match="Tensor strides mismatch"):
        torch._assert_tensor_metadata(x, None, [1, 2])
