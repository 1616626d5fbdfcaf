from collections.abc import AsyncIterator

import pytest_asyncio

from tests.unit.vcosim.portal import Portal


@pytest_asyncio.fixture
async def portal() -> AsyncIterator[Portal]:
    """The stock world, early replies, a clock that stands still."""
    opened = Portal()
    yield opened
    await opened.close()
