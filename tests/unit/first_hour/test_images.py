"""The images that the page shows are those that ``make first-hour`` builds."""

from tests.first_hour.images import images_of
from tests.pages import DOCS


def test_each_image_of_the_page_is_built() -> None:
    page = (DOCS / "start" / "install.md").read_text()
    images = images_of(page)
    assert [commands[-1].rpartition(" ")[2] for _, commands in images] == [
        "airflow-kafka-groups",
        '"airflow-kafka-groups[spark]"',
    ]
