"""Train your own network in your own loop with csg.TaskLoss. Run: python examples/custom_loop.py"""

import torch
from torch import nn

import pyomo_csg as csg
from pyomo_csg.zoo import newsvendor

torch.manual_seed(0)
contexts = torch.randn(1200, 2)  # temperature and uncertainty, say
demand = (
    20 + 4 * contexts[:, :1] + 3 * torch.exp(contexts[:, 1:]) * torch.randn(1200, 1)
)
outcomes = demand.clamp(min=0)  # (1200, 1)
train, test = slice(0, 1000), slice(1000, 1200)

network = nn.Sequential(
    nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 3), nn.Unflatten(1, (3, 1))
)
task_loss = csg.TaskLoss(newsvendor.build(price=2.0))
optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)

for _ in range(10):
    for batch in torch.randperm(1000).split(50):
        scenarios = (20 + 5 * network(contexts[batch])).clamp(min=0)
        loss = task_loss(scenarios, outcomes[batch]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

with torch.no_grad():
    scenarios = (20 + 5 * network(contexts[test])).clamp(min=0)
    constant = outcomes[train][None, ::10].expand(200, -1, -1)  # context-free SAA
    learned, saa = (-task_loss(z, outcomes[test]).mean() for z in (scenarios, constant))
print(
    f"Profit a day: {learned:.2f} with 3 learned scenarios, {saa:.2f} by context-free SAA"
)
