"""Keeps sync tests from making event loops that nobody closes."""

import asyncio

# looptime asks the policy for its loop before every test, sync ones too, and on 3.11 the policy
# makes one if none was ever set; left unclosed, it fails a later test by its ResourceWarning. After
# this call the policy says that there is none.
asyncio.set_event_loop(None)
