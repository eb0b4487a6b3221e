"""Lines do not depend on where output happened to be cut, and none is longer than it may be."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from ffsim.lines import LINE_MAX, lines

text = st.binary(max_size=60) | st.text("ab\r\n", max_size=60).map(str.encode)


@given(st.lists(text))
def test_lines_do_not_depend_on_the_cuts(pieces: list[bytes]) -> None:
    assert list(lines(pieces)) == [line for line in re.split(rb"[\r\n]", b"".join(pieces)) if line]


@given(st.lists(st.sampled_from([b"x" * 30_000, b"y" * LINE_MAX, b"\n", b"\r", b"z"])))
def test_long_lines_are_cut_and_the_next_one_is_whole(pieces: list[bytes]) -> None:
    whole = [line for line in re.split(rb"[\r\n]", b"".join(pieces)) if line]
    assert list(lines(pieces)) == [line[:LINE_MAX] for line in whole]
