"""All bad input, table by table."""

from tests.reliability import (
    bad_baselines,
    bad_contexts,
    bad_evaluations,
    bad_files,
    bad_guarantees,
    bad_histories,
    bad_methods,
    bad_models,
    bad_numbers,
    bad_options,
    bad_programs,
)

TABLES = (
    bad_models,
    bad_programs,
    bad_histories,
    bad_contexts,
    bad_numbers,
    bad_options,
    bad_methods,
    bad_baselines,
    bad_evaluations,
    bad_guarantees,
    bad_files,
)
CASES = [case for table in TABLES for case in table.CASES]
