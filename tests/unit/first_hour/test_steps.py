"""What is read from the pages, and written about them."""

import pytest

from tests.first_hour.steps import read_steps, with_own_values
from tests.pages import DOCS

PAGE = """# A page

## One

<!-- RUN -->
```shell
export A=1
echo $A \\
  two
```

## Two

<!-- RUN AFTER 60 s -->
```shell
wait_for it
```

<!-- RUN UNTIL success -->
```shell
list
```

<!-- RUN IN BACKGROUND -->
```shell
serve
```

<!-- RUN look -->
```shell
look at /srv/x
```
"""


def test_blocks_are_steps_with_their_headings() -> None:
    one, after, until, beside, named = read_steps(PAGE)
    assert (one.title, one.commands) == ("One", ("export A=1", "echo $A    two"))
    assert (after.title, after.wait_seconds) == ("Two", 60)
    assert until.until == "success"
    assert beside.in_background
    assert named.name == "look"
    assert with_own_values(named, {"/srv/x": "/mine"}).commands == ("look at /mine",)


def test_a_block_without_a_mark_or_with_an_unknown_one_is_refused() -> None:
    with pytest.raises(ValueError, match="without a mark"):
        read_steps(PAGE + "\n```shell\nnobody tries this\n```\n")
    with pytest.raises(ValueError, match="SOMETIMES"):
        read_steps(PAGE.replace("RUN AFTER 60 s", "RUN SOMETIMES"))


@pytest.mark.parametrize("name", ["get-started", "shell"])
def test_every_command_of_the_pages_is_tried(name: str) -> None:
    steps = read_steps((DOCS / "start" / f"{name}.md").read_text())
    assert len([command for step in steps for command in step.commands]) > 8
    text = " ".join(command for step in steps for command in step.commands)
    assert "broker1:9092,broker2:9092,broker3:9092" in text
    assert "/srv/kafka-groups" in text
