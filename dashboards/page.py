"""Page: the HTML around a report or an index, from the templates in `pages/`.

A page loads nothing: styles, scripts and figures are inside it, and its content security policy
lets only the scripts run whose SHA-256 it names, so a name that a user chose can never be a script.
Everything that a template writes is escaped.
"""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dashboards.wording import count


@cache
def environment() -> Environment:
    """Templates of the package `dashboards`, escaping everything, failing on an unknown name."""
    made = Environment(
        loader=PackageLoader("dashboards", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["counted"] = count
    return made


@cache
def source(name: str) -> str:
    """Text of a file of `pages/`, as it is."""
    return files("dashboards").joinpath("pages", name).read_text(encoding="utf-8")


def document(template: str, *, scripts: tuple[str, ...], **values: object) -> str:
    """One self-contained HTML page.

    Args:
        template: File in `pages/`.
        scripts: JavaScript in the order in which the template places them: the first in the head.
        values: What the template names besides `style`, `scripts` and `policy`.
    """
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return (
        environment()
        .get_template(template)
        .render(
            style=Markup(source("style.css")),
            scripts=[Markup(script) for script in scripts],
            policy=policy,
            **values,
        )
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
