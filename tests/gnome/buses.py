# SPDX-License-Identifier: GPL-2.0-only
"""D-Bus for tests that are no coroutines."""

import asyncio

from dbus_fast import BusType, Message, MessageType
from dbus_fast.aio import MessageBus
from waiting import LIMIT_S


class CallError(Exception):
    """A D-Bus call that was answered by an error."""


class Bus:
    """One connection to a bus, for tests that are no coroutines; it is closed with `close`."""

    def __init__(self, address):
        self._loop = asyncio.new_event_loop()
        self._bus = self._run(self._connect(address))

    @staticmethod
    async def _connect(address):
        return await MessageBus(bus_address=address, bus_type=BusType.SESSION).connect()

    def call(self, destination, path, interface, member, signature="", *body):
        """The answer's values as a list. Raises CallError."""
        message = Message(
            destination=destination, path=path, interface=interface, member=member, signature=signature, body=list(body)
        )
        reply = self._run(asyncio.wait_for(self._bus.call(message), LIMIT_S))
        if reply.message_type is MessageType.ERROR:
            raise CallError(f"{member}: {reply.error_name} {reply.body}")
        return reply.body

    def monitor(self):
        """From now on collect all messages of the bus, in the list returned; see `listen`."""
        seen = []
        self.call(
            "org.freedesktop.DBus",
            "/org/freedesktop/DBus",
            "org.freedesktop.DBus.Monitoring",
            "BecomeMonitor",
            "asu",
            [],
            0,
        )
        self._bus.add_message_handler(lambda message: seen.append(message) or True)  # True: it is not ours to answer
        return seen

    def listen(self, member):
        """From now on collect the bodies of signals named `member`, in the list returned."""
        seen = []
        self.call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "AddMatch", "s",
            f"type='signal',member='{member}'",
        )  # fmt: skip
        self._bus.add_message_handler(lambda message: seen.append(message.body) if message.member == member else None)
        return seen

    def receive(self, condition, what, limit_s=LIMIT_S):
        """Take in messages until `condition()` is true."""

        async def receiving():
            while not condition():
                await asyncio.sleep(0.01)

        try:
            self._run(asyncio.wait_for(receiving(), limit_s))
        except TimeoutError:
            raise AssertionError(f"after {limit_s:g} s still not: {what}") from None

    def close(self):
        self._bus.disconnect()
        self._loop.close()

    def _run(self, coroutine):
        return self._loop.run_until_complete(coroutine)
