"""The losses under the names and calls of the libraries people train with.

Each module here takes the place of one library's loss, so that changing the import line is the
whole migration; none is imported unless asked for, and each needs its library installed:

===========================  ===================================  ================================
module                       takes the place of                   scores
===========================  ===================================  ================================
``lightly``                  ``lightly.loss.NTXentLoss``          two views, or a memory bank
``metric_learning``          ``pytorch_metric_learning.losses``'  positive pairs given by labels
                             ``NTXentLoss``
``open_clip``                ``open_clip.loss.ClipLoss``          images and texts, both ways
``sentence_transformers``    ``MultipleNegativesRankingLoss``     sentences and their candidates
===========================  ===================================  ================================

All take one keyword more, ``correction``: the tail settings of WEINCE or the name of a preset, by
default the paper's. With ``correction=None`` each is its library's own InfoNCE, value and gradient.
"""
