"""Capabilities of a path, and the doctor."""

import json
import os

import pytest

import uncopy


def test_capabilities(place):
    found = uncopy.capabilities(place)
    assert found.path == os.fspath(place) and found.filesystem and found.device.kind
    for name in ("reflink", "copy_file_range", "direct", "holes", "rename_noreplace"):
        answer = getattr(found, name)
        assert answer.works in (True, False, None)
        assert (answer.reason is None) == (answer.works is True), name
    facts = found.to_dict()
    assert json.loads(json.dumps(facts)) == facts
    facts["device"]["kind"] = "changed"
    assert found.device.kind != "changed"
    assert repr(found).startswith("<uncopy.Capabilities ")
    assert "filesystem" in dir(found)
    with pytest.raises(AttributeError, match="no fact"):
        found.missing
    with pytest.raises(AttributeError):
        found.path = "changed"
    with pytest.raises(FileNotFoundError):
        uncopy.capabilities("missing/missing")


def test_the_doctor_of_copies(place):
    with open("a", "wb") as file:
        file.write(os.urandom(1 << 20))
    report = uncopy.doctor("a", b"b")
    assert report.verdict in ("zero_copy", "limited", "copied", "unknown")
    assert report.headline in repr(report)
    assert os.listdir() == ["a"]
    assert {tried.mechanism for tried in report.mechanisms} >= {"reflink", "read_write"}
    for finding in report.findings:
        assert finding.id and finding.summary and finding.effect and finding.severity
    assert json.loads(json.dumps(report.to_dict())) == report.to_dict()
    with pytest.raises(FileNotFoundError):
        uncopy.doctor("missing", "b")


def test_the_doctor_of_tcp():
    report = uncopy.doctor_tcp("127.0.0.1:9")
    assert report.verdict == "copied" and report.target == "tcp://127.0.0.1:9"
    assert any(finding.evidence for finding in report.findings)
    for bad in ("127.0.0.1", "", ":", "127.0.0.1:x", "127.0.0.1:99999"):
        with pytest.raises(ValueError):
            uncopy.doctor_tcp(bad)
