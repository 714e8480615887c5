# SPDX-License-Identifier: Apache-2.0
"""GPT-2 of the library transformers, its own Trainer, weights and words made up: a training as people write it.

gpt2_trainer.py DIR [STEPS]   DIR is for the Trainer's own files; prints the loss
TORCH_DEVICE=cpu tries the script, with a smaller model, where there is no GPU.
"""

import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402

place, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40
on_gpu = os.environ.get("TORCH_DEVICE", "cuda") == "cuda"
words, length = 8192, 512 if on_gpu else 32


class Words(torch.utils.data.Dataset):
    """Made up anew for each item, as a tokenizer would."""

    def __len__(self):
        return 4096

    def __getitem__(self, number):
        generator = torch.Generator().manual_seed(number)
        ids = torch.randint(0, words, (length,), generator=generator)
        return {"input_ids": ids, "labels": ids}


transformers.set_seed(7)
size = {"n_embd": 768, "n_layer": 12, "n_head": 12} if on_gpu else {"n_embd": 32, "n_layer": 2, "n_head": 2}
config = transformers.GPT2Config(vocab_size=words, n_positions=length, bos_token_id=0, eos_token_id=0, **size)
arguments = transformers.TrainingArguments(
    output_dir=place,
    max_steps=steps,
    per_device_train_batch_size=16 if on_gpu else 2,
    dataloader_num_workers=2,
    logging_steps=10,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
    bf16=on_gpu,
    use_cpu=not on_gpu,
)
trainer = transformers.Trainer(
    model=transformers.GPT2LMHeadModel(config), args=arguments, train_dataset=Words()
)
ended = trainer.train()
print(f"steps={ended.global_step}\nloss={ended.training_loss:.3f}")
