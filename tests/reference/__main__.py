"""Write the generated pages: ``python -m tests.reference``."""

from tests.dags.airflow_env import prepare_airflow
from tests.pages import DOCS


def main() -> None:
    """Write every page that differs."""
    prepare_airflow()  # before airflow is imported
    from tests.reference.written import PAGES_BY_NAME

    for name, written in PAGES_BY_NAME.items():
        path = DOCS / "reference" / name
        path.parent.mkdir(exist_ok=True)
        text = written()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"written: docs/reference/{name}")


if __name__ == "__main__":
    main()
