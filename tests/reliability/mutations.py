"""Random changes of valid files, as an attacker or a bad disk would make them.

Raw changes ignore the format. Forged files are valid, including the checksum, except for one
entry or one number.
"""

import json
import struct

import numpy as np

DEEP = "[" * 100_000
ABSURD = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        1.5,
        -0.0,
        10**9,
        2**31,
        2**63,
        10**30,
        -(10**30),
    ),
    *(float("nan"), float("inf"), -float("inf"), 1e308, 5e-324),
    *("", "x", "../../etc/passwd", "\0", "\ud800", "NaN", "__class__", "A" * 10_000),
    *([], [[]], {}, {"": None}, [0] * 1000, [2**31] * 9, [None], ["a", "a"]),
    *({"kind": "custom", "class": "os.system"}, {"$ref": "file:///etc/passwd"}),
]
NUMBERS = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e150, 0.0, -1.0, 5e-324]
DTYPES = ["F64", "F32", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "C64", "X", 7]


def raw(data: bytes, rng: np.random.Generator) -> bytes:
    """Return bytes with some of them flipped, removed, moved or inserted."""
    out, size = bytearray(data), len(data)
    kind = rng.integers(7)
    if kind == 0:
        for place in rng.integers(size, size=rng.integers(1, 9)):
            out[place] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        for place in rng.integers(size, size=rng.integers(1, 5)):
            out[place] = int(rng.integers(256))
    elif kind == 2:
        del out[int(rng.integers(size)) :]
    elif kind == 3:
        start, length, to = rng.integers(size), rng.integers(1, 400), rng.integers(size)
        out[to : to + length] = out[start : start + length]
    elif kind == 4:
        at = int(rng.integers(size))
        out[at:at] = rng.bytes(int(rng.integers(1, 200)))
    elif kind == 5:
        start = int(rng.integers(size))
        del out[start : start + int(rng.integers(1, 200))]
    else:
        header = [0, 1, 7, size, 2**24, 2**31, 2**40, 2**63, 2**64 - 1]
        out[:8] = struct.pack("<Q", int(rng.choice(np.array(header, dtype=object))))
    return bytes(out)


def altered(tree, rng: np.random.Generator):
    """Return JSON with one entry replaced, removed, renamed or repeated."""
    tree = json.loads(json.dumps(tree))
    holder, key = _entries(tree)[int(rng.integers(len(_entries(tree))))]
    absurd = ABSURD[int(rng.integers(len(ABSURD)))]
    kind = rng.integers(5)
    if kind <= 2:
        holder[key] = absurd
    elif kind == 3 and isinstance(holder, dict):
        holder[f"{key}{key}"] = holder.pop(key)
    elif isinstance(holder, list):
        holder.extend([holder[key]] * 50)
    else:
        del holder[key]
    return tree


def _entries(tree, found=None):
    """Return all entries of JSON as (container, key)."""
    found = [] if found is None else found
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        found.append((tree, key))
        if isinstance(value, dict | list):
            _entries(value, found)
    return found


def numbers(arrays, rng: np.random.Generator):
    """Return arrays with one number, shape, type or name changed."""
    arrays = {name: np.array(array) for name, array in arrays.items()}
    name = sorted(arrays)[int(rng.integers(len(arrays)))]
    kind, array = rng.integers(5), arrays[name]
    if kind <= 1 and array.size and array.dtype.kind == "f":
        place = int(rng.integers(array.size))
        array.reshape(-1)[place] = NUMBERS[int(rng.integers(len(NUMBERS)))]
    elif kind == 2:
        arrays[name] = (
            array.reshape(*array.shape, 1)
            if rng.random() < 0.5
            else array.reshape(-1)[:-1]
        )
    elif kind == 3:
        with np.errstate(invalid="ignore"):
            kinds = [np.float32, np.int64, bool]
            arrays[name] = array.astype(kinds[int(rng.integers(3))])
    else:
        arrays[f"{name}{rng.integers(3)}"] = arrays.pop(name)
    return {name: np.array(array, order="C") for name, array in arrays.items()}


def table(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a safetensors file whose table of tensors is wrong."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    names = [name for name in header if name != "__metadata__"]
    entry = header[names[int(rng.integers(len(names)))]]
    kind, huge = rng.integers(4), [0, 1, -1, 2**31, 2**40, 2**62, 10**30]
    wrong = huge[int(rng.integers(len(huge)))]
    if kind == 0:
        entry["dtype"] = DTYPES[int(rng.integers(len(DTYPES)))]
    elif kind == 1:
        entry["shape"] = [wrong] * int(rng.integers(1, 4))
    elif kind == 2:
        entry["data_offsets"] = [entry["data_offsets"][0], wrong]
    else:
        header = altered(header, rng)
    return sealed(header, data[8 + size :])


def sealed(header, rest: bytes) -> bytes:
    """Return a safetensors file with any header and any bytes."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + rest
