"""Arrays of other libraries in the NLL: the same kind comes out; nothing crosses to another device unasked."""

from __future__ import annotations

import numpy as np
import pytest
from workspaces import FIXTURES

from nsmath import Model
from nsmath.errors import BackendError, OptionError
from nsmath.fitting.evaluate import nll, nll_and_gradient

torch = pytest.importorskip("torch", reason="PyTorch is the caller's, not a dependency")


@pytest.fixture(scope="module")
def model():
    return Model.from_workspace(FIXTURES["F3"])


@pytest.mark.parametrize("n", [None, 3])
def test_tensors_in_tensors_out_with_the_values_of_numpy(model, n):
    theta = model.init if n is None else np.tile(model.init, (n, 1))
    expected = nll_and_gradient(model, theta)
    got = nll_and_gradient(model, torch.tensor(theta), data=torch.tensor(model.data))
    for tensor, values in zip(got, expected, strict=True):
        assert isinstance(tensor, torch.Tensor)
        np.testing.assert_array_equal(tensor.numpy(), values)


def test_numpy_and_torch_together_are_refused(model):
    with pytest.raises(
        OptionError, match=r"theta is NumPy on cpu, data is PyTorch on cpu; expected arrays of one library"
    ):
        nll(model, model.init, data=torch.tensor(model.data))


def test_a_tensor_on_another_device_is_not_copied_unasked(model):
    with pytest.raises(BackendError, match=r"PyTorch on meta.*'cpu' computes on the host"):
        nll(model, torch.empty(len(model.init), device="meta"))
