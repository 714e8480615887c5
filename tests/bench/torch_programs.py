# SPDX-License-Identifier: Apache-2.0
"""Programs whose operations tests/bench/torch_sampling.py compares: torch_programs.py NAME SECONDS

Each works for SECONDS of its CPU time in phases that the sampling of operations may miss: few long steps, many short ones, rollouts
without an optimizer, no optimizer at all. With TORCH_PROGRAMS_FIFO (for root) other work does not get their processor.
"""

import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


def transformer(until):
    """A decoder of four layers, AdamW, gradients clipped."""
    width, length, batch = 96, 48, 8
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    model = nn.ModuleDict({"embed": nn.Embedding(512, width), "body": nn.TransformerEncoder(layer, 4),
                           "head": nn.Linear(width, 512)})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    mask = nn.Transformer.generate_square_subsequent_mask(length)
    while time.process_time() < until:
        tokens = torch.randint(0, 512, (batch, length + 1))
        hidden = model["body"](model["embed"](tokens[:, :-1]), mask=mask, is_causal=True)
        loss = F.cross_entropy(model["head"](hidden).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        picture = torch.full((3, 16, 16), index / 512)
        return (picture - picture.mean()) / (picture.std() + 1), index % 10


def cnn(until):
    """Convolutions behind a DataLoader, and an evaluation after each epoch."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                          nn.Flatten(), nn.Linear(16, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = torch.utils.data.DataLoader(Pictures(), batch_size=16, shuffle=True)
    while time.process_time() < until:
        model.train()
        for pictures, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(pictures), labels).backward()
            optimizer.step()
            if time.process_time() > until:
                return
        model.eval()
        with torch.no_grad():
            for pictures, labels in loader:
                (model(pictures).argmax(1) == labels).float().mean()


def rl(until):
    """PPO: a rollout of 256 steps without an optimizer, then 16 optimizer calls."""
    policy = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
    actor, critic = nn.Linear(64, 4), nn.Linear(64, 1)
    parameters = [*policy.parameters(), *actor.parameters(), *critic.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=3e-4)
    transition = torch.randn(8, 8) * 0.3
    while time.process_time() < until:
        state, states, actions, rewards, logs, values = torch.randn(16, 8), [], [], [], [], []
        with torch.no_grad():
            for _ in range(256):
                hidden = policy(state)
                choice = torch.distributions.Categorical(logits=actor(hidden))
                action = choice.sample()
                states.append(state)
                actions.append(action)
                logs.append(choice.log_prob(action))
                values.append(critic(hidden).squeeze(-1))
                state = torch.tanh(state @ transition + action.unsqueeze(-1) * 0.1)
                rewards.append(-state.pow(2).sum(-1))
            gain, returns = torch.zeros(16), []
            for reward in reversed(rewards):
                gain = reward + 0.99 * gain
                returns.insert(0, gain)
        states, actions, logs = torch.cat(states), torch.cat(actions), torch.cat(logs)
        returns, values = torch.cat(returns), torch.cat(values)
        for _ in range(4):
            for part in torch.randperm(len(states)).chunk(4):
                hidden = policy(states[part])
                choice = torch.distributions.Categorical(logits=actor(hidden))
                ratio = (choice.log_prob(actions[part]) - logs[part]).exp()
                gains = returns[part] - values[part]
                loss = -torch.min(ratio * gains, ratio.clamp(0.8, 1.2) * gains).mean()
                loss = loss + F.mse_loss(critic(hidden).squeeze(-1), returns[part]) - 0.01 * choice.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if time.process_time() > until:
                return


def inference(until):
    """Two models in turns, a phase each, without a loader or an optimizer."""
    text = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), 2).eval()
    picture = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ReLU(),
                            nn.Flatten(), nn.Linear(8 * 25, 10)).eval()
    tokens, pictures = torch.randn(2, 16, 32), torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        while time.process_time() < until:
            for _ in range(300):
                text(tokens).softmax(-1).argmax(-1)
            for _ in range(300):
                picture((pictures - pictures.mean()) / pictures.std()).topk(3)


def lstm(until):
    """A recurrent network made of cells: very many very short operations in each step."""
    cell, head = nn.LSTMCell(16, 32), nn.Linear(32, 16)
    optimizer = torch.optim.RMSprop([*cell.parameters(), *head.parameters()], lr=1e-3)
    while time.process_time() < until:
        series = torch.randn(120, 8, 16)
        hidden, memory, loss = torch.zeros(8, 32), torch.zeros(8, 32), 0
        for value, following in zip(series[:-1], series[1:]):
            hidden, memory = cell(value, (hidden, memory))
            loss = loss + (head(hidden) - following).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def gan(until):
    """Two optimizers, gradients of four batches accumulated, and no loader."""
    maker = nn.Sequential(nn.Linear(16, 64), nn.LeakyReLU(0.2), nn.Linear(64, 32))
    judge = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(64, 1))
    of_maker = torch.optim.Adam(maker.parameters(), lr=2e-4)
    of_judge = torch.optim.Adam(judge.parameters(), lr=2e-4)
    ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
    while time.process_time() < until:
        of_judge.zero_grad()
        for _ in range(4):
            real, made = torch.randn(32, 32), maker(torch.randn(32, 16)).detach()
            (F.binary_cross_entropy_with_logits(judge(real), ones) +
             F.binary_cross_entropy_with_logits(judge(made), zeros)).backward()
        of_judge.step()
        of_maker.zero_grad()
        for _ in range(4):
            F.binary_cross_entropy_with_logits(judge(maker(torch.randn(32, 16))), ones).backward()
        of_maker.step()


PROGRAMS = {each.__name__: each for each in (transformer, cnn, rl, inference, lstm, gan)}

if __name__ == "__main__":
    torch.manual_seed(1)
    torch.set_num_threads(1)
    # The first optimizer imports for seconds.
    parameter = torch.zeros(1, requires_grad=True)
    parameter.sum().backward()
    torch.optim.Adam([parameter]).step()
    if os.environ.get("TORCH_PROGRAMS_FIFO"):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    PROGRAMS[sys.argv[1]](time.process_time() + float(sys.argv[2]))
