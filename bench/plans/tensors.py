#!/usr/bin/python3
"""The sizes of two models' tensors, in elements, from the formulas of their architectures.

    bench/plans/tensors.py        # writes resnet50.txt and bert_base.txt beside it, a size a line"""

import os

FOLDER = os.path.dirname(os.path.abspath(__file__))


def resnet50():
    """He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2015, table 1: 50 layers. Convolutions
    have no bias; each has a batch normalization with a scale and a shift. 161 tensors, 25,557,032 elements."""

    def convolution(inputs, outputs, side):
        return [outputs * inputs * side * side, outputs, outputs]

    sizes, inputs = convolution(3, 64, 7), 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            sizes += convolution(inputs, width, 1) + convolution(width, width, 3) + convolution(width, 4 * width, 1)
            if block == 0:
                sizes += convolution(inputs, 4 * width, 1)  # the projection of the shortcut
            inputs = 4 * width
    return sizes + [1000 * inputs, 1000]


def bert_base():
    """Devlin, Chang, Lee, Toutanova, "BERT: pre-training of deep bidirectional Transformers", 2018: 12 layers of
    width 768, 3072 inside; 30522 word pieces, 512 positions, 2 segments. 199 tensors, 109,482,240 elements."""
    width, inside = 768, 3072

    def dense(inputs, outputs):
        return [inputs * outputs, outputs]

    norm = [width, width]
    attention = 4 * dense(width, width) + norm  # query, key, value, output
    layer = attention + dense(width, inside) + dense(inside, width) + norm
    return [30522 * width, 512 * width, 2 * width] + norm + 12 * layer + dense(width, width)


MODELS = {"resnet50": (resnet50, 161, 25557032), "bert_base": (bert_base, 199, 109482240)}


def path_of(model):
    return os.path.join(FOLDER, model + ".txt")


def main():
    for model, (formula, tensors, elements) in MODELS.items():
        sizes = formula()
        assert (len(sizes), sum(sizes)) == (tensors, elements), model
        with open(path_of(model), "w") as file:
            file.writelines(f"{size}\n" for size in sizes)


if __name__ == "__main__":
    main()
