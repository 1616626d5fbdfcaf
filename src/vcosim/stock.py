"""The stock world: two locations with cards of several kinds, one customer with a key.

The cards are named as platforms name them: one profile per physical card, the PCI address in the
model; one vendor that reports device ids instead of names; and stubs without hardware.
"""

BE = "be-mac-dc01-001"
NL = "nl-rmd-dc01-001"
CUSTOMER = "demo_1"
CLIENT = "demo"


def _images(first: int) -> list[dict[str, object]]:
    return [
        {
            "image_id": first,
            "name": "Ubuntu 24.04 Kubernetes (bios)",
            "description": "Ubuntu 24.04 with containerd and kubeadm",
            "boot_type": "bios",
        },
        {
            "image_id": first + 1,
            "name": "Ubuntu 24.04 Kubernetes (uefi)",
            "description": "Ubuntu 24.04 with containerd and kubeadm",
            "boot_type": "uefi",
        },
        {
            "image_id": first + 2,
            "name": "Ubuntu 24.04 Kubernetes GPU base (bios)",
            "description": "As the first, nouveau off, PCI windows reassigned",
            "boot_type": "bios",
        },
    ]


def _cards(vendor: str, model: str, what: str, *places: str) -> list[dict[str, object]]:
    return [
        {"vendor": vendor, "model": f"{model} {place}".strip(), "description": what}
        for place in places
    ]


def _physical(number: int) -> dict[str, object]:
    return {
        "vendor": "Physical Nvidia",
        "model": "0x27b8",
        "description": "NVIDIA L4",
        "id": f"5f1c0de0000000000000{number:04x}",
    }


WORLD: dict[str, object] = {
    "locations": [
        {
            "name": BE,
            "city": "Mechelen",
            "country": "Belgium",
            "country_code": "BE",
            "latitude": 51.03,
            "longitude": 4.48,
            "images": _images(201),
            "external_networks": [
                {
                    "external_network_id": 11,
                    "name": "public-be",
                    "network": "203.0.113.0/24",
                    "gateway": "203.0.113.1",
                },
                {
                    "external_network_id": 12,
                    "name": "management-be",
                    "network": "10.210.0.0/24",
                    "gateway": "10.210.0.1",
                    "public": False,
                },
            ],
            "cards": [
                *_cards(
                    "NVIDIA",
                    "A100",
                    "NVIDIA A100 80GB PCIe",
                    "0000:3b:00.0",
                    "0000:86:00.0",
                    "0000:af:00.0",
                    "0000:d8:00.0",
                ),
                *_cards("NVIDIA", "L4", "NVIDIA L4 24GB", "0000:17:00.0", "0000:65:00.0"),
                *_cards("Dummy", "Dummy GPU", "Stub for tests", "0000:f1:e1.0", "0000:f1:e1.1"),
            ],
        },
        {
            "name": NL,
            "city": "Roermond",
            "country": "Netherlands",
            "country_code": "NL",
            "latitude": 51.19,
            "longitude": 5.99,
            "images": _images(301),
            "external_networks": [
                {
                    "external_network_id": 21,
                    "name": "public-nl",
                    "network": "198.51.100.0/24",
                    "gateway": "198.51.100.1",
                }
            ],
            "cards": [
                *_cards(
                    "NVIDIA",
                    "A100-SXM4-80GB",
                    "NVIDIA A100 SXM4 80GB",
                    "0000:07:00.0",
                    "0000:0b:00.0",
                ),
                *_cards("NVIDIA", "L40S", "NVIDIA L40S 48GB", "0000:41:00.0", "0000:c1:00.0"),
                _physical(1),
                _physical(2),
                *_cards("Dummy", "Dummy GPU", "Stub for tests", "0000:f1:e1.0"),
            ],
        },
    ],
    "customers": [
        {"customer_id": CUSTOMER, "name": "Demo", "locations": [BE, NL], "account_id": 1},
        {"customer_id": "other_2", "name": "Somebody else", "locations": [BE], "account_id": 2},
    ],
    "clients": [
        {"client_id": CLIENT, "customers": [CUSTOMER]},
        {"client_id": "other", "customers": ["other_2"]},
    ],
}
