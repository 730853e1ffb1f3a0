"""Two hosts of a test and the link between them: its rate, its delay, and a cut.

    with two_hosts(megabits=200, milliseconds=5) as link:
        ... start worker i with link.environment(i) and link.addresses_for(i) ...
        link.cut()
        link.mend()

The hosts are network namespaces where the system allows them (`python -c` with `ENTER` first puts a
process there). Elsewhere they are this host, and a TCP proxy stands before each worker's port.
"""

import contextlib
import os
import queue
import socket
import subprocess
import threading
import time

from tests.dual_device_strategy.machines.conftest import free_ports

# Python 3.11 has no os.setns(); to be run before anything starts a thread.
ENTER = """
import ctypes, os
if "NETWORK_NAMESPACE" in os.environ:
    there = os.open("/run/netns/" + os.environ["NETWORK_NAMESPACE"], os.O_RDONLY)
    assert ctypes.CDLL(None).setns(there, 0x40000000) == 0
"""
_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_OUTGOING, _ETH_P_ALL = 263, 15, 4, 3


@contextlib.contextmanager
def two_hosts(megabits: float, milliseconds: float, proxies: bool = False):
    """A `Link` between two hosts; `milliseconds` is the delay in each direction."""
    with contextlib.ExitStack() as stack:
        try:
            hosts = stack.enter_context(_proxies() if proxies else _namespaces())
        except (OSError, subprocess.CalledProcessError):
            hosts = stack.enter_context(_proxies())
        hosts.bytes_per_second, hosts.delay = megabits * 125_000, milliseconds / 1000
        yield hosts


class Link:
    """Carries what it is given from one end to the other."""

    kind = "a TCP proxy"
    bytes_per_second, delay = 1e9, 0.0

    def __init__(self, addresses: list[list[str]]):
        self._addresses = addresses
        self._open = threading.Event()
        self._open.set()
        self._ended = False

    def environment(self, host: int) -> dict[str, str]:
        return {}

    def addresses_for(self, host: int) -> list[str]:
        """Of both workers, as `host` sees them."""
        return self._addresses[host]

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    def end(self) -> None:
        self._ended = True

    def carry(self, receive, send, loses: bool) -> None:
        """One direction: while the link is cut what comes is lost, or waits."""
        on_the_way: queue.Queue = queue.Queue()

        def arrive():
            while True:
                due, data = on_the_way.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if data is None or not loses:
                    self._open.wait()
                if not self._open.is_set():
                    continue
                try:
                    send(data)
                except OSError:
                    return
                if data is None:
                    return

        threading.Thread(target=arrive, daemon=True).start()
        free = 0.0
        while not self._ended:
            try:
                data = receive()
            except TimeoutError:
                continue
            except OSError:
                data = None
            free = max(free, time.monotonic()) + len(data or b"") / self.bytes_per_second
            on_the_way.put((free + self.delay, data))
            if data is None:
                return


class _Namespaces(Link):
    kind = "network namespaces"

    def __init__(self, names: list[str]):
        super().__init__([["10.77.0.1:4000", "10.77.0.2:4000"]] * 2)
        self._names = names

    def environment(self, host: int) -> dict[str, str]:
        return {"NETWORK_NAMESPACE": self._names[host]}


@contextlib.contextmanager
def _namespaces():
    names = [f"split{os.getpid()}{end}" for end in "ab"]
    with contextlib.ExitStack() as stack:
        ends = []
        for number, name in enumerate(names):
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "del", name)
            _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "eth0")
            for interface in ("eth0", "lo"):
                _ip("-n", name, "link", "set", interface, "up")
            _ip("link", "set", name, "up")
            end = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
            # With what the cards would do: packets are not yet cut, check sums not yet there.
            end.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
            end.bind((name, _ETH_P_ALL))
            end.settimeout(0.2)
            ends.append(end)
        link = _Namespaces(names)
        stack.callback(link.end)
        for one, other in (ends, ends[::-1]):
            receive = _frames_of(one)
            arguments = (receive, _sending_frames_to(other), True)
            threading.Thread(target=link.carry, args=arguments, daemon=True).start()
        yield link


def _frames_of(end):
    def receive():
        while True:
            data, address = end.recvfrom(1 << 17)
            if address[2] != _PACKET_OUTGOING:
                return data

    return receive


def _sending_frames_to(end):
    def send(data):
        if data is not None:
            end.send(data)

    return send


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def _proxies():
    own, before = free_ports(2), []
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in own]
        before = [listener.getsockname()[1] for listener in listeners]
        link = Link(
            [[f"127.0.0.1:{(own if i == j else before)[j]}" for j in range(2)] for i in range(2)]
        )
        stack.callback(link.end)
        for listener, port in zip(listeners, own, strict=True):
            threading.Thread(target=_accept, args=(link, listener, port), daemon=True).start()
        yield link


def _accept(link: Link, listener, port: int) -> None:
    while True:
        try:
            caller, _ = listener.accept()
            worker = socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            caller.close()  # the worker is not there yet
            continue
        except OSError:
            return
        for one, other in ((caller, worker), (worker, caller)):
            arguments = (_bytes_of(one), _sending_to(other), False)
            threading.Thread(target=link.carry, args=arguments, daemon=True).start()


def _bytes_of(end):
    def receive():
        data = end.recv(1 << 16)
        if not data:
            raise OSError("closed")
        return data

    return receive


def _sending_to(end):
    def send(data):
        if data is None:
            end.close()
        else:
            end.sendall(data)

    return send
