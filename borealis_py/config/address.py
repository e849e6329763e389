"""HOST:PORT, the address at which a process listens for HTTP."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_FORM = re.compile(r"(?:\[([0-9A-Fa-f:.%A-Za-z]+)\]|([^\[\]:/\s]+)):(\d{1,5})")
PORT_MAX = 65_535


class AddressError(ValueError):
    """Not an address to listen at; the message shows valid ones."""


class HttpUnavailable(Exception):
    """A server cannot listen there; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """An address. `host`: a name, IPv4 or IPv6 address, without brackets. `port` 0: the system chooses."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """From "127.0.0.1:9400", "localhost:0", "[::1]:9400". Raises AddressError."""
        found = _FORM.fullmatch(text.strip())
        if found is None or int(found[3]) > PORT_MAX:
            raise AddressError(
                f"{text!r} is not HOST:PORT; write 127.0.0.1:9400 for this machine only, 0.0.0.0:9400 for whoever can "
                "reach it, and port 0 for one of the system's choice"
            )
        return cls(found[1] or found[2], int(found[3]))

    def after(self, places: int) -> Address:
        """The address for another process on this machine: `places` ports further; port 0 stays. Raises AddressError
        above 65535.
        """
        port = self.port + places if self.port else 0
        if port > PORT_MAX:
            more = "1 more port" if places == 1 else f"{places} more ports"
            raise AddressError(f"{self}: {more} from there on would end above {PORT_MAX}; begin lower")
        return replace(self, port=port)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
