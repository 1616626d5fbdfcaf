"""Who asks, and which locations there are."""

from vcosim.cloud import Cloud
from vcosim.records import Customer, Location
from vcosim.reply import Reply
from vcosim.request import Call

PRICES = {
    "su": 0.1, "ou": 0.05, "mu": 5.0, "vcu": 6.0, "tu": 0.01, "wu": 1.0, "nu": 0.01, "piu": 2.0,
    "vgu": 400.0, "fsu": 0.2,
}  # fmt: skip
CAPACITY = {"ou": 100_000, "su": 100_000, "cu": 10_000, "piu": 250, "mu": 40_000, "vcu": 10_000}


def me(cloud: Cloud, call: Call) -> Reply:
    """Answer the user behind the token."""
    customers = [
        {
            "customer_id": one.id,
            "name": one.name,
            "address": "",
            "phone_number": "",
            "status": "ACTIVE",
        }
        for one in cloud.store.find(Customer)
        if one.id in call.customers
    ]
    return Reply(
        {
            "username": call.user,
            "firstname": call.user,
            "lastname": "",
            "email": f"{call.user}@vco.invalid",
            "emails": [f"{call.user}@vco.invalid"],
            "is_admin": False,
            "iam_domain": cloud.iam_domain,
            "vco_website": "",
            "vco_name": "vcosim",
            "vco_support_email": "",
            "customers": customers,
            "admin_of_customers": customers,
        }
    )


def my_jwt(_: Cloud, call: Call) -> Reply:
    """Answer the token itself."""
    return Reply(call.token)


def locations(cloud: Cloud, _: Call) -> Reply:
    """Answer all locations of the cloud."""
    return Reply({"result": [_location(one) for one in cloud.store.find(Location)]})


def _location(one: Location) -> dict[str, object]:
    return {
        "name": one.id,
        "datacenter": {
            "name": one.name,
            "code": one.code,
            "city": one.city,
            "address": "",
            "country": one.country,
            "country_code": one.country_code,
            "coordinates": {"lat": one.latitude, "long": one.longitude},
            "created_at": one.created,
            "created_by": "vcosim",
        },
    }


def customer_locations(cloud: Cloud, call: Call) -> Reply:
    """Answer the customer's locations with their prices."""
    names = cloud.customer(call).locations
    rows = [{"location": name, "resources": PRICES} for name in names]
    return Reply({"currency": "EUR", "locations": rows})


def customer_location(cloud: Cloud, call: Call) -> Reply:
    """Answer one location of the customer."""
    return Reply({"location": cloud.location(call), "storage_only": False})


def capacity(cloud: Cloud, call: Call) -> Reply:
    """Answer what a location has left; vcosim sets no limits but on cards and addresses."""
    cloud.location(call)
    return Reply(CAPACITY)


HANDLERS = {
    "GET /me": me,
    "GET /me/jwt": my_jwt,
    "GET /locations": locations,
    "GET {C}/locations": customer_locations,
    "GET {L}": customer_location,
    "GET {L}/capacity": capacity,
}
