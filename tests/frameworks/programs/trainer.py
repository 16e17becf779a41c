"""transformers' Trainer with a process group that the program has made: trainer.py BACKEND"""
import sys
import tempfile

import outcome
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Numbers(torch.utils.data.Dataset):
    """Sequences, and whether their first number is the larger one of the first two."""

    def __len__(self):
        return 96

    def __getitem__(self, key):
        words = torch.randint(1, 30, (12,), generator=torch.Generator().manual_seed(key))
        return {"input_ids": words, "labels": int(words[0] > words[1])}


def main(backend):
    torch.distributed.init_process_group(backend)
    torch.manual_seed(3)
    model = BertForSequenceClassification(BertConfig(vocab_size=30, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                                     intermediate_size=64, max_position_embeddings=16))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, use_cpu=True, per_device_train_batch_size=8, num_train_epochs=2, report_to=[], save_strategy="no",
                                      eval_strategy="epoch", learning_rate=1e-3, seed=3, disable_tqdm=True)
        trainer = Trainer(model=model, args=arguments, train_dataset=Numbers(), eval_dataset=Numbers())
        assert trainer.args.world_size == torch.distributed.get_world_size() and torch.distributed.get_backend() == backend
        trainer.train()
        found = trainer.evaluate()["eval_loss"]
    outcome.tell(torch.distributed.get_rank(), f"{outcome.digest(model.parameters())} {found:.9g}")
    torch.distributed.destroy_process_group()


main(sys.argv[1])
