"""The text side: a word-level tokenizer for the world's vocabulary and a small stock UMT5 encoder."""

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, UMT5Config, UMT5EncoderModel

from ..world.prompts import vocabulary

LENGTH = 24  # rows that the video model receives; rows after the end are zero, as in Wan


def tokenizer() -> PreTrainedTokenizerFast:
    words = ["<pad>", "</s>", "<unk>", *vocabulary()]
    backend = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    backend.normalizer = normalizers.Sequence(
        [normalizers.Lowercase(), normalizers.Replace(",", " "), normalizers.Replace(".", " ")]
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=LENGTH,
    )


def encoder(size: int) -> UMT5EncoderModel:
    config = UMT5Config(
        vocab_size=size, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, dropout_rate=0.0,
        pad_token_id=0, eos_token_id=1, relative_attention_num_buckets=16, relative_attention_max_distance=32,
    )  # fmt: skip
    return UMT5EncoderModel(config)
