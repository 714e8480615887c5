"""Iterations of reinforcement learning with several updates each: two_loops.py ITERATIONS UPDATES."""

import sys

import torch

torch.set_num_threads(1)
torch.manual_seed(0)
policy = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 4))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
for _ in range(int(sys.argv[1])):
    states, actions, rewards = [], [], []
    state = torch.randn(16, 8)
    with torch.no_grad():
        for _ in range(64):
            action = torch.distributions.Categorical(logits=policy(state)).sample()
            states.append(state)
            actions.append(action)
            rewards.append(state[:, 0] * (action == 1))
            state = state * 0.9 + torch.randn_like(state) * 0.1
    states, actions, rewards = torch.cat(states), torch.cat(actions), torch.cat(rewards)
    for _ in range(int(sys.argv[2])):
        chosen = torch.randint(0, len(states), (64,))
        policy_of = torch.distributions.Categorical(logits=policy(states[chosen]))
        loss = -(policy_of.log_prob(actions[chosen]) * rewards[chosen]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
