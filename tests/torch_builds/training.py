"""A small training whose operations, backward nodes and ranges are known."""

import sys

import torch

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randn(64, 2))
for epoch in range(5):
    for inputs, targets in torch.utils.data.DataLoader(data, batch_size=8):
        optimizer.zero_grad()
        with torch.autograd.profiler.record_function("named by the program"):
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
sys.stdout.write("%s %.6f\n" % (torch.__version__, loss.item()))
