"""The files for deploying a server: the script, the unit and the compose file say what the program takes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
import yaml

from engrambus.edges.http import check_exposure
from engrambus.settings import Settings
from tests.team_server.machines import COMMAND, SECONDS, free_port, make_certificates

DEPLOY = Path(__file__).parents[2] / "deploy"


def need(program: str) -> str:
    """Return the path of a program; skip where it is missing, and fail there in CI."""
    path = shutil.which(program)
    if path is None:
        assert os.environ.get("CI") != "true", f"{program} is missing"
        pytest.skip(f"{program} is not here")
    return path


def unit_settings() -> dict[str, list[str]]:
    """Return the settings of the unit, by name."""
    settings: dict[str, list[str]] = {}
    for line in (DEPLOY / "engrambus.service").read_text("utf-8").splitlines():
        name, mark, value = line.partition("=")
        if mark and not line.startswith("#"):
            settings.setdefault(name, []).append(value)
    return settings


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:  # YT-19
    program = need("systemd-analyze")
    text = (DEPLOY / "engrambus.service").read_text("utf-8")
    unit = tmp_path / "engrambus.service"
    unit.write_text(text.replace("/usr/local/bin/engrambus-serve", str(DEPLOY / "serve.sh")), "utf-8")
    done = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_units_script_serves_with_the_units_environment(tmp_path: Path) -> None:  # YT-19
    """What `ExecStart=` does, with systemd's folders in a temporary one."""
    state, credentials = tmp_path / "state", tmp_path / "credentials"
    certificates = make_certificates(credentials, "127.0.0.1", "bus.example")
    certificates.certificate.rename(credentials / "tls.pem")
    certificates.key.rename(credentials / "tls.key")
    for name in ("", "private", "state", "mirror.git"):
        (state / name).mkdir(mode=0o700, exist_ok=True, parents=True)
    environment = {"PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}"}
    for line in unit_settings()["Environment"]:
        name, _, value = line.partition("=")
        environment[name] = value.replace("/var/lib/engrambus", str(state)).replace("%d", str(credentials))
    environment |= {"ENGRAMBUS_ALLOW_HOST": "bus.example", "ENGRAMBUS_LISTEN": "127.0.0.1"}
    port = environment["ENGRAMBUS_PORT"] = str(free_port())
    folder = unit_settings()["WorkingDirectory"][0].replace("/var/lib/engrambus", str(state))
    with subprocess.Popen(
        [str(DEPLOY / "serve.sh")], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().decode() for _ in range(2)]
            assert any("Made the project" in line for line in lines), lines
            answer = ask_health(certificates.authority, int(port))
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) == 0
    assert answer == 200
    assert (state / "mirror.git" / "HEAD").is_file()
    assert [path.name for path in (state / "private").iterdir()]  # the journals are not in the mirror
    assert not list((state / "mirror.git").rglob("*.jsonl"))


def ask_health(authority: Path, port: int) -> int:
    """Return the status of the health check, once the server listens."""
    context = ssl.create_default_context(cafile=str(authority))
    deadline = time.monotonic() + SECONDS
    while True:
        connection = HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
        try:
            connection.request("GET", "/healthz", headers={"Host": f"bus.example:{port}"})
            return connection.getresponse().status
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        finally:
            connection.close()


@pytest.mark.parametrize("missing", ["ENGRAMBUS_ALLOW_HOST", "ENGRAMBUS_TLS_CERT", "ENGRAMBUS_TLS_KEY"])
def test_the_script_says_what_is_missing(tmp_path: Path, missing: str) -> None:
    environment = {
        "PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}", "HOME": str(tmp_path / "home"),
        "ENGRAMBUS_ALLOW_HOST": "bus.example", "ENGRAMBUS_TLS_CERT": "/cert", "ENGRAMBUS_TLS_KEY": "/key",
    }  # fmt: skip
    del environment[missing]
    folder = tmp_path / "mirror"
    folder.mkdir()
    done = subprocess.run(
        [str(DEPLOY / "serve.sh")], cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode
    assert missing in done.stderr


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))


def test_the_compose_file_exposes_the_gateway_only() -> None:  # YT-19
    services = compose()["services"]
    assert set(services) == {"gateway", "database", "objects"}
    assert [name for name, service in services.items() if "ports" in service] == ["gateway"]
    assert compose()["networks"]["stores"] == {"internal": True}
    assert set(services["gateway"]["depends_on"]) == {"database", "objects"}
    for name, service in services.items():
        assert service["volumes"], f"{name} would lose what it stores"
        assert service.get("healthcheck") or name == "gateway"  # whose image has one


def test_the_gateways_environment_is_what_is_read() -> None:
    read = (DEPLOY / "serve.sh").read_text("utf-8") + Path(sys.modules[Settings.__module__].__file__ or "").read_text(
        "utf-8"
    )
    later = {"ENGRAMBUS_STORE", "ENGRAMBUS_BODIES"}  # of the stores, which have pages of their own
    for name in compose()["services"]["gateway"]["environment"]:
        assert name.startswith("AWS_") or name in later or name in read, name


def test_every_variable_of_the_compose_file_is_in_the_example() -> None:
    used = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text("utf-8")))
    named = set(re.findall(r"^(\w+)=", (DEPLOY / "example.env").read_text("utf-8"), re.MULTILINE))
    assert used == named


def test_the_containers_start_is_one_that_is_refused_without_names_and_certificate() -> None:
    script = (DEPLOY / "serve.sh").read_text("utf-8")
    options = set(re.findall(r"--[a-z-]+", script))
    from engrambus.edges.cli.commands.up import up

    known = {flag for parameter in up.parameters for flag in parameter.opts}
    assert options <= known | {"--mirror", "--id"}
    assert check_exposure("127.0.0.1", ("bus.example",), None, None, "172.16.0.0/12").scheme == "https"


def test_the_container_file_copies_what_is_there() -> None:
    root = DEPLOY.parent
    text = (DEPLOY / "Containerfile").read_text("utf-8")
    copied = [line.split()[1:-1] for line in text.splitlines() if re.match(r"COPY (?!--from)", line)]
    for source in (source for sources in copied for source in sources):
        assert (root / source).exists(), source
    assert "USER engrambus" in text


def test_docker_takes_the_files() -> None:
    """Where a daemon runs; the image needs the network, so only the compose file is read."""
    docker = need("docker")
    if subprocess.run([docker, "compose", "version"], capture_output=True, timeout=SECONDS).returncode:
        pytest.skip("docker has no compose plugin here")
    variables = dict.fromkeys(re.findall(r"^(\w+)=", (DEPLOY / "example.env").read_text("utf-8"), re.M), "12345678")
    done = subprocess.run(
        [docker, "compose", "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"],
        env=os.environ | variables | {"TLS_CERT_FILE": "/c", "TLS_KEY_FILE": "/k", "ENGRAMBUS_PUBLISH": "7171"},
        capture_output=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
