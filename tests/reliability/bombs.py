"""Small files that would be large: what they claim is refused before it is made."""

import json
import os
import struct
from pathlib import Path

import pyomo_csg as csg
from tests.reliability import mutations
from tests.reliability.hostile import PolicyFile, Stage


def policies(target: PolicyFile):
    """Yield by name the data of files that pretend to be this policy's."""
    stored, arrays = target.stored, target.arrays

    def changed(**content):
        changed = {**stored, "header": {**stored["header"], **content}}
        return target.forged(changed, arrays)

    network = stored["header"]["generator"]
    many = [str(i) for i in range(100_000)]
    yield "rows by columns", changed(history={"columns": many, "rows": [{}] * 100_000})
    yield "columns", changed(history={"columns": many, "rows": [{}] * 2000})
    yield "a context", changed(context_shape=[10**6, 10**6])
    yield "a panel", changed(context_shape=[5 * 10**5, 2])
    yield "names", changed(context_names=many)
    yield "numbers", changed(generator={**network, "numbers": 2**31 - 1})
    forecast = {"context_shape": [2], "numbers": 1, "hidden": [1], "positive": True}
    part = {"kind": "Forecast", "settings": {**forecast, "members": 2**31 - 1}}
    head = {"kind": "LocationScaleHead", "location": part, "scale": part}
    yield "forecasts", changed(generator={**network, "head": head})
    yield "contexts", changed(generator={**network, "contexts": 2**31 - 1})
    for size in (2**31 - 1, 2**62, 10**30):
        body = {"inputs": size, "shape": [size, size], "hidden": [size] * 60}
        described = {"kind": "Feedforward", "settings": body}
        yield f"units of {size}", changed(generator={**network, "body": described})
    yield "depth", _about(target, mutations.DEEP)
    yield "digits", _about(target, "9" * 5_000_000)
    yield "lists", _about(target, "[" + "[]," * 1_300_000 + "[]]")
    size = int.from_bytes(target.data[:8], "little")
    table = json.loads(target.data[8 : 8 + size])
    name = next(name for name in table if name != "__metadata__")
    for claim in (2**40, 2**62):
        table[name] = {"dtype": "F64", "shape": [claim], "data_offsets": [0, 8 * claim]}
        yield f"{8 * claim} bytes", mutations.sealed(table, target.data[8 + size :])
    for claim in (2**24, 2**40, 2**63):
        yield f"a header of {claim}", struct.pack("<Q", claim) + target.data[8:]


def _about(target: PolicyFile, text: str) -> bytes:
    size = int.from_bytes(target.data[:8], "little")
    table = json.loads(target.data[8 : 8 + size])
    (key,) = table["__metadata__"]
    table["__metadata__"] = {key: text}
    return mutations.sealed(table, target.data[8 + size :])


def refused(folder: Path) -> list[str]:
    """Return the names of all bombs, none of which has gone off."""
    (folder / "bombs").mkdir()
    target = PolicyFile(folder / "bombs")
    names = []
    for name, data in policies(target):
        names.append(name)
        _refuse(target, name, data)
    target.path.write_bytes(target.data)
    os.truncate(target.path, 2**42)  # of nothing: it takes no room
    _refuse(target, "a sparse file", None)
    stage = Stage(folder / "bombs")
    os.truncate(stage.path, 2**42)
    stage.read_again()
    return [*names, "a sparse file", "a sparse stage"]


def _refuse(target: PolicyFile, name: str, data: bytes | None) -> None:
    if data is not None:
        target.path.write_bytes(data)
    try:
        csg.load(target.path, target.model)
    except csg.CsgError:
        return
    raise AssertionError(f"the bomb '{name}' was loaded")
