from pathlib import Path

import pytest
from transformers import AutoTokenizer, BertConfig, BertTokenizer, DebertaV2Config, PreTrainedConfig, RobertaConfig

from bertvision.errors import BertVisionError
from bertvision.pretrained import builtin_encoder_folder
from bertvision.tasks.token_rows import SECOND
from bertvision.tasks.tokenizer import TextTokenizer
from tiny_models import SAME_SEGMENT, tiny_tokenizer


def test_the_built_in_tokenizer_is_the_one_transformers_loads(tokenizer: TextTokenizer) -> None:
    usual = AutoTokenizer.from_pretrained(builtin_encoder_folder())
    texts = ["The naïve café — 12.50 £", "北京 is Beijing", "unaffable\tword", ""]
    ours = tokenizer.encode(texts)
    theirs = usual(texts, add_special_tokens=False, return_offsets_mapping=True)
    assert ours.ids.tolist() == [token for ids in theirs["input_ids"] for token in ids]
    assert ours.offsets.tolist() == [list(pair) for pairs in theirs["offset_mapping"] for pair in pairs]
    assert ours.lengths.tolist() == [len(ids) for ids in theirs["input_ids"]]


def test_texts_are_encoded_some_at_a_time_and_without_offsets_where_nobody_asks(
    tokenizer: TextTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["The naïve café", "", "北京", "unaffable word", ""]
    whole = tokenizer.encode(texts)
    monkeypatch.setattr("bertvision.tasks.tokenizer._AT_ONCE", 2)
    some, bare = tokenizer.encode(texts), tokenizer.encode(texts, offsets=False)
    assert [one.ids.tolist() for one in (some, bare)] == [whole.ids.tolist()] * 2
    assert [one.bounds.tolist() for one in (some, bare)] == [whole.bounds.tolist()] * 2
    assert some.offsets.tolist() == whole.offsets.tolist()
    assert bare.offsets.shape == (0, 2)
    assert tokenizer.encode([]).bounds.tolist() == [0]


def test_the_template_of_a_bert_tokenizer_is_read_off_it(tokenizer: TextTokenizer) -> None:
    assert (tokenizer.single.before.ids, tokenizer.single.between.ids, tokenizer.single.after.ids) == (
        (101,),
        (),
        (102,),
    )
    assert (tokenizer.pair.before.ids, tokenizer.pair.between.ids, tokenizer.pair.after.ids) == ((101,), (102,), (102,))
    assert tokenizer.pair.types == (0, 1)
    assert tokenizer.pair.after.types == (1,)


def test_a_second_text_that_has_the_segment_of_the_first_is_marked() -> None:
    backend = tiny_tokenizer().backend_tokenizer
    backend.post_processor = SAME_SEGMENT
    tokenizer = TextTokenizer(backend, limit=None)
    assert tokenizer.pair.types == (0, SECOND)
    assert tokenizer.single.types == (0,)
    assert [group.types for group in (tokenizer.pair.before, tokenizer.pair.between, tokenizer.pair.after)] == [
        (0,),
        (0, 0),
        (0,),
    ]


def test_word_pieces_are_given_as_strings(tokenizer: TextTokenizer) -> None:
    assert tokenizer.pieces(["Unaffable!", ""]) == [["una", "##ffa", "##ble", "!"], []]


def test_a_local_folder_gives_its_tokenizer_and_limit(tmp_path: Path) -> None:
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nada\nwrote\n")
    BertTokenizer(vocab=str(vocabulary), model_max_length=64).save_pretrained(tmp_path / "encoder")
    tokenizer = TextTokenizer.load(str(tmp_path / "encoder"))
    assert tokenizer.encode(["Ada wrote"]).ids.tolist() == [5, 6]
    assert tokenizer.limit == 64


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        (BertConfig(max_position_embeddings=48), 48),
        (RobertaConfig(max_position_embeddings=50, pad_token_id=1), 48),  # which counts from 2
        (DebertaV2Config(max_position_embeddings=48, position_biased_input=False), None),  # which knows distances alone
    ],
)
def test_a_tokenizer_without_a_limit_takes_that_of_the_encoders_positions(
    config: PreTrainedConfig, limit: int | None, tmp_path: Path
) -> None:
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nada\nwrote\n")
    config.save_pretrained(tmp_path / "encoder")
    BertTokenizer(vocab=str(vocabulary)).save_pretrained(tmp_path / "encoder")
    assert TextTokenizer.load(str(tmp_path / "encoder")).limit == limit


@pytest.mark.parametrize(("tokenizer_limit", "positions", "limit"), [(64, 48, 48), (48, 64, 48)])
def test_windows_are_as_long_as_both_tokenizer_and_positions_allow(
    tokenizer_limit: int, positions: int, limit: int, tmp_path: Path
) -> None:
    BertConfig(max_position_embeddings=positions).save_pretrained(tmp_path)
    tokenizer = tiny_tokenizer()
    tokenizer.model_max_length = tokenizer_limit
    tokenizer.save_pretrained(tmp_path)
    assert TextTokenizer.load(str(tmp_path)).limit == limit


def test_a_length_is_capped_at_what_the_encoder_takes(tokenizer: TextTokenizer) -> None:
    assert [tokenizer.capped(length) for length in (384, 512, 4096)] == [384, 512, 512]
    unlimited = TextTokenizer.load()
    unlimited.limit = None
    assert unlimited.capped(4096) == 4096


def test_a_tokenizer_that_fails_without_a_word_is_refused_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_place: str) -> None:
        raise ValueError

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", fail)
    with pytest.raises(BertVisionError, match=r"no tokenizer for encoder 'some/name' \(ValueError\)"):
        TextTokenizer.load("some/name")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("tokenizer.json", "{"),
        ("tokenizer.json", "{}"),
        ("tokenizer_config.json", "[]"),
        ("tokenizer_config.json", '{"model_max_length": "long"}'),
    ],
)
def test_damaged_files_of_a_tokenizer_are_an_error_of_ours(file: str, content: str, tmp_path: Path) -> None:
    BertConfig().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    (tmp_path / file).write_text(content, encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"no tokenizer for encoder .* Expected a folder with tokenizer.json"):
        TextTokenizer.load(str(tmp_path))


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=r"no tokenizer for encoder .* Expected a folder with tokenizer.json"):
        TextTokenizer.load(str(tmp_path))


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match="is not a folder"):
        TextTokenizer.load(str(tmp_path / "nowhere"))
