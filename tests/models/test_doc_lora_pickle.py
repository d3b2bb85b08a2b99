"""A published pickle is read; a hostile one does not run, whatever its shape."""

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from streamgen.errors import StreamgenError, UsageError
from streamgen.models.checkpoint import UnsafeWeightsError
from streamgen.models.doc_lora_pickle import HypernetConfig, read_pickle
from tests.golden.d2l_models import PICKLES, mended
from tests.models.hostile_pickles import CONFIG, RUNNABLE, Runs, archive, inside_the_fields, ran, text, touch


@pytest.mark.parametrize("program", RUNNABLE, ids=lambda f: f.__name__)
def test_what_would_run_is_refused_and_has_not_run(program: Callable[[Path], bytes], tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    archive(tmp_path / "pytorch_model.bin", program(mark))
    (tmp_path / "legacy.bin").write_bytes(program(mark))
    for name in ("pytorch_model.bin", "legacy.bin"):
        with pytest.raises(UnsafeWeightsError, match="was not read"):
            read_pickle(tmp_path / name)
    assert not mark.exists()
    pickle.loads(program(mark))  # the payload is a real one
    assert ran(mark)


@pytest.mark.parametrize(
    "program",
    [
        inside_the_fields,
        lambda mark: b"\x80\x02cctx_to_lora.modeling.hypernet\nHypernetConfig.__init__.__globals__\n.",
        lambda mark: b"\x80\x02c__builtin__\ngetattr\n" + CONFIG + text("__init__") + b"\x86R.",
        lambda mark: b"\x80\x02ctorch.hub\nload\n" + text("owner/name") + text("model") + b"\x86R.",
        lambda mark: b"\x80\x02ctorch.jit\nload\n" + text(str(mark)) + b"\x85R.",
        lambda mark: b"\x80\x02cnumpy.core.multiarray\nscalar\n.",
        lambda mark: b"\x80\x02ctypes\nFunctionType\n.",
        lambda mark: b"\x80\x02cpeft.utils.peft_types\nsomething\n.",
        lambda mark: b"\x80\x02\x82\x01.",  # a class by number, from the extension registry
        lambda mark: b"\x80\x02" + CONFIG + b"}" + text("fields") + text("x") + b"sb.",  # BUILD on the class
        lambda mark: b"\x80\x02" + text("not a storage") + b"Q.",
    ],
)
def test_gadgets_are_refused(program: Callable[[Path], bytes], tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    archive(tmp_path / "pytorch_model.bin", program(mark))
    with pytest.raises(UnsafeWeightsError, match="was not read"):
        read_pickle(tmp_path / "pytorch_model.bin")
    assert not mark.exists()


def test_what_a_program_allows_itself_elsewhere_is_not_allowed_here(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    archive(tmp_path / "pytorch_model.bin", pickle.dumps({"a": Runs(touch, str(mark))}, protocol=2))
    with torch.serialization.safe_globals([touch]):
        torch.load(tmp_path / "pytorch_model.bin", weights_only=True)
        assert mark.exists()
        mark.unlink()
        with pytest.raises(UnsafeWeightsError, match="touch"):
            read_pickle(tmp_path / "pytorch_model.bin")
    assert not mark.exists()


@pytest.mark.parametrize("program", RUNNABLE, ids=lambda f: f.__name__)
def test_the_look_through_the_names_is_a_guard_of_its_own(
    program: Callable[[Path], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that runs everything takes the place of torch's."""
    mark, load = tmp_path / "ran", torch.load
    monkeypatch.setattr(torch, "load", lambda file, **kinds: load(file, **{**kinds, "weights_only": False}))
    archive(tmp_path / "model.bin", program(mark))
    with pytest.raises(UnsafeWeightsError, match="was not read"):
        read_pickle(tmp_path / "model.bin")
    assert not mark.exists()


@pytest.mark.parametrize("name", ["collections.OrderedDict.touch", "my.torch.Size", "torch.Size.touch"])
def test_a_name_is_known_as_a_whole(name: str, tmp_path: Path) -> None:
    mark, asked = tmp_path / "ran", "\n".join(name.rsplit(".", 1)).encode()
    call = b"c" + asked + b"\n" + text(str(mark)) + b"\x85R"
    archive(tmp_path / "model.bin", b"\x80\x02}" + text("a") + call + b"s.")
    with torch.serialization.safe_globals([(touch, name)]):
        torch.load(tmp_path / "model.bin", weights_only=True)
        assert mark.exists()
        mark.unlink()
        with pytest.raises(UnsafeWeightsError, match=name):
            read_pickle(tmp_path / "model.bin")
    assert not mark.exists()


def behind_a_bare_pickle(path: Path, bad: object) -> None:
    """torch reads the front of this file, and readers of zip files its back."""
    front = io.BytesIO()
    torch.save(bad, front, _use_new_zipfile_serialization=False)
    path.write_bytes(front.getvalue())
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("archive/data.pkl", pickle.dumps({}, protocol=2))
        file.writestr("archive/version", "3\n")


def in_a_second_root(path: Path, bad: object) -> None:
    """Readers may differ in which root they take."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a/b/version", "3\n")
        file.writestr("a/b/data.pkl", pickle.dumps(bad, protocol=2))
        file.writestr("archive/data.pkl", pickle.dumps({}, protocol=2))


def in_other_letters(path: Path, bad: object) -> None:
    """torch finds entries by name in any case."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/version", "3\n")
        file.writestr("archive/DATA.PKL", pickle.dumps(bad, protocol=2))
        file.writestr("archive/data.pkl", pickle.dumps({}, protocol=2))


def twice(path: Path, bad: object) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/version", "3\n")
        for value in (bad, {}):
            file.writestr("archive/data.pkl", pickle.dumps(value, protocol=2))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("way", [behind_a_bare_pickle, in_a_second_root, in_other_letters, twice])
def test_what_is_looked_through_is_what_is_loaded(
    way: Callable[[Path, object], None], tmp_path: Path
) -> None:
    mark, path = tmp_path / "ran", tmp_path / "pytorch_model.bin"
    way(path, {"a": Runs(touch, str(mark))})
    with (
        torch.serialization.safe_globals([touch]),
        pytest.raises(UnsafeWeightsError, match="was not read"),
    ):
        read_pickle(path)
    assert not mark.exists()


def test_reading_leaves_nothing_allowed_behind(tmp_path: Path) -> None:
    before = set(torch.serialization.get_safe_globals())  # they come in any order
    read_pickle(mended(PICKLES[0], tmp_path))
    assert set(torch.serialization.get_safe_globals()) == before


def test_fields_are_data_and_never_attributes(tmp_path: Path) -> None:
    fields = {"__class__": "x", "__setstate__": "y", "fields": {}, "values": ["z"], "r": 4}
    state = pickle.dumps(fields, protocol=2)[2:-1]
    enum = b"cpeft.utils.peft_types\nTaskType\n" + text("CAUSAL_LM") + b"\x85R" + state + b"b"
    program = b"\x80\x02}(" + text("a") + CONFIG + b")\x81" + state + b"b" + text("b") + enum + b"u."
    archive(tmp_path / "model.bin", program)
    assert read_pickle(tmp_path / "model.bin") == {"a": fields, "b": "CAUSAL_LM"}
    stand_in = HypernetConfig()
    stand_in.__setstate__(fields)
    assert vars(stand_in) == {"values": (), "fields": fields}


def test_dataclasses_and_enums_without_anything_in_them_are_read(tmp_path: Path) -> None:
    enum = b"cpeft.utils.peft_types\nTaskType\n"
    pairs = text("a") + CONFIG + b")\x81" + text("b") + CONFIG + b")R" + text("c") + enum + b")\x81"
    archive(tmp_path / "model.bin", b"\x80\x02}(" + pairs + b"u.")
    assert read_pickle(tmp_path / "model.bin") == {"a": {}, "b": {}, "c": None}


def test_fields_that_are_no_dictionary_are_refused(tmp_path: Path) -> None:
    archive(tmp_path / "model.bin", b"\x80\x02}" + text("a") + CONFIG + b")\x81" + text("x") + b"bs.")
    with pytest.raises(UnsafeWeightsError, match="damaged"):
        read_pickle(tmp_path / "model.bin")


def test_a_torchscript_archive_is_refused(tmp_path: Path) -> None:
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(tmp_path / "model.bin"))
    with pytest.raises(UnsafeWeightsError, match="was not read"):
        read_pickle(tmp_path / "model.bin")


@pytest.mark.parametrize("damage", [lambda data: data[:3000], lambda data: b"", lambda data: b"hello" * 99])
def test_a_damaged_file_is_one_sentence(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = mended(PICKLES[0], tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UnsafeWeightsError, match="damaged"):
        read_pickle(path)


def test_a_wrong_byte_in_the_pickle_is_one_sentence(tmp_path: Path) -> None:
    path = mended(PICKLES[0], tmp_path)
    data = path.read_bytes()
    place = data.index(b"hypernet_config")
    path.write_bytes(data[:place] + b"\xc7" * 8 + data[place + 8 :])
    with pytest.raises(StreamgenError):
        read_pickle(path)


def test_a_missing_file_and_a_file_of_something_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"There is no .*model\.bin"):
        read_pickle(tmp_path / "model.bin")
    torch.save([torch.ones(1)], tmp_path / "model.bin")
    with pytest.raises(UsageError, match="holds a list"):
        read_pickle(tmp_path / "model.bin")


def test_dataclasses_come_as_dictionaries_and_enums_as_their_values(tmp_path: Path) -> None:
    tree = read_pickle(mended(PICKLES[0], tmp_path))
    assert tree["hypernet_config"]["lora_config"]["peft_type"] == "LORA"
    assert tree["hypernet_config"]["lora_config"]["target_modules"] == {"down_proj"}
    assert tree["hypernet_config"]["aggregator_config"]["aggregator_type"] == "perceiver"
    assert tree["ctx_encoder_args"]["quantize_ctx_encoder"] is False


def test_tensors_of_every_usual_type_are_read(tmp_path: Path) -> None:
    kinds = (torch.bfloat16, torch.float16, torch.float32, torch.int64)
    state = OrderedDict((str(kind), torch.arange(3).to(kind)) for kind in kinds)
    torch.save(state, tmp_path / "model.bin")
    found = read_pickle(tmp_path / "model.bin")
    assert all(torch.equal(found[name], tensor) for name, tensor in state.items())
