"""Where plans and published figures lie that come with the course."""

from pathlib import Path

from course_lib.data import folders


def package_data() -> Path:
    """Return the folder that has them below `data`.

    That is `home` where it has plans, as the repository does; else, in an installed package, a
    folder of the laboratory.
    """
    home = folders.home()
    return home if (home / "data" / "plans").is_dir() else Path(__file__).parent / "shipped"
