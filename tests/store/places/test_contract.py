"""Every kind of place keeps the contract; addresses are taken, or refused with what to do."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.errors import BadArgument, ControlFolderError, MissingExtra
from headgate.store.folder import open_control_folder, used_control_folder, write_json
from headgate.store.places.aws_profile import shared_credentials
from headgate.store.places.place import ObjectPath, Place, control_place, place_from
from headgate.testing.store_contract import STORE_CHECKS, check_store


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda name: name.replace(" ", "-"))
def test_every_place_keeps_the_contract(place: Place, check: str) -> None:
    STORE_CHECKS[check](place)


def test_the_suite_says_which_check_failed(memory: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    from headgate.store.places.objects import Objects

    check_store(memory)
    # A store without conditional puts.
    monkeypatch.setattr(Objects, "create", lambda self, at, data: data)
    with pytest.raises(AssertionError, match="a name is created once"):
        check_store(memory / "again")
    with pytest.raises(ControlFolderError, match=r"conditional put"):
        open_control_folder(memory)


_CLAIMANT = """
import sys
from headgate.store.folder import claim_json
from headgate.store.places.place import control_place

sys.stdin.readline()
control = control_place(sys.argv[1])
print([claim_json(control / f"{n}.json", {"by": sys.argv[2]})["by"] for n in range(10)])
"""


def _race(control: str) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _CLAIMANT, control, str(n)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for n in range(3)
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = {racer.communicate(timeout=120)[0] for racer in racers}
    assert len(said) == 1, said
    assert said != {""}


def test_processes_agree_in_a_folder(tmp_path: Path) -> None:
    _race(str(tmp_path))


@pytest.mark.spark
def test_processes_agree_on_a_server(s3: str) -> None:
    _race(s3)


# ---------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("given", "root", "key"),
    [
        ("s3://bucket/a/b", "s3://bucket", "a/b"),
        ("s3a://bucket/a/", "s3a://bucket", "a"),
        ("gs://bucket", "gs://bucket", ""),
        ("az://container/x//y", "az://container", "x/y"),
        ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net", "x"),
    ],
)
def test_an_address_is_taken(given: str, root: str, key: str) -> None:
    found = control_place(given)
    assert found == ObjectPath(root, key)
    assert place_from(str(found)) == found == pickle.loads(pickle.dumps(found))
    inside = found / "gates" / "g.json"
    assert (inside.name, inside.stem, inside.suffix) == ("g.json", "g", ".json")
    assert inside.parent.name == "gates"
    assert place_from(str(inside)) == inside


@pytest.mark.parametrize(
    "given",
    [
        "s3://key:geheim@bucket/x", "s3://key@bucket/x", "s3://bucket/x?AWS_SECRET_ACCESS_KEY=geheim",
        "s3://bucket/x#geheim", "abfss://c:geheim@a.dfs.core.windows.net/x",
        "az://container/x?sig=geheim",
    ],
)  # fmt: skip
def test_credentials_in_an_address_are_refused_and_not_repeated(
    given: str, caplog: pytest.LogCaptureFixture
) -> None:
    for find in (open_control_folder, used_control_folder):
        with (
            caplog.at_level(logging.DEBUG),
            pytest.raises(ControlFolderError, match="environment") as refused,
        ):
            find(given)
        assert "geheim" not in str(refused.value)
        assert "geheim" not in caplog.text


@pytest.mark.parametrize("name", ["..", ".", "a/../b", "", "a//b"])
def test_no_name_leads_out_of_a_place(name: str) -> None:
    with pytest.raises(BadArgument, match="no name"):
        ObjectPath("s3://bucket", "control") / name


def test_an_address_that_climbs_is_refused() -> None:
    with pytest.raises(ControlFolderError, match=r"'\.\.'"):
        control_place("s3://bucket/a/../b")


def test_without_the_extra_the_call_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from headgate.store.places.objects import Objects

    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setattr(Objects, "_open", {})
    with pytest.raises(MissingExtra, match=r"headgate\[objects\]"):
        open_control_folder("s3://bucket/x")


@pytest.mark.parametrize(
    ("root", "kind"),
    [
        ("s3a://bucket", "S3Store"), ("gs://bucket", "GCSStore"), ("az://container", "AzureStore"),
        ("abfss://c@account.dfs.core.windows.net", "AzureStore"),
    ],
)  # fmt: skip
def test_every_kind_of_address_is_opened(root: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as that goes without a request: no such store is at hand but S3's."""
    pytest.importorskip("obstore")
    from headgate.store.places.objects import _opened

    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    assert type(_opened(root)).__name__ == kind


def test_a_store_that_nobody_answers_for_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    from headgate.store.places.objects import Objects

    monkeypatch.setattr(Objects, "_open", {})
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "geheim")
    with pytest.raises(ControlFolderError, match=r"cannot be used .*credentials") as refused:
        open_control_folder("s3://bucket/x")
    assert "geheim" not in str(refused.value)


def test_a_place_that_no_gate_has_used_is_refused(memory: ObjectPath) -> None:
    with pytest.raises(ControlFolderError, match="there is no"):
        used_control_folder(memory)
    write_json(memory / "other.json", {})
    with pytest.raises(ControlFolderError, match="no gate has used"):
        used_control_folder(memory)
    write_json(memory / "gates" / "g" / "gate.json", {})
    assert used_control_folder(memory) == memory


def test_the_standard_configuration_is_read_where_the_environment_is_silent(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = one\naws_secret_access_key = two\n"
        "[other]\naws_access_key_id = three\naws_secret_access_key = four\naws_session_token = five\n"
    )
    config = "[default]\nregion = eu-west-1\n[profile other]\nregion=x\n"
    (tmp_path / ".aws" / "config").write_text(config)
    home = {"HOME": str(tmp_path)}
    one = {"access_key_id": "one", "secret_access_key": "two", "region": "eu-west-1"}
    assert shared_credentials(home) == one
    other = shared_credentials({**home, "AWS_PROFILE": "other"})
    assert other == {
        "access_key_id": "three", "secret_access_key": "four", "session_token": "five", "region": "x",
    }  # fmt: skip
    assert shared_credentials({**home, "AWS_ACCESS_KEY_ID": "k", "AWS_REGION": "r"}) == {}
    assert shared_credentials({"HOME": str(tmp_path / "nobody")}) == {}
