"""Yahoo Answers: questions with their best answers on ten topics, tokens shared out between the parties."""

from __future__ import annotations

from tune_vfl.data.base import dataset
from tune_vfl.data.sets.ag_news import SectionedTexts


@dataset("yahoo")
class Yahoo(SectionedTexts):
    """Title, question and best answer as 64 tokens, the first half at the passive party, the second with the labels.

    Fu et al., KDk and LADSG train BERT on it: ``model: {pretrained: bert-base-uncased}`` with the same ``tokenizer``.
    """

    summary = "1,400,000 + 60,000 questions on 10 topics as tokens; the first half of each text at the passive party"
    reference = "Zhang, Zhao, LeCun 2015, Yahoo! Answers topic classification"
    folder = "yahoo_answers"
    columns = 3
    classes = (
        "society",
        "science",
        "health",
        "education",
        "computers",
        "sports",
        "business",
        "entertainment",
        "family",
        "politics",
    )
    source = "the archive of Zhang, Zhao, LeCun 2015 (yahoo_answers_csv)"
