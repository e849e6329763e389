"""What ingresses report in an app's status topic, as JSON beside the statuses of replicas."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from borealis_py.log.numbers import Number


class IngressRole(StrEnum):
    """What an ingress does for one foreign topic."""

    STARTING = "starting"
    """It has not read the source's own topic to its end yet."""
    OWNER = "owner"
    """It copies the topic."""
    STANDBY = "standby"
    """It reads what the owner writes, and takes over when nothing comes any more."""
    ENDED = "ended"
    """END is in the source's own topic: there is nothing left to copy."""
    STOPPED = "stopped"
    """It has ended; `detail` says why."""


class IngressInput(msgspec.Struct, frozen=True):
    """One input of an ingress, as its status reports it."""

    name: str
    """What labels and tables call it: `orders.0` for partition 0 of the source that it writes, or `orders.berlin` with
    `by=`."""
    feeds: str
    """What of the topic it is: a partition, or a value of the column `by`."""
    boundary_us: Number
    """The last boundary that it sent: no later row has a time below it (microseconds since 1970); 0: none yet."""
    lag: Number | None
    """Records that have not been copied yet, of all partitions of the topic that it takes from; null: the topic's end
    cannot be told."""
    rows: Number
    """Rows copied since this ingress became the owner."""
    late: Number
    """Rows that came after their boundary: dead letters."""
    dead: Number
    """Other records that it could not use: dead letters."""
    missing: str = ""
    """Why the input is missing now; "": it is not."""
    unreadable: tuple[Number, ...] = ()
    """Partitions of the topic that it takes from and that cannot be read now."""
    given_up: tuple[Number, ...] = ()
    """Partitions of the topic that it takes from and does not wait for: users gave them up, or they are gone."""
    misread: str = ""
    """How the times of refused rows seem to be read wrong, like in another unit; "": nothing says so."""


class AbsentField(msgspec.Struct, frozen=True):
    """A column that no record of the topic has had since this ingress began to read: not as a null either."""

    name: str
    """The column."""
    records: Number
    """How many records had none."""
    near: str = ""
    """A field that they have instead, as a schema names it; "": none is near."""
    field: str = ""
    """The field that the column is, as a schema names it; "": that of its name."""


class IngressStatus(msgspec.Struct, frozen=True):
    """What an ingress reports in the status topic under `ingress/<source>/<index>`: once a second and when its role
    changes."""

    source: str
    """The source that it writes."""
    ingress: Number
    """The ingress's index, from 0."""
    topic: str
    """The foreign topic that it reads."""
    cluster: str
    """The name of that topic's cluster; "": the app's own."""
    role: IngressRole
    """What it does: starting, owner, standby, ended or stopped."""
    uid: str
    """Random id of this incarnation."""
    pid: Number
    """Process id."""
    host: str
    """Name of the machine on which `pid` runs."""
    at_wall_us: Number
    """When it reported this, by its own clock: microseconds since 1970."""
    inputs: tuple[IngressInput, ...]
    """Of an owner: its inputs, in their order; of others: none."""
    detail: str = ""
    """Why it is in this role, or what it waits for; "": nothing worth saying."""
    http: str = ""
    """Address at which its process answers HTTP; "": none."""
    expect_us: Number | None = None
    """After how much silence it calls an input missing, in microseconds; null: silence means that nothing happened."""
    skipped: tuple[Number, ...] = ()
    """Partitions of the topic that users gave up (`borealis source skip`), as far as it has read that."""
    ending: bool = False
    """Users have set that the source is to end (`borealis source end`), and it has read that."""
    absent: tuple[AbsentField, ...] = ()
    """Of an owner: columns that no record of the topic has had: those with a near name, others after 100 records."""
    clock_ahead_us: int | None = None
    """By how much its machine's clock is ahead of the broker's at least, in microseconds; negative: behind; null: not
    known yet. Ahead, rows come late; behind, the source waits."""

    @property
    def reads_its_source(self) -> bool:
        """Whether it has started: it copies, or would take over, or has nothing left to do."""
        return self.role in (IngressRole.OWNER, IngressRole.STANDBY, IngressRole.ENDED)


def is_of_ingress(key: bytes | None) -> bool:
    """Whether a record of the status topic has an ingress's key."""
    return (key or b"").startswith(b"ingress/") and (key or b"").count(b"/") == 2


def status_key(source: str, ingress: int) -> bytes:
    """Key of an ingress's statuses."""
    return f"ingress/{source}/{ingress}".encode()
