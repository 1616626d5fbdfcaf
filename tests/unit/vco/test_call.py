"""Requests as values: paths, queries and what is shown of them."""

import pytest

from capvco.vco.call import Call, read


def test_path_values_are_quoted_as_single_segments() -> None:
    """An id with slashes, blanks or percent signs stays one segment."""
    call = Call(
        method="POST", route="/{customer_id}/gpus/{gpu_id}", path={"gpu_id": "0000:3b/00 %?#"}
    )
    assert call.url_path("acme_1") == "/acme_1/gpus/0000%3A3b%2F00%20%25%3F%23"


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_path_value_that_would_hit_another_endpoint_is_refused(value: str) -> None:
    """DELETE of an empty id must never become DELETE of the collection."""
    call = Call(method="DELETE", route="/{customer_id}/vgpus/{vgpu_id}", path={"vgpu_id": value})
    with pytest.raises(ValueError, match="vgpu_id"):
        call.url_path("acme_1")


def test_query_is_rendered_as_the_api_reads_it() -> None:
    """Booleans in lower case, lists by comma, None left out."""
    call = read("/x", a=True, b=False, c=3, d="t", e=None, f=["x", "y"], g=[1, 2])
    assert call.url_query() == {
        "a": "true",
        "b": "false",
        "c": "3",
        "d": "t",
        "f": "x,y",
        "g": "1,2",
    }


def test_repr_shows_no_content() -> None:
    """Neither body, query, nor hidden texts are shown."""
    call = Call(
        method="POST",
        route="/vms",
        query={"user_data": "hunter2"},
        body={"userdata": "hunter2"},
        content=b"hunter2",
        hidden=("hunter2",),
    )
    assert "hunter2" not in repr(call)
