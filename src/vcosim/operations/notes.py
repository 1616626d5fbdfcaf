"""Notes on cloudspaces and VMs: the only free-form metadata there is."""

from msgspec.structs import replace

from vcosim.cloud import Cloud
from vcosim.lifecycle import key
from vcosim.records import Note, Record
from vcosim.reply import Reply, done, not_found
from vcosim.request import Call


def _owner(cloud: Cloud, call: Call) -> Record:
    return cloud.vm(call) if "vm_id" in call.path else cloud.cloudspace(call)


def _note(cloud: Cloud, call: Call) -> Note:
    owner = _owner(cloud, call)
    note = cloud.store.get(Note, owner.location, call.at("note_id"))
    if note is None or note.parent != key(owner):
        raise not_found(f"Note with id {call.at('note_id')}")
    return note


def list_notes(cloud: Cloud, call: Call) -> Reply:
    """Answer all notes of an object."""
    return Reply(
        {
            "result": [
                {
                    "id": note.id,
                    "title": note.name,
                    "content": note.content,
                    "creation_time": note.created,
                    "last_update_time": note.updated,
                    "created_by": note.created_by,
                    "modified_by": note.modified_by,
                }
                for note in cloud.store.find(Note, parent=key(_owner(cloud, call)))
            ]
        }
    )


def add_note(cloud: Cloud, call: Call) -> Reply:
    """Add a note; the answer does not tell its id."""
    owner = _owner(cloud, call)
    cloud.store.put(
        Note(
            id=cloud.fresh("note"),
            location=owner.location,
            parent=key(owner),
            name=call.body["title"],
            content=call.body["content"],
            created=cloud.now,
            updated=cloud.now,
            created_by=call.user,
            modified_by=call.user,
        )
    )
    return done()


def update_note(cloud: Cloud, call: Call) -> Reply:
    """Replace title and content of a note."""
    note = _note(cloud, call)
    cloud.store.put(
        replace(
            note,
            name=call.body["title"],
            content=call.body["content"],
            updated=cloud.now,
            modified_by=call.user,
        )
    )
    return done()


def delete_note(cloud: Cloud, call: Call) -> Reply:
    """Remove a note."""
    cloud.store.drop(_note(cloud, call))
    return done()


HANDLERS = {
    f"{method} {owner}/notes{rest}": handler
    for owner in ("{CS}", "{VM}")
    for method, rest, handler in (
        ("GET", "", list_notes),
        ("POST", "", add_note),
        ("PUT", "/{note_id}", update_note),
        ("DELETE", "/{note_id}", delete_note),
    )
}
