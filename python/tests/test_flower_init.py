"""The project that `fedsi-flower init` writes."""

from __future__ import annotations

import ast
import re

import pytest

pytest.importorskip("flwr")

from fedsi.errors import ConfigError, FolderError
from fedsi.flower import ServerSettings, SiteFile
from fedsi.flower.command import main, write_project
from fedsi.flower.site_file import tomllib
from flwr.common.config import flatten_dict


@pytest.mark.parametrize("options", [[], ["--method", "fedper", "--dataset", "mnist"], ["--dataset", "files"], ["--torch"]])
def test_a_project_is_complete(tmp_path, options, capsys):
    folder = tmp_path / "My Federation 2"
    assert main(["init", str(folder), *options]) == 0
    assert "flwr run . local" in capsys.readouterr().out
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert project["project"]["name"] == "my-federation-2"
    app = project["tool"]["flwr"]["app"]
    # Every key is one that the server knows, and every one that it knows is there: Flower overrides no others.
    run_config = flatten_dict(app["config"])
    settings = ServerSettings.from_run_config(run_config, run=3)
    assert settings.min_sites == 3 and settings.folder.name == "my-federation-2-3"
    assert settings.config["method"] == ("fedper" if "fedper" in options else "fedsi")
    for component in app["components"].values():
        module, name = component.split(":")
        tree = ast.parse((folder / f"{module.replace('.', '/')}.py").read_text())
        assert any(isinstance(node, ast.Assign) and node.targets[0].id == name for node in tree.body)
    assert SiteFile.read(folder / "site.toml").name == "site-a"
    for file in folder.rglob("*"):
        if file.is_file():
            assert not re.search(r"@@\w+@@", file.read_text()), file


def test_only_code_travels(tmp_path):
    from flwr.cli.build import build_fab_from_disk

    write_project(tmp_path / "app")
    (tmp_path / "app" / "patients.json").write_text("{}")
    fab = build_fab_from_disk(tmp_path / "app")
    import io
    import zipfile

    names = zipfile.ZipFile(io.BytesIO(fab)).namelist()
    assert "federation/client_app.py" in names
    assert not [name for name in names if "patients" in name or name == "site.toml"]


def test_a_folder_that_holds_something_is_refused(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FolderError, match="is not empty"):
        write_project(tmp_path)
    assert main(["init", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt"]


@pytest.mark.parametrize(("options", "expected"), [({"method": "fedsy"}, "fedsi"), ({"dataset": "mnst"}, "mnist")])
def test_names_that_do_not_exist_are_refused_with_the_nearest(tmp_path, options, expected):
    with pytest.raises(ConfigError, match=expected):
        write_project(tmp_path / "app", **options)
    assert not (tmp_path / "app").exists()


def test_a_folder_whose_name_is_no_name_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="must begin with a letter"):
        write_project(tmp_path / "123")
