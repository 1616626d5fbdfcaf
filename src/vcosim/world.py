"""A world to start from: locations with images, networks and cards; customers and their keys."""

import secrets
from pathlib import Path

import msgspec
import yaml

from vcosim import stock
from vcosim.cloud import hex_id
from vcosim.records import (
    Card,
    Client,
    Customer,
    ExternalNetwork,
    Image,
    Location,
    Record,
)
from vcosim.store import Store


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all parts of a world file: unknown keys are mistakes."""


class ImageSpec(Spec, frozen=True, kw_only=True):
    """An image; without an owner it is public."""

    image_id: int
    name: str
    description: str = ""
    boot_type: str = "bios"
    os_type: str = "Linux"
    os_name: str = "Linux - other"
    boot_disk_size: int = 10
    memory: int = 512
    owner: str = ""


class NetworkSpec(Spec, frozen=True, kw_only=True):
    """An external network in CIDR form; the first address is the gateway unless said."""

    external_network_id: int
    name: str
    network: str
    gateway: str
    public: bool = True
    dhcp: bool = False


class CardSpec(Spec, frozen=True, kw_only=True):
    """A card; without an id it gets one from its location and model."""

    vendor: str
    model: str
    description: str = ""
    capacity: int = 1
    id: str = ""


class LocationSpec(Spec, frozen=True, kw_only=True):
    """A location and what it offers."""

    name: str
    city: str = ""
    country: str = ""
    country_code: str = ""
    latitude: float = 0.0
    longitude: float = 0.0
    images: tuple[ImageSpec, ...] = ()
    external_networks: tuple[NetworkSpec, ...] = ()
    cards: tuple[CardSpec, ...] = ()


class CustomerSpec(Spec, frozen=True, kw_only=True):
    """A customer and its locations."""

    customer_id: str
    name: str = ""
    locations: tuple[str, ...] = ()
    account_id: int = 1


class ClientSpec(Spec, frozen=True, kw_only=True):
    """An API key; without a secret one is drawn."""

    client_id: str
    customers: tuple[str, ...]
    secret: str = ""


class World(Spec, frozen=True, kw_only=True):
    """Everything that is there at the start."""

    locations: tuple[LocationSpec, ...] = ()
    customers: tuple[CustomerSpec, ...] = ()
    clients: tuple[ClientSpec, ...] = ()


def named(name: str) -> World:
    """Return the world ``stock`` or ``empty``, or the one in a JSON or YAML file.

    Raises ValueError saying what is wrong with the file.
    """
    if name == "stock":
        return parsed(stock.WORLD)
    if name == "empty":
        return World()
    try:
        return parsed(yaml.safe_load(Path(name).read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValueError) as error:
        raise ValueError(f"world {name!r}: {error}") from error


def parsed(value: object) -> World:
    """Read a world from plain values; raises msgspec.ValidationError (a ValueError)."""
    return msgspec.convert(value, World)


def seed(store: Store, world: World, now: float) -> None:
    """Put a world into the store: same ids are replaced, everything else stays."""
    for record in _records(world, now):
        store.put(_with_kept_secret(store, record))


def _with_kept_secret(store: Store, record: Record) -> Record:
    if not isinstance(record, Client) or record.secret:
        return record
    old = store.get(Client, "", record.id)
    secret = old.secret if old else secrets.token_urlsafe(24)
    return msgspec.structs.replace(record, secret=secret)


def _records(world: World, now: float) -> list[Record]:
    records: list[Record] = []
    for place in world.locations:
        records += [_location(place, now), *_offers(place, now)]
    records += [
        Customer(
            id=one.customer_id,
            name=one.name or one.customer_id,
            locations=one.locations,
            account_id=one.account_id,
            created=now,
        )
        for one in world.customers
    ]
    records += [
        Client(
            id=one.client_id,
            name=one.client_id,
            secret=one.secret,
            customers=one.customers,
            created=now,
        )
        for one in world.clients
    ]
    return records


def _location(place: LocationSpec, now: float) -> Location:
    return Location(
        id=place.name,
        name=f"{place.city or place.name} data centre",
        code=place.name.rpartition("-")[0],
        city=place.city,
        country=place.country,
        country_code=place.country_code,
        latitude=place.latitude,
        longitude=place.longitude,
        created=now,
    )


def _offers(place: LocationSpec, now: float) -> list[Record]:
    images = [_image(place.name, one, now) for one in place.images]
    networks = [
        ExternalNetwork(
            id=str(one.external_network_id),
            location=place.name,
            name=one.name,
            network=one.network,
            gateway=one.gateway,
            public=one.public,
            dhcp=one.dhcp,
            created=now,
        )
        for one in place.external_networks
    ]
    return [*images, *networks, *(card(place.name, one, now) for one in place.cards)]


def _image(location: str, one: ImageSpec, now: float) -> Image:
    tag = hex_id(f"image:{one.owner}:{one.name}")
    return Image(
        id=str(one.image_id),
        location=location,
        parent=one.owner,
        name=one.name,
        description=one.description,
        status="CREATED",
        boot_type=one.boot_type,
        os_type=one.os_type,
        os_name=one.os_name,
        boot_disk_size=one.boot_disk_size,
        memory=one.memory,
        tags=f"image:{tag}",
        meneja_image_id=tag,
        created=now,
    )


def card(location: str, one: CardSpec, now: float) -> Card:
    """Return the record of a card."""
    return Card(
        id=one.id or hex_id(f"gpu:{location}:{one.vendor}:{one.model}"),
        location=location,
        name=f"{one.vendor} {one.model}",
        vendor=one.vendor,
        model=one.model,
        description=one.description,
        capacity=one.capacity,
        created=now,
    )
