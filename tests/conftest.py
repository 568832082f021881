"""Settings that every test shares."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci")
