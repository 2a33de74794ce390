"""Event files, read back with a decoder of the wire format written here on its own."""

from __future__ import annotations

import struct
import subprocess
import sys
import wave
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import flambeau as torch

tensorboardX = pytest.importorskip("tensorboardX")

from flambeau.utils.tensorboard import FileWriter, SummaryWriter  # noqa: E402
from flambeau.utils.tensorboard.summary import hparams  # noqa: E402


def records(data: bytes) -> list[bytes]:
    """The records of a file; checksums are those of the `crc32c` below."""
    at, results = 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        body = data[at + 12 : at + 12 + length]
        for part, place in ((data[at : at + 8], at + 8), (body, at + 12 + length)):
            assert struct.unpack_from("<I", data, place)[0] == masked(crc32c(part))
        results.append(body)
        at += 16 + length
    return results


def crc32c(data: bytes) -> int:
    """RFC 3720's checksum, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def decode(data: bytes) -> dict[int, list]:
    """The fields of a message by number: ints, or raw bytes of what has a length or a width."""
    fields: dict[int, list] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 2: None, 5: 4}[kind]
            size = varint() if size is None else size
            value, at = data[at : at + size], at + size
        fields.setdefault(key >> 3, []).append(value)
    return fields


def events(path) -> list[dict[int, list]]:
    """All events of a file, or of the one file in a directory."""
    path = Path(path)
    if path.is_dir():
        (path,) = path.glob("events*")
    return [decode(record) for record in records(path.read_bytes())]


def values(path) -> list[tuple[int, str, dict[int, list]]]:
    """(step, tag, fields) of all values."""
    results = []
    for event in events(path):
        for summary in event.get(5, ()):
            for value in decode(summary)[1]:
                fields = decode(value)
                results.append((event.get(2, [0])[0], fields[1][0].decode(), fields))
    return results


def plugin(fields) -> tuple[str, bytes]:
    data = decode(decode(fields[9][0])[1][0])
    return data[1][0].decode(), data.get(2, [b""])[0]


def read_png(data: bytes) -> np.ndarray:
    """The pixels of a picture."""
    return np.asarray(Image.open(BytesIO(data)))


def test_without_tensorboardx_the_error_names_what_to_install():
    program = """
import sys
sys.modules["tensorboardX"] = None
try:
    import flambeau.utils.tensorboard
except ImportError as error:
    print(error.__notes__[0])
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], check=True, cwd=root,
                          capture_output=True, text=True)
    assert "pip install 'flambeau[tensorboard]'" in done.stdout


def test_events_reach_the_file_in_time(tmp_path):
    writer = SummaryWriter(tmp_path, max_queue=2)
    writer.add_scalar("a", 1.0)
    assert len(values(tmp_path)) == 0
    writer.add_scalar("a", 2.0)
    assert len(values(tmp_path)) == 2
    slow = SummaryWriter(tmp_path / "slow", max_queue=100, flush_secs=0)
    slow.add_scalar("a", 1.0)
    assert len(values(tmp_path / "slow")) == 1


def test_scalars(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 0.5, 3, walltime=12.5)
        writer.add_scalar("loss", torch.tensor([2.0]), -1)
        writer.add_scalar("new", 2.5, 1, new_style=True)
        writer.add_scalar("wide", 1e-300, 1, new_style=True, double_precision=True)
        writer.add_scalar("beyond", 1e39)
    first, second, *_ = events(tmp_path)
    assert first[3] == [b"brain.Event:2"]
    assert struct.unpack("<d", second[1][0]) == (12.5,)
    (s0, t0, loss), (s1, _, negative), (_, _, new), (_, _, wide), (_, _, beyond) = values(tmp_path)
    assert (s0, t0, struct.unpack("<f", loss[2][0])) == (3, "loss", (0.5,))
    assert s1 == 2**64 - 1
    assert struct.unpack("<f", negative[2][0]) == (2.0,)
    assert struct.unpack("<f", decode(new[8][0])[5][0]) == (2.5,)
    assert plugin(new)[0] == "scalars"
    assert struct.unpack("<d", decode(wide[8][0])[6][0]) == (1e-300,)
    assert struct.unpack("<f", beyond[2][0]) == (float("inf"),)
    with pytest.raises(AssertionError, match="0 dimensions"):
        writer.add_scalar("two", torch.ones(2))


def test_what_is_written_is_there_after_flush_and_kept_after_close(tmp_path):
    writer = SummaryWriter(tmp_path, max_queue=100)
    writer.add_scalar("a", 1.0)
    assert len(values(tmp_path)) == 0
    writer.flush()
    assert len(values(tmp_path)) == 1
    writer.close()
    writer.add_scalar("b", 1.0)
    writer.close()
    assert [tag for _, tag, _ in values(tmp_path)] == ["a", "b"]


def test_a_program_that_just_ends_loses_nothing(tmp_path):
    program = f"""
from flambeau.utils.tensorboard import SummaryWriter
from flambeau.utils.tensorboard.summary import hparams
writer = SummaryWriter({str(tmp_path)!r}, max_queue=1000)
writer.add_scalar("a", 1.0)
"""
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", program], check=True, cwd=root)
    assert len(values(tmp_path)) == 1


def test_default_directory_and_purge(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    writer = SummaryWriter(comment="_try", purge_step=7)
    writer.close()
    assert writer.log_dir.startswith("runs/")
    assert writer.log_dir.endswith("_try")
    restart = events(writer.log_dir)[1]
    assert restart[2] == [7]
    assert decode(restart[7][0])[1] == [1]


def test_several_curves_are_runs_of_their_own(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars("loss/x", {"train": 1.0, "valid": 2.0}, 5)
    for name, value in (("train", 1.0), ("valid", 2.0)):
        ((step, tag, fields),) = values(tmp_path / f"loss_x_{name}")
        assert (step, tag, struct.unpack("<f", fields[2][0])) == (5, "loss/x", (value,))


def test_histograms(tmp_path):
    data = np.random.default_rng(0).normal(size=1000)
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("default", torch.tensor(data), 1)
        writer.add_histogram("ten", data, 1, bins=10)
        writer.add_histogram("few", data, 1, max_bins=16)
        writer.add_histogram("whole", np.array([1, 1, 2, np.nan, np.inf]), 1, bins=[0, 1, 2, 3])
        with pytest.raises(ValueError, match="no finite element"):
            writer.add_histogram("none", np.array([]), 1)
    for _, tag, fields in values(tmp_path):
        proto = decode(fields[5][0])
        low, high, count, total, squares = (
            struct.unpack("<d", proto[i][0])[0] for i in range(1, 6)
        )
        limits, buckets = np.frombuffer(proto[6][0]), np.frombuffer(proto[7][0])
        wanted = np.array([1.0, 1.0, 2.0]) if tag == "whole" else data
        assert (low, high, count) == (wanted.min(), wanted.max(), wanted.size)
        assert total == pytest.approx(wanted.sum())
        assert squares == pytest.approx((wanted**2).sum())
        assert (np.diff(limits) > 0).all()
        assert buckets[0] == 0  # the left end of the first bucket
        counted = [int(((wanted >= a) & (wanted < b)).sum()) for a, b in pairwise(limits)]
        counted[-1] += int((wanted == limits[-1]).sum())  # the last bin is closed
        if tag != "whole":
            assert buckets[1:].tolist() == counted
        assert len(buckets) <= {"few": 17, "ten": 11}.get(tag, 1000)


def test_images(tmp_path):
    pixels = np.random.default_rng(0).random((3, 4, 5)).astype(np.float32)
    gray = np.arange(20, dtype=np.uint8).reshape(4, 5)
    batch = np.stack([np.full((1, 2, 2), i / 9, np.float32) for i in range(9)])
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("chw", torch.tensor(pixels), 1)
        writer.add_image("hwc", pixels.transpose(1, 2, 0), 1, dataformats="HWC")
        writer.add_image("hw", gray, 1, dataformats="HW")
        writer.add_images("grid", batch, 1)
        with pytest.raises(ValueError, match="names 3 axes"):
            writer.add_image("wrong", gray)
    results = {tag: decode(fields[4][0]) for _, tag, fields in values(tmp_path)}
    read = {tag: read_png(image[4][0]) for tag, image in results.items()}
    assert (read["chw"] == (pixels * 255).astype(np.uint8).transpose(1, 2, 0)).all()
    assert (read["hwc"] == read["chw"]).all()
    assert (read["hw"] == gray[..., None]).all()
    assert results["chw"][1] == [4]
    assert results["chw"][2] == [5]
    assert read["grid"].shape == (4, 16, 3)  # eight in a row, then one
    assert read["grid"][0, ::2, 0].tolist() == [int(np.float32(i / 9) * 255) for i in range(8)]
    assert read["grid"][2, 0, 0] == int(np.float32(8 / 9) * 255)


def test_text_sound_tensors(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("note", "**héllo**", 4)
        writer.add_audio("tone", torch.tensor([[0.0, 1.0, -2.0]]), 4, sample_rate=8000)
        writer.add_tensor("t", torch.arange(6.0).reshape(2, 3), 4)
    (_, note, text), (_, _, sound), (_, _, tensor) = values(tmp_path)
    assert note == "note/text_summary"
    assert decode(text[8][0])[8] == ["**héllo**".encode()]
    assert plugin(text)[0] == "text"
    with wave.open(BytesIO(decode(sound[6][0])[4][0])) as file:
        assert file.getframerate() == 8000
        assert np.frombuffer(file.readframes(9), "<i2").tolist() == [0, 32767, -32767]
    assert np.frombuffer(decode(tensor[8][0])[4][0], "<f4").tolist() == [0, 1, 2, 3, 4, 5]


def test_hyperparameters(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        chosen = {"lr": 0.1, "bn": True, "act": "relu", "none": None}
        writer.add_hparams(chosen, {"accuracy": 0.9}, {"act": ["relu", "gelu"]}, run_name="run")
        with pytest.raises(TypeError, match="dictionary"):
            writer.add_hparams([1], {})
        with pytest.raises(ValueError, match="int, float, str, bool"):
            writer.add_hparams({"a": [1, 2]}, {})
    results = {tag: fields for _, tag, fields in values(tmp_path / "run")}
    experiment = decode(decode(plugin(results["_hparams_/experiment"])[1])[2][0])
    infos = {decode(info)[1][0]: decode(info)[4][0] for info in experiment[4]}
    assert infos == {b"lr": 3, b"bn": 3, b"act": 1}
    start = decode(decode(plugin(results["_hparams_/session_start_info"])[1])[3][0])
    chosen = {decode(entry)[1][0]: decode(decode(entry)[2][0]) for entry in start[1]}
    assert struct.unpack("<d", chosen[b"lr"][2][0]) == (0.1,)
    assert struct.unpack("<d", chosen[b"bn"][2][0]) == (1.0,)  # a number, as PyTorch stores it
    assert chosen[b"act"] == {3: [b"relu"]}
    assert struct.unpack("<f", results["accuracy"][2][0])[0] == pytest.approx(0.9)


def test_hyperparameters_are_checked():
    parts = hparams({"lr": 0.1, "bn": True, "skip": None, "t": torch.ones(1)}, {"a": 1},
                    {"bn": [True, False]})
    assert [part.value[0].tag for part in parts] == [
        "_hparams_/experiment", "_hparams_/session_start_info", "_hparams_/session_end_info"]
    wrong = [([1], {}, None, "hparam_dict"), ({}, [1], None, "metric_dict"),
             ({}, {}, [1], "hparam_domain_discrete")]
    for chosen, metrics, discrete, argument in wrong:
        with pytest.raises(TypeError, match=f"parameter: {argument} should be a dictionary"):
            hparams(chosen, metrics, discrete)
    for discrete in ({"a": (1, 2)}, {"b": [1]}, {"a": ["x"]}):
        with pytest.raises(TypeError, match=r"should be a list of same type as hparam_dict\["):
            hparams({"a": 1}, {}, discrete)


def test_precision_recall_curve(tmp_path):
    labels, guesses = np.array([1, 0, 1, 0]), np.array([1.0, 0.6, 0.4, 0.0])
    with SummaryWriter(tmp_path) as writer:
        writer.add_pr_curve("pr", labels, guesses, 1, num_thresholds=3)  # at 0, 0.5, 1
    ((_, _, fields),) = values(tmp_path)
    rows = np.frombuffer(decode(fields[8][0])[5][0], "<f4").reshape(6, 3)
    assert rows[:4].tolist() == [[2, 1, 1], [2, 1, 0], [0, 1, 2], [0, 1, 1]]
    assert rows[4:].tolist() == [[0.5, 0.5, 1], [1, 0.5, 0.5]]


def test_embeddings(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(torch.arange(6.0).reshape(3, 2), ["a", "b\tc", "d"],
                             torch.rand(3, 3, 2, 2), 2, "words")
        with pytest.raises(ValueError, match="data points"):
            writer.add_embedding(torch.ones(3, 2), ["a"])
    folder = tmp_path / "00002" / "words"
    assert (folder / "tensors.tsv").read_text() == "0.0\t1.0\n2.0\t3.0\n4.0\t5.0\n"
    assert (folder / "metadata.tsv").read_text() == "a\nb c\nd\n"
    assert read_png((folder / "sprite.png").read_bytes()).shape == (4, 4, 3)
    assert (
        'tensor_path: "00002/words/tensors.tsv"'
        in (tmp_path / "projector_config.pbtxt").read_text()
    )


def test_what_is_not_there_says_so(tmp_path):
    writer = SummaryWriter(tmp_path)
    with pytest.raises(NotImplementedError, match="add_graph"):
        writer.add_graph(torch.nn.Linear(1, 1), torch.ones(1))


def test_videos_boxes_and_meshes(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_video("moving", torch.rand(2, 3, 3, 4, 5), 1, fps=10)
        corners = torch.tensor([[4, 4, 20, 20]])
        writer.add_image_with_boxes("box", torch.zeros(3, 32, 32), corners, 1)
        writer.add_mesh("mesh", torch.rand(1, 5, 3), faces=torch.zeros(1, 2, 3, dtype=torch.long))
    results = {tag: fields for _, tag, fields in values(tmp_path)}
    video = Image.open(BytesIO(decode(results["moving"][4][0])[4][0]))
    assert (video.n_frames, video.size, video.info["duration"]) == (3, (10, 4), 100)
    boxed = read_png(decode(results["box"][4][0])[4][0])
    assert boxed[4, 4:20].any(-1).all()
    assert not boxed[:3].any()
    assert np.frombuffer(decode(results["mesh_1"][8][0])[5][0], "<f4").size == 15
    assert plugin(results["mesh_2"])[0] == "mesh"


def test_two_writers_do_not_share_a_file(tmp_path):
    first, second = FileWriter(tmp_path), FileWriter(tmp_path)
    assert first.path != second.path
    assert first.get_logdir() == str(tmp_path)
    first.close()
    second.close()


def test_what_is_neither_array_nor_number_is_refused(tmp_path):
    writer = SummaryWriter(tmp_path)
    for value in ([1, 2], (1.0,), None, {}):
        with pytest.raises(NotImplementedError, match="numpy array or torch tensor are expected"):
            writer.add_scalar("loss", value)
    with pytest.raises(AssertionError, match="Tensor should contain one element"):
        writer.add_scalar("loss", torch.ones(2))
    writer.add_histogram_raw("raw", 0, 1, 2, 1, 1, [1, 2], [1, 2])
