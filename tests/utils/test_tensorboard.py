"""Event files, read back with a decoder of the wire format written here on its own."""

from __future__ import annotations

import struct
import subprocess
import sys
import wave
import zlib
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils.tensorboard import FileWriter, SummaryWriter
from flambeau.utils.tensorboard import records as tfrecord


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
    return [decode(record) for record in tfrecord.records(path.read_bytes())]


def values(path) -> list[tuple[int, str, dict[int, list]]]:
    """(step, tag, fields) of all values."""
    found = []
    for event in events(path):
        for summary in event.get(5, ()):
            for value in decode(summary)[1]:
                fields = decode(value)
                found.append((event.get(2, [0])[0], fields[1][0].decode(), fields))
    return found


def plugin(fields) -> tuple[str, bytes]:
    data = decode(decode(fields[9][0])[1][0])
    return data[1][0].decode(), data.get(2, [b""])[0]


def read_png(data: bytes) -> np.ndarray:
    """The pixels of a PNG whose rows have no filter."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body = 8, b""
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        name, chunk = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length)[0] == zlib.crc32(name + chunk)
        if name == b"IHDR":
            width, height, _, kind = struct.unpack_from(">IIBB", chunk)
        body += chunk if name == b"IDAT" else b""
        at += 12 + length
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[kind]
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, -1)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(height, width, channels)


def test_crc32c():
    assert tfrecord.crc32c(b"") == 0
    assert tfrecord.crc32c(b"123456789") == 0xE3069283  # RFC 3720
    assert tfrecord.crc32c(bytes(32)) == 0x8A9136AA
    assert tfrecord.crc32c(bytes(range(32))) == 0x46DD794E
    assert tfrecord.masked(b"123456789") == 0xC78AB0E5  # what TensorBoard says


def test_events_reach_the_file_in_time(tmp_path):
    writer = SummaryWriter(tmp_path, max_queue=2)
    writer.add_scalar("a", 1.0)
    assert len(values(tmp_path)) == 0
    writer.add_scalar("a", 2.0)
    assert len(values(tmp_path)) == 2
    slow = SummaryWriter(tmp_path / "slow", max_queue=100, flush_secs=0)
    slow.add_scalar("a", 1.0)
    assert len(values(tmp_path / "slow")) == 1


@pytest.mark.parametrize("length", [8192, 8193, 20000])
def test_crc32c_of_long_data_is_that_of_short_steps(length, monkeypatch):
    data = np.random.default_rng(0).bytes(length)
    fast = tfrecord.crc32c(data)
    monkeypatch.setattr(tfrecord, "_LONG", 1 << 60)
    assert tfrecord.crc32c(data) == fast


def test_records_notice_damage():
    file = BytesIO()
    writer = tfrecord.RecordWriter(file)
    writer.write(b"one")
    writer.write(b"two")
    data = file.getvalue()
    assert list(tfrecord.records(data)) == [b"one", b"two"]
    assert list(tfrecord.records(data[:-1])) == [b"one"]  # a run that was killed
    with pytest.raises(ValueError, match="checksum"):
        list(tfrecord.records(data.replace(b"one", b"ome")))


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
    with pytest.raises(AssertionError, match="0D"):
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
    found = {tag: decode(fields[4][0]) for _, tag, fields in values(tmp_path)}
    read = {tag: read_png(image[4][0]) for tag, image in found.items()}
    assert (read["chw"] == (pixels * 255).astype(np.uint8).transpose(1, 2, 0)).all()
    assert (read["hwc"] == read["chw"]).all()
    assert (read["hw"] == gray[..., None]).all()
    assert found["chw"][1] == [4]
    assert found["chw"][2] == [5]
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
    found = {tag: fields for _, tag, fields in values(tmp_path / "run")}
    experiment = decode(decode(plugin(found["_hparams_/experiment"])[1])[2][0])
    infos = {decode(info)[1][0]: decode(info)[4][0] for info in experiment[4]}
    assert infos == {b"lr": 3, b"bn": 2, b"act": 1}
    start = decode(decode(plugin(found["_hparams_/session_start_info"])[1])[3][0])
    chosen = {decode(entry)[1][0]: decode(decode(entry)[2][0]) for entry in start[1]}
    assert struct.unpack("<d", chosen[b"lr"][2][0]) == (0.1,)
    assert chosen[b"bn"] == {4: [1]}
    assert chosen[b"act"] == {3: [b"relu"]}
    assert struct.unpack("<f", found["accuracy"][2][0])[0] == pytest.approx(0.9)


def test_precision_recall_curve(tmp_path):
    labels, guesses = np.array([1, 0, 1, 0]), np.array([1.0, 0.6, 0.4, 0.0])
    with SummaryWriter(tmp_path) as writer:
        writer.add_pr_curve("pr", labels, guesses, 1, num_thresholds=3)  # at 0, 0.5, 1
    ((_, _, fields),) = values(tmp_path)
    rows = np.frombuffer(decode(fields[8][0])[4][0], "<f4").reshape(6, 3)
    assert rows[:4].tolist() == [[2, 1, 1], [2, 1, 0], [0, 1, 2], [0, 1, 1]]
    assert rows[4:].tolist() == [[0.5, 0.5, 1], [1, 0.5, 0.5]]


def test_embeddings(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(torch.arange(6.0).reshape(3, 2), ["a", "b\tc", "d"],
                             torch.rand(3, 3, 2, 2), 2, "words")  # fmt: skip
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
    with SummaryWriter(tmp_path) as writer:
        for name in ("add_graph", "add_video", "add_mesh"):
            with pytest.raises(NotImplementedError, match=name):
                getattr(writer, name)("tag", None)


def test_two_writers_do_not_share_a_file(tmp_path):
    one, two = FileWriter(tmp_path), FileWriter(tmp_path)
    assert one.path != two.path
    assert one.get_logdir() == str(tmp_path)
    one.close()
    two.close()
