"""An error knows the parameter that it is about, and can be said in other words elsewhere."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import kronfill as kf
from kronfill import errors
from kronfill.errors import KronfillError, argument

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, KronfillError)
]


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_spelt_as_in_python_or_in_another_way(kind):
    message = f"Use {argument('rows=')}, {argument('unmatched', 'keep')} or {argument('mu', ...)}."
    error = pickle.loads(pickle.dumps(kind(message, advice="Ask.")))
    assert str(error) == "Use rows=, unmatched='keep' or mu=.... Ask."
    assert error.parameter == "rows"
    assert error.spelled(lambda name: "X", "Look.") == "Use X, X or X. Look."


def test_a_parameter_that_the_message_does_not_mark():
    error = errors.ParameterError("It is {strange}.", parameter="mu")
    assert (error.parameter, str(error)) == ("mu", "It is {strange}.")
    assert errors.DataError("Nothing.").parameter is None


def test_the_library_marks_what_it_speaks_of():
    done = kf.complete(np.eye(3), method="mc", rank=1, mu=1.0, center=None)
    with pytest.raises(errors.ParameterError, match=r"^level must lie") as caught:
        done.details(level=7)
    assert caught.value.parameter == "level"
