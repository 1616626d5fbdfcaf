"""The operating systems that the platform knows: its own list, which nobody can add to."""

from collections.abc import Mapping

from capvco.cli.unusable import Unusable

NAMES: Mapping[str, tuple[str, ...]] = {
    "Linux": (
        "Linux - other",
        *(f"Ubuntu {kind}{v}" for kind in ("server ", "") for v in ("16.04", "18.04", "20.04")),
        *(f"Debian {version}" for version in range(5, 11)),
        *("Centos 7", "Centos 8"),
        *(f"RHEL {version}" for version in range(3, 9)),
        *(f"Suse Linux Enterprise Server {version}" for version in (9, 10, 11, 12, 15)),
        *(f"Openwrt {version}" for version in (17, 18, 19)),
    ),
    "Windows": (
        "Windows - other",
        *(f"Windows Server {v}" for v in ("2012", "2012 r2", "2016", "2016 r2", "2019")),
    ),
    "Unix": ("Unix - other",),
    "BSD": ("BSD - other", *(f"Free bsd {version}" for version in (5, 6, 7, 11, 12, 13))),
    "Darwin": ("Darwin - other", "Mac OS"),
    "Other": ("Other - other", "other"),
}
"""Names by type; the first of each is what is taken when only the type is given."""


def system(os_type: str, os_name: str) -> tuple[str, str]:
    """Complete type and name, either may be empty. Raises Unusable with what is possible."""
    if not os_name:
        chosen = _match("--os-type", os_type or "Linux", tuple(NAMES))
        return chosen, NAMES[chosen][0]
    within = NAMES[_match("--os-type", os_type, tuple(NAMES))] if os_type else _all()
    name = _match("--os-name", os_name, within)
    return next(kind for kind, names in NAMES.items() if name in names), name


def _all() -> tuple[str, ...]:
    return tuple(name for names in NAMES.values() for name in names)


def _match(flag: str, text: str, known: tuple[str, ...]) -> str:
    if text in known:
        return text
    for one in known:
        if one.casefold() == text.casefold():
            return one
    raise Unusable(f'{flag} "{text}" is unknown to the platform; possible: {", ".join(known)}')
