"""Contexts and outcomes from returns, or from a CSV file of prices."""

import numpy as np
import pandas as pd

import pyomo_csg as csg

from . import market

WINDOW, ENCODINGS = 78, 8


def from_prices(path, timestamp="timestamp", window=WINDOW, session=market.PERIODS):
    """Read a CSV file of prices into contexts and outcomes, cut as `windows` does.

    Parameters
    ----------
    path : str or path
        A column for each ticker, a header, and rows in time order.
    timestamp : str
        A column of times, if there is one.
    window, session : int
        As in `windows`.

    Raises
    ------
    csg.DataError
        Listing every price that cannot be used, by its row (the first under the header
        is row 1) and column.
    """
    table = _read(path)
    text = table.drop(columns=timestamp, errors="ignore")
    prices = text.apply(pd.to_numeric, errors="coerce").to_numpy(float)
    problems = list(_price_problems(text, prices))
    if timestamp in table:
        problems += _order_problems(table[timestamp])
    if len(prices) < window + 3:
        problems.append(
            f"{len(prices)} rows were found, and a window of {window} periods with "
            f"what comes before and after takes {window + 3}"
        )
    if problems:
        raise csg.DataError(f"Cannot use the prices in '{path}'", problems)
    return windows(prices[1:] / prices[:-1] - 1, window, session)


def windows(returns, window=WINDOW, session=market.PERIODS):
    """Cut returns (n, assets) into windows and the return that follows each.

    The paper's window i..i+W has W+1 columns; here it is i+1..i+W, which gives the same
    number of rows.

    Parameters
    ----------
    returns : array (n, assets)
        In time order.
    window : int
        Periods in a context.
    session : int
        Periods in a trading session; the first return is of a session's first period.

    Returns
    -------
    contexts : array (n - window - 1, window, assets + 8)
        Past returns, then the sinusoidal encoding of each one's period in its session.
    outcomes : array (n - window - 1, assets)
    """
    panel = np.hstack([returns, _encoding(np.arange(len(returns)) % session)])
    cut = np.lib.stride_tricks.sliding_window_view(panel[1:-1], window, axis=0)
    return cut.swapaxes(1, 2).copy(), returns[window + 1 :]


def _encoding(positions):
    """Return sines and cosines of a position (n, 8), as Vaswani et al. (2017) do."""
    angles = positions[:, None] / 10_000 ** (np.arange(0, ENCODINGS, 2) / ENCODINGS)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(-1, ENCODINGS)


def _read(path):
    """Return the cells as text; blank lines count as rows, except at the end."""
    try:
        table = pd.read_csv(path, dtype=str, skip_blank_lines=False)
    except ValueError as error:
        problem = str(error)
    else:
        if isinstance(table.index, pd.RangeIndex):
            return table.loc[: table.last_valid_index()]
        problem = "the rows hold more cells than the header"
    raise csg.DataError(f"Cannot read '{path}' as a table of prices", [problem])


def _price_problems(text, prices):
    if text.empty:
        yield "no prices were found: give a column for each ticker, under a header"
    for name, price in zip(text.columns, prices.T, strict=True):
        cells = text[name].to_numpy()
        if np.isnan(price).all() and not pd.isna(cells).all():
            yield (
                f"column '{name}' holds no number: if it holds times, "
                f"pass timestamp='{name}'"
            )
            continue
        for row in np.flatnonzero(~(np.isfinite(price) & (price > 0))):
            yield f"row {row + 1}, column '{name}': {_fault(cells[row], price[row])}"


def _fault(cell, price):
    if pd.isna(cell):
        return "the price is missing"
    if not np.isfinite(price):
        return f"'{cell}' is not a number"
    return f"{cell} is not above zero"


def _order_problems(times):
    """List the rows with a readable time that is not after that of the row before."""
    moments = pd.to_datetime(times, format="ISO8601", errors="coerce", utc=True)
    return [
        f"row {row + 1}, column '{times.name}': {times[row]} does not come after "
        f"{times[row - 1]}; put the rows in time order"
        for row in np.flatnonzero(moments.diff() <= pd.Timedelta(0))
    ]
